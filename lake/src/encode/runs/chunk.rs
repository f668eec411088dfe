//! One column chunk: a dictionary page and a data page.

use std::collections::HashMap;

use arrow::array::{Array, AsArray, Int32RunArray, StringArray};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, PageType};
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ColumnChunkMetaDataBuilder, OffsetIndexBuilder, PageEncodingStats};
use parquet::file::properties::WriterProperties;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::super::properties::STATISTICS_BYTES;
use super::pieces;

/// Bytes below which compression is not worth a reader's call.
const COMPRESSED_MIN: usize = 256;

/// What a chunk's pages hold, not yet compressed.
struct Content<'a> {
    /// Different values in the order in which they were met.
    values: Vec<&'a str>,
    dictionary: Vec<u8>,
    data: Vec<u8>,
    rows: usize,
    nulls: usize,
}

/// Encodes the rows `from..from + rows` of a column.
pub(super) fn write(
    column: &ColumnDescPtr,
    properties: &WriterProperties,
    runs: &Int32RunArray,
    from: usize,
    rows: usize,
) -> Result<(Bytes, ColumnCloseResult)> {
    let content = Content::gather(runs.values().as_string::<i32>(), pieces(runs, from, rows), column.max_def_level());
    let compression = match properties.compression(column.path()) {
        Compression::ZSTD(level) if content.data.len() + content.dictionary.len() >= COMPRESSED_MIN => {
            Compression::ZSTD(level)
        }
        _ => Compression::UNCOMPRESSED,
    };
    let mut sink = TrackedWrite::new(Vec::new());
    let mut pages = SerializedPageWriter::new(&mut sink);
    let dictionary = match content.dictionary_page(compression)? {
        Some(page) => Some(pages.write_page(page)?),
        None => None,
    };
    let data = pages.write_page(content.data_page(compression)?)?;
    pages.close()?;
    let bytes = Bytes::from(sink.into_inner()?);

    let mut metadata = describe(column, compression, &content, dictionary.as_ref(), &data);
    if let Some(statistics) = content.statistics() {
        metadata = metadata.set_statistics(statistics);
    }
    let mut index = OffsetIndexBuilder::new();
    index.append_row_count(rows as i64);
    index.append_offset_and_size(data.offset as i64, i32::try_from(data.compressed_size).unwrap_or(i32::MAX));
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: rows as u64,
        metadata: metadata.build()?,
        bloom_filter: content.bloom_filter(column, properties)?,
        column_index: None,
        offset_index: Some(index.build()),
    };
    Ok((bytes, close))
}

impl<'a> Content<'a> {
    fn gather(values: &'a StringArray, pieces: impl Iterator<Item = (usize, usize)>, max_level: i16) -> Self {
        let mut content = Content { values: Vec::new(), dictionary: Vec::new(), data: Vec::new(), rows: 0, nulls: 0 };
        let mut places: HashMap<&str, u32> = HashMap::new();
        let (mut levels, mut indices) = (RunLengths::default(), RunLengths::default());
        for (place, rows) in pieces {
            content.rows += rows;
            levels.add(u32::from(values.is_valid(place)), rows);
            if values.is_null(place) {
                content.nulls += rows;
                continue;
            }
            let value = values.value(place);
            let index = *places.entry(value).or_insert_with(|| content.add(value));
            indices.add(index, rows);
        }
        if max_level > 0 {
            let levels = levels.encode(1);
            content.data.extend_from_slice(&(levels.len() as u32).to_le_bytes());
            content.data.extend_from_slice(&levels);
        }
        if let Some(greatest) = content.values.len().checked_sub(1) {
            let width = usize::BITS - greatest.leading_zeros();
            content.data.push(width as u8);
            content.data.extend_from_slice(&indices.encode(width));
        }
        content
    }

    fn add(&mut self, value: &'a str) -> u32 {
        self.dictionary.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.dictionary.extend_from_slice(value.as_bytes());
        self.values.push(value);
        self.values.len() as u32 - 1
    }

    /// None if all rows are NULL.
    fn dictionary_page(&self, compression: Compression) -> Result<Option<CompressedPage>> {
        if self.values.is_empty() {
            return Ok(None);
        }
        let buf = compress(compression, &self.dictionary)?;
        let num_values = self.values.len() as u32;
        let page = Page::DictionaryPage { buf, num_values, encoding: Encoding::PLAIN, is_sorted: false };
        Ok(Some(CompressedPage::new(page, self.dictionary.len())))
    }

