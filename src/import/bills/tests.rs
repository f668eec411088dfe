use std::path::PathBuf;

use lake::Lake;
use service::{Deps, Kind};

use super::{HELD_ROWS_MAX, Namesake, import};
use crate::import::report::Report;

const HEAD: &str = "ProviderName,BillingAccountId,BillingCurrency,BillingPeriodStart,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ListCost,EffectiveCost,BilledCost";

struct World {
    folder: tempfile::TempDir,
    lake: Lake,
}

impl World {
    async fn new() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("lake");
        let lake = Lake::open(place.to_str().expect("utf-8"), &Deps::system()).await.expect("a lake");
        World { folder, lake }
    }

    /// A file with a row for each day and cost.
    fn file(&self, name: &str, rows: &[(&str, &str)]) -> PathBuf {
        let row = |(day, cost): &(&str, &str)| {
            format!("AWS,1,USD,2026-05-01,2026-05-{day}T00:00:00Z,2026-05-{day}T01:00:00Z,Usage,{cost},{cost},{cost}")
        };
        let lines: Vec<_> = std::iter::once(HEAD.to_owned()).chain(rows.iter().map(row)).collect();
        let path = self.folder.path().join(name);
        std::fs::write(&path, lines.join("\n")).expect("written");
        path
    }

    async fn import(&self, paths: &[PathBuf], skip_refused: bool) -> service::Result<Vec<String>> {
        self.import_as(paths, skip_refused, Namesake::Refuse).await
    }

    async fn import_as(
        &self,
        paths: &[PathBuf],
        skip_refused: bool,
        namesake: Namesake,
    ) -> service::Result<Vec<String>> {
        import(&self.lake, paths, namesake, Report::open(skip_refused, None)?, 7).await
    }

    async fn rows(&self) -> Option<u64> {
        self.lake.snapshot("billing", None).await.expect("readable").rows()
    }
}

/// Two files of one export make one bill; a later export takes its place, and the same one again changes nothing.
#[tokio::test]
async fn a_later_export_takes_the_place_of_the_earlier_one() {
    let world = World::new().await;
    let export = [
        world.file("1.csv", &[("01", "1.5"), ("02", "2.0000000000005")]),
        world.file("2.csv", &[("03", "0.0000000000005")]),
    ];
    let lines = world.import(&export, false).await.expect("imported");
    let text = lines.join("\n");
    assert!(text.contains("FOCUS 1.0"), "{text}");
    assert!(text.contains("bill     AWS/1/2026-05: 3 charges, new"), "{text}");
    // 1.5 + 2.0000000000005 + 0.0000000000005, whose halves of the twelfth decimal make one whole
    assert!(text.contains("billed 3.500000000001 USD"), "{text}");
    assert_eq!(world.rows().await, Some(3));
    let again = world.import(&export, false).await.expect("imported").join("\n");
    assert!(again.contains("3 charges, as it was"), "{again}");
    let restated = world.import(&[world.file("3.csv", &[("01", "1.25")])], false).await.expect("imported").join("\n");
    assert!(restated.contains("1 charges, in place of 3"), "{restated}");
    assert_eq!(world.rows().await, Some(1));
}

/// A bill with a hole in it would be believed.
#[tokio::test]
async fn nothing_is_imported_where_a_row_is_refused_unless_it_may_be_skipped() {
    let world = World::new().await;
    let file = [world.file("bad.csv", &[("01", "1.5"), ("02", "free")])];
    let refused = world.import(&file, false).await.expect_err("one row is no charge");
    assert_eq!(refused.kind(), Kind::Corrupt);
    assert!(refused.to_string().contains("1 of 2 rows were refused; nothing was imported"), "{refused}");
    assert_eq!(world.rows().await, Some(0));
    world.import(&file, true).await.expect("the other row");
    assert_eq!(world.rows().await, Some(1));
}

/// What is named twice is imported not at all, let alone twice: by another path, as a copy, or compressed. Parts of an export without
/// charges are no copies of each other.
#[tokio::test]
async fn the_same_charges_are_not_taken_twice_in_one_call() {
    let world = World::new().await;
    let charges = [("01", "1.5"), ("02", "2")];
    let file = world.file("1.csv", &charges);
    let (copy, other) = (world.file("copy.csv", &charges), world.file("2.csv", &[("03", "1.5")]));
    let packed = world.folder.path().join("1.csv.gz");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, &std::fs::read(&file).expect("read")).expect("packed");
    std::fs::write(&packed, encoder.finish().expect("packed")).expect("written");
    let link = world.folder.path().join("link.csv");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    for (twice, told) in [
        (file.clone(), "are the same file"),
        (link, "are the same file"),
        (copy, "has the same charges as"),
        (packed, "has the same charges as"),
    ] {
        let paths = [file.clone(), other.clone(), twice];
        let refused = world.import(&paths, false).await.expect_err("a file twice");
        assert!(refused.kind() == Kind::Invalid && refused.to_string().contains(told), "{refused}");
        assert_eq!(world.rows().await, Some(0));
    }
    let empty = ["3.csv", "4.csv"].map(|name| world.file(name, &[]));
    world.import(&[file, other, empty[0].clone(), empty[1].clone()], false).await.expect("imported");
    assert_eq!(world.rows().await, Some(3));
}

