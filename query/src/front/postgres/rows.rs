//! An answer under way: its batches as rows on the wire, as many at a time as the client asks for.

use arrow::{array::ArrayRef, datatypes::SchemaRef};
use bytes::{BufMut, BytesMut};
use pgwire::messages::{
    PgWireBackendMessage,
    copy::{CopyDone, CopyOutResponse},
    data::RowDescription,
    response::CommandComplete,
};

use super::{
    cancel::Asked,
    frontend::{Format, Formats},
    refusal::Refusal,
    statement::Form,
    types::{Column, columns, plain_batch},
    values::{csv, escaped, fields, is_null, row, text},
    wire::{End, Wire},
};
use crate::execute::Opened;

/// What every binary COPY begins with, its flags, and the length of what may follow them: nothing.
const COPY_HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Where another row would have its number of fields.
const COPY_END: i16 = -1;

/// An answer under way.
pub(super) struct Rows {
    opened: Opened,
    columns: Vec<Column>,
    /// The batch that is being sent, the row that comes next, and how many there are.
    batch: Vec<ArrayRef>,
    next: usize,
    length: usize,
    sent: u64,
}

impl Rows {
    /// # Errors
    /// If the formats are for another number of columns.
    pub(super) fn new(opened: Opened, formats: &Formats) -> Result<Rows, Refusal> {
        let columns = columns(&opened.schema, formats)?;
        Ok(Rows { opened, columns, batch: Vec::new(), next: 0, length: 0, sent: 0 })
    }

    /// What the columns are.
    pub(super) fn description(&self) -> PgWireBackendMessage {
        description(&self.columns)
    }

    /// Whether the columns are what was said of them before.
    pub(super) fn is_as_described(&self, schema: &SchemaRef) -> bool {
        let kinds = |columns: &[Column]| columns.iter().map(|column| column.kind.clone()).collect::<Vec<_>>();
        columns(schema, &Formats::text()).is_ok_and(|described| kinds(&described) == kinds(&self.columns))
    }

    /// Rows sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends rows, at most `rows_max` unless that is 0; whether there may be more.
    ///
    /// # Errors
    /// What the query ends with, or that it was cancelled, or that the client left.
    pub(super) async fn send(&mut self, wire: &mut Wire, asked: &mut Asked, rows_max: usize) -> Result<bool, End> {
        let mut room = if rows_max == 0 { usize::MAX } else { rows_max };
        while self.fill(wire, asked).await? {
            while self.next < self.length {
                if room == 0 {
                    return Ok(true);
                }
                row(&self.columns, &self.batch, self.next, wire.gathered());
                (self.next, room, self.sent) = (self.next + 1, room - 1, self.sent + 1);
                wire.send_if_much().await?;
            }
        }
        Ok(false)
    }

    /// Sends all rows as COPY has them.
    ///
    /// # Errors
    /// As [`Rows::send`].
    pub(super) async fn copy(&mut self, wire: &mut Wire, asked: &mut Asked, form: Form) -> Result<(), End> {
        let format = if form == Form::Binary { Format::Binary } else { Format::Text };
        let count = self.columns.len();
        let formats = vec![format.code(); count];
        let columns = i16::try_from(count).unwrap_or(i16::MAX);
        let format_of_all = i8::from(form == Form::Binary);
        wire.gather(&PgWireBackendMessage::CopyOutResponse(CopyOutResponse::new(format_of_all, columns, formats)))?;
        // In one piece with the first row, or with the end: readers take a first message without a row for a broken one.
        let mut head = BytesMut::new();
        match form {
            Form::Binary => head.put_slice(COPY_HEAD),
            Form::Csv(true) => names(&self.columns, &mut head),
            Form::Csv(false) | Form::Text => {}
        }
        while self.fill(wire, asked).await? {
            while self.next < self.length {
                let out = &mut head;
                match form {
                    Form::Binary => fields(&self.columns, &self.batch, self.next, out),
                    form => line(&self.batch, self.next, form, out),
                }
                copy_data(wire, &head);
                head.clear();
                (self.next, self.sent) = (self.next + 1, self.sent + 1);
                wire.send_if_much().await?;
            }
        }
        if form == Form::Binary {
            head.put_i16(COPY_END);
        }
        if !head.is_empty() {
            copy_data(wire, &head);
        }
        wire.gather(&PgWireBackendMessage::CopyDone(CopyDone::new()))?;
        complete(wire, &format!("COPY {}", self.sent))
    }

    /// Gets the next batch once the one before is sent; `false` after the last.
    async fn fill(&mut self, wire: &mut Wire, asked: &mut Asked) -> Result<bool, End> {
        while self.next >= self.length {
            let batch = attended(wire, asked, self.opened.batches.next()).await?;
            let Some(batch) = batch else {
                self.check_whole()?;
                return Ok(false);
            };
            let batch = batch.map_err(|error| End::Refused(error.into()))?;
            self.batch = plain_batch(&batch, &self.columns).map_err(End::Refused)?;
            (self.next, self.length) = (0, batch.num_rows());
        }
        Ok(true)
    }

    /// The protocol has no word for an answer that is not all, so one that was cut is no answer.
    fn check_whole(&self) -> Result<(), End> {
        if !self.opened.batches.truncated() {
            return Ok(());
        }
        let message = format!("the answer has more than {} rows (query.max_rows)", self.sent);
        let refusal = Refusal::error("54000", message);
        Err(End::Refused(refusal.with_hint("aggregate, add LIMIT, or raise query.max_rows")))
    }
}

/// Waits for the work, unless somebody cancels it or the client leaves.
pub(super) async fn attended<T>(wire: &mut Wire, asked: &mut Asked, work: impl Future<Output = T>) -> Result<T, End> {
    // Cancel safe: what a client says meanwhile stays with the wire, and a request to cancel is not taken back.
    tokio::select! {
        biased;
        () = asked.as_mut() => Err(End::Refused(Refusal::cancelled())),
        outcome = work => Ok(outcome),
        () = wire.left() => Err(End::Left),
    }
}

/// What the columns are.
pub(super) fn description(columns: &[Column]) -> PgWireBackendMessage {
    let fields = columns.iter().map(Column::description).collect();
    PgWireBackendMessage::RowDescription(RowDescription::new(fields))
}

/// Says that a statement is done.
pub(super) fn complete(wire: &mut Wire, tag: &str) -> Result<(), End> {
    wire.gather(&PgWireBackendMessage::CommandComplete(CommandComplete::new(tag.to_owned())))
}

fn copy_data(wire: &mut Wire, data: &[u8]) {
    let out = wire.gathered();
    out.put_u8(b'd');
    out.put_i32(i32::try_from(data.len() + 4).unwrap_or(i32::MAX));
    out.put_slice(data);
}

fn names(columns: &[Column], out: &mut BytesMut) {
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        csv(column.name.as_bytes(), out);
    }
    out.put_u8(b'\n');
}

/// A row as a line; NULL is `\N` in text and nothing in CSV.
fn line(values: &[ArrayRef], row: usize, form: Form, out: &mut BytesMut) {
    let (separator, null): (u8, &[u8]) = if form == Form::Text { (b'\t', b"\\N") } else { (b',', b"") };
    let mut field = BytesMut::new();
    for (index, values) in values.iter().enumerate() {
        if index > 0 {
            out.put_u8(separator);
        }
        if is_null(values, row) {
            out.put_slice(null);
            continue;
        }
        field.clear();
        text(values.as_ref(), row, &mut field);
        if form == Form::Text { escaped(&field, out) } else { csv(&field, out) }
    }
    out.put_u8(b'\n');
}
