use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, MapBuilder, RecordBatch, StringBuilder, TimestampMillisecondArray};
use parquet::arrow::ArrowWriter;
use service::Kind;

use super::Rows;

/// Every row of a file: its number and its fields, or why not.
fn all(path: &Path) -> Vec<(u64, String)> {
    let mut rows = Rows::open(path).expect("opened");
    let mut found = Vec::new();
    while rows
        .next(path, &mut |number, record| {
            let text = match record {
                Ok(record) => {
                    record.fields().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
                }
                Err(refusal) => refusal.0,
            };
            found.push((number, text));
            Ok(())
        })
        .expect("read")
    {}
    found
}

fn write(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    path
}

const TEXT: &[u8] = b"a,b\n1,\"two\nlines\"\n3\n4,NULL\n\xff,5\n6,7\n";

/// A line that is broken is refused by its number, and those after it are read.
#[test]
fn a_csv_is_read_line_by_line_packed_or_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let expected =
        [(2, "a=1 b=two\nlines"), (4, "1 fields, but 2 columns"), (5, "a=4"), (6, "it is not UTF-8"), (7, "a=6 b=7")];
    let expected: Vec<_> = expected.into_iter().map(|(line, text)| (line, text.to_owned())).collect();
    assert_eq!(all(&write(&folder, "plain.csv", TEXT)), expected);
    // two members, as tools that append write them
    let mut packed = Vec::new();
    for half in [&TEXT[..9], &TEXT[9..]] {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(half).expect("packed");
        packed.extend(encoder.finish().expect("packed"));
    }
    assert_eq!(all(&write(&folder, "no-ending", &packed)), expected);
}

/// Amounts keep their digits, times are understood, maps are JSON.
#[test]
fn a_parquet_file_is_read_as_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut tags = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    tags.keys().append_value("team");
    tags.values().append_value("se\"arch");
    tags.append(true).expect("a map");
    tags.append(false).expect("none");
    let cost = Decimal128Array::from(vec![Some(79_895_122_659_925_740), None])
        .with_precision_and_scale(38, 15)
        .expect("a decimal");
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("cost", Arc::new(cost) as ArrayRef, true),
        ("start", Arc::new(TimestampMillisecondArray::from(vec![1_777_593_600_000, 0])), true),
        ("tags", Arc::new(tags.finish()), true),
    ])
    .expect("a batch");
    let path = folder.path().join("bill.parquet");
    let file = std::fs::File::create(&path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
    let expected = [
        (1, "cost=79.895122659925740 start=2026-05-01T00:00:00 tags={\"team\":\"se\\\"arch\"}".to_owned()),
        (2, "start=1970-01-01T00:00:00".to_owned()),
    ];
    assert_eq!(all(&path), expected);
}

#[test]
fn what_is_no_table_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = Rows::open(&folder.path().join("none.csv")).err().expect("nothing there");
    assert_eq!(missing.kind(), Kind::NotFound);
    let torn = Rows::open(&write(&folder, "torn.parquet", b"PAR1 and no more")).err().expect("torn");
    assert!(torn.to_string().contains("torn.parquet cannot be read as Parquet"), "{torn}");
    let twice = Rows::open(&write(&folder, "twice.csv", b"a,a\n1,2\n")).err().expect("two of a name");
    assert!(twice.to_string().contains("two columns are called `a`"), "{twice}");
}