/// A provider that is called otherwise in a later export does not bring its bill a second time.
#[tokio::test]
async fn a_renamed_provider_does_not_double_its_bill() {
    let world = World::new().await;
    let of = |name: &str, provider: &str| {
        let path = world.file(name, &[("01", "1.5"), ("02", "2")]);
        let text = std::fs::read_to_string(&path).expect("read").replace("\nAWS,", &format!("\n{provider},"));
        std::fs::write(&path, text).expect("written");
        [path]
    };
    let first = of("1.csv", "Nebula");
    world.import(&first, false).await.expect("imported");
    let renamed = of("2.csv", "Nebula Compute");
    let refused = world.import(&renamed, false).await.expect_err("the same account and month");
    assert_eq!(refused.kind(), Kind::Invalid);
    assert!(refused.to_string().contains("bill Nebula Compute/1/2026-05"), "{refused}");
    assert!(refused.to_string().contains("bill Nebula/1/2026-05"), "{refused}");
    assert_eq!(world.rows().await, Some(2));
    let lines = world.import_as(&renamed, false, Namesake::Replace).await.expect("imported").join("\n");
    assert!(lines.contains("bill     Nebula Compute/1/2026-05: 2 charges, in place of 2"), "{lines}");
    assert_eq!(world.rows().await, Some(2));
    world.import_as(&first, false, Namesake::Beside).await.expect("imported");
    assert_eq!(world.rows().await, Some(4), "two bills, as somebody said");
    // known names are one name
    world.import(&of("3.csv", "Amazon Web Services EMEA SARL"), false).await.expect_err("beside two others");
    let world = World::new().await;
    let rows = [("01", "1.5")];
    world.import(&[world.file("1.csv", &rows)], false).await.expect("imported");
    let path = world.file("2.csv", &[("01", "1.25")]);
    let text = std::fs::read_to_string(&path).expect("read").replace("\nAWS,", "\n\"Amazon Web Services, Inc.\",");
    std::fs::write(&path, text).expect("written");
    let lines = world.import(&[path], false).await.expect("imported").join("\n");
    assert!(lines.contains("bill     AWS/1/2026-05: 1 charges, in place of 1"), "{lines}");
}

/// However many bills an export has, what is held of them is bounded; and the same bill alone is the same bill.
#[tokio::test]
async fn what_is_held_of_all_bills_is_bounded() {
    let world = World::new().await;
    let (accounts, each) = (50, 2_500);
    let path = world.folder.path().join("many.csv");
    let mut text = HEAD.to_owned();
    let mut alone = HEAD.to_owned();
    for row in 0..each {
        for account in 0..accounts {
            let line =
                format!("\nAWS,{account},USD,2026-05-01,2026-05-01T00:00:00Z,2026-05-01T01:00:00Z,Usage,1,1,{row}");
            text.push_str(&line);
            if account == 7 {
                alone.push_str(&line);
            }
        }
    }
    std::fs::write(&path, text).expect("written");
    let lines = world.import(&[path], false).await.expect("imported").join("\n");
    assert!(lines.contains("bill     AWS/7/2026-05: 2500 charges, new"), "{lines}");
    assert_eq!(world.rows().await, Some(accounts * each));
    // no bill has come near the bound, all of them together have passed it
    let files = world.lake.snapshot("billing", None).await.expect("readable").files.len() as u64;
    assert!(each < HELD_ROWS_MAX as u64 && accounts * each > HELD_ROWS_MAX as u64 && files > accounts, "{files}");
    let path = world.folder.path().join("alone.csv");
    std::fs::write(&path, alone).expect("written");
    let lines = world.import(&[path], false).await.expect("imported").join("\n");
    assert!(lines.contains("2500 charges, as it was"), "{lines}");
}

/// Tags that are none are counted in what the import says.
#[tokio::test]
async fn what_could_not_be_understood_is_counted() {
    let world = World::new().await;
    let path = world.folder.path().join("cur.csv");
    let head = "bill_payer_account_id,bill_billing_period_start_date,line_item_line_item_type,line_item_usage_start_date,line_item_usage_end_date,\
        line_item_unblended_cost,line_item_currency_code,resource_tags";
    let row = |tags: &str| format!("1,2026-05-01,Usage,2026-05-02T03:00:00Z,2026-05-02T04:00:00Z,1,USD,{tags}");
    std::fs::write(&path, [head, &row("team=a"), &row(""), &row("[1]"), &row("{}")].join("\n")).expect("written");
    let lines = world.import(&[path], false).await.expect("imported").join("\n");
    assert!(lines.contains("note     2 rows: `resource_tags` is no JSON object"), "{lines}");
}