    fn data_page(&self, compression: Compression) -> Result<CompressedPage> {
        let page = Page::DataPage {
            buf: compress(compression, &self.data)?,
            num_values: self.rows as u32,
            encoding: self.encoding(),
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        Ok(CompressedPage::new(page, self.data.len()))
    }

    fn encoding(&self) -> Encoding {
        if self.values.is_empty() { Encoding::PLAIN } else { Encoding::RLE_DICTIONARY }
    }

    /// None if a value is longer than bounds may be.
    fn statistics(&self) -> Option<Statistics> {
        if self.values.iter().any(|value| value.len() > STATISTICS_BYTES) {
            return None;
        }
        let bound = |value: Option<&&str>| value.map(|value| ByteArray::from(*value));
        let (min, max) = (bound(self.values.iter().min()), bound(self.values.iter().max()));
        Some(Statistics::byte_array(min, max, None, Some(self.nulls as u64), false))
    }

    fn bloom_filter(&self, column: &ColumnDescPtr, properties: &WriterProperties) -> Result<Option<Sbbf>> {
        let Some(wanted) = properties.bloom_filter_properties(column.path()) else { return Ok(None) };
        let mut filter = Sbbf::new_with_ndv_fpp(self.values.len().max(1) as u64, wanted.fpp())?;
        self.values.iter().for_each(|value| filter.insert(*value));
        Ok(Some(filter))
    }
}

fn describe(
    column: &ColumnDescPtr,
    compression: Compression,
    content: &Content<'_>,
    dictionary: Option<&PageWriteSpec>,
    data: &PageWriteSpec,
) -> ColumnChunkMetaDataBuilder {
    let pages = dictionary.into_iter().chain([data]);
    let (compressed, uncompressed) = pages.fold((0, 0), |(compressed, uncompressed), page| {
        (compressed + page.compressed_size as i64, uncompressed + page.uncompressed_size as i64)
    });
    let page = |page_type, encoding| PageEncodingStats { page_type, encoding, count: 1 };
    let mut pages = vec![page(PageType::DATA_PAGE, content.encoding())];
    if dictionary.is_some() {
        pages.insert(0, page(PageType::DICTIONARY_PAGE, Encoding::PLAIN));
    }
    ColumnChunkMetaData::builder(column.clone())
        .set_compression(compression)
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, content.encoding()])
        .set_page_encoding_stats(pages)
        .set_total_compressed_size(compressed)
        .set_total_uncompressed_size(uncompressed)
        .set_num_values(content.rows as i64)
        .set_data_page_offset(data.offset as i64)
        .set_dictionary_page_offset(dictionary.map(|page| page.offset as i64))
}

fn compress(compression: Compression, bytes: &[u8]) -> Result<Bytes> {
    match compression {
        Compression::ZSTD(level) => {
            let compressed = zstd::bulk::compress(bytes, level.compression_level());
            compressed.map(Bytes::from).map_err(|error| ParquetError::External(Box::new(error)))
        }
        _ => Ok(Bytes::copy_from_slice(bytes)),
    }
}

/// Numbers in the format's RLE/bit-packing hybrid, of which only the first is used.
#[derive(Default)]
struct RunLengths {
    runs: Vec<(u32, usize)>,
}

impl RunLengths {
    fn add(&mut self, number: u32, rows: usize) {
        match self.runs.last_mut() {
            Some((last, count)) if *last == number => *count += rows,
            _ => self.runs.push((number, rows)),
        }
    }

    /// Each run as its length, doubled, as a varint, and its number in as many bytes as `width` bits need.
    fn encode(&self, width: u32) -> Vec<u8> {
        let bytes = width.div_ceil(8) as usize;
        let mut out = Vec::with_capacity(self.runs.len() * (2 + bytes));
        for (number, rows) in &self.runs {
            let mut header = rows << 1;
            while header >= 0x80 {
                out.push(header as u8 & 0x7f | 0x80);
                header >>= 7;
            }
            out.push(header as u8);
            out.extend(number.to_le_bytes().iter().take(bytes));
        }
        out
    }
}
