//! The simple protocol: a text, its answers, and that all is done.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::BufMut;
use pgwire::messages::{
    PgWireBackendMessage,
    response::{EmptyQueryResponse, TransactionStatus},
};

use super::Conversation;
use crate::front::postgres::{
    cancel::Asked,
    frontend::Formats,
    parameters::Bound,
    refusal::{Refusal, notice},
    rows::{Rows, attended, complete, description},
    statement::{Copy, Form, Statement, statements},
    types::columns,
    wire::End,
};

use super::extended::{CURSORS_MAX, Portal};

impl Conversation {
    /// Answers all statements of a text, until one fails.
    pub(super) async fn query(&mut self, sql: &str) -> Result<(), End> {
        for statement in statements(sql).map_err(End::Refused)? {
            self.statement(statement).await?;
        }
        self.ready().await
    }

    async fn statement(&mut self, statement: Statement) -> Result<(), End> {
        self.check_transaction(&statement)?;
        match statement {
            Statement::Empty => self.wire.gather(&PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new())),
            Statement::Query(sql) => self.question(&sql).await,
            Statement::Copy(copy) => self.copy(&copy).await,
            Statement::Show(name) => self.show(&name),
            Statement::Declare(name, sql) => self.declare(name, Bound { sql, params: BTreeMap::new() }),
            Statement::Fetch(name, rows) => self.fetch(&name, rows).await,
            other => match self.pass(&other).map_err(End::Refused)? {
                Some(tag) => complete(&mut self.wire, tag),
                None => Ok(()),
            },
        }
    }

    async fn question(&mut self, sql: &str) -> Result<(), End> {
        let mut asked = self.cancel.asked();
        let bound = Bound { sql: sql.to_owned(), params: BTreeMap::new() };
        let mut rows = self.open(bound, &Formats::text(), &mut asked).await?;
        self.wire.gather(&rows.description())?;
        rows.send(&mut self.wire, &mut asked, 0).await?;
        complete(&mut self.wire, &tag(sql, rows.sent()))
    }

    /// Opens a question.
    pub(super) async fn open(&mut self, bound: Bound, formats: &Formats, asked: &mut Asked) -> Result<Rows, End> {
        let request = self.request(bound);
        let opening = self.engine.open(request, &self.reader);
        let opened = attended(&mut self.wire, asked, opening).await?;
        let opened = opened.map_err(|error| End::Refused(error.into()))?;
        if let Some(missing) = &opened.notice {
            self.wire.gather(&notice(missing))?;
        }
        Rows::new(opened, formats).map_err(End::Refused)
    }

    /// Sends an answer as one stream.
    pub(super) async fn copy(&mut self, copy: &Copy) -> Result<(), End> {
        let mut asked = self.cancel.asked();
        let formats = if copy.form == Form::Binary { Formats::binary() } else { Formats::text() };
        let bound = Bound { sql: copy.query.clone(), params: BTreeMap::new() };
        let mut rows = self.open(bound, &formats, &mut asked).await?;
        rows.copy(&mut self.wire, &mut asked, copy.form).await
    }

    /// What settings hold.
    fn show(&mut self, name: &str) -> Result<(), End> {
        let schema = shown_columns(name);
        let columns = columns(&schema, &Formats::text()).map_err(End::Refused)?;
        self.wire.gather(&description(&columns))?;
        self.show_rows(name)
    }

    /// The rows of SHOW.
    pub(super) fn show_rows(&mut self, name: &str) -> Result<(), End> {
        for row in self.shown(name).map_err(End::Refused)? {
            self.text_row(&row);
        }
        complete(&mut self.wire, "SHOW")
    }

    /// A row of texts.
    fn text_row(&mut self, values: &[String]) {
        let out = self.wire.gathered();
        let length = values.iter().map(|value| value.len() + 4).sum::<usize>() + 6;
        out.put_u8(b'D');
        out.put_i32(i32::try_from(length).unwrap_or(i32::MAX));
        out.put_i16(i16::try_from(values.len()).unwrap_or(i16::MAX));
        for value in values {
            out.put_i32(i32::try_from(value.len()).unwrap_or(i32::MAX));
            out.put_slice(value.as_bytes());
        }
    }

    pub(super) fn declare(&mut self, name: String, bound: Bound) -> Result<(), End> {
        if self.status != TransactionStatus::Transaction {
            let refusal = Refusal::error("25P01", "DECLARE CURSOR can only be used in transaction blocks");
            return Err(End::Refused(refusal.with_hint("BEGIN first")));
        }
        if self.portals.len() >= CURSORS_MAX {
            return Err(End::Refused(Refusal::error("53000", format!("{CURSORS_MAX} cursors are open"))));
        }
        self.portals.insert(name, Portal::question(bound, Formats::text()));
        complete(&mut self.wire, "DECLARE CURSOR")
    }

    async fn fetch(&mut self, name: &str, rows_max: usize) -> Result<(), End> {
        self.describe_cursor(name).await?;
        self.fetch_rows(name, rows_max).await
    }

    /// Says what the columns of a cursor are.
    pub(super) async fn describe_cursor(&mut self, name: &str) -> Result<(), End> {
        let mut asked = self.cancel.asked();
        let rows = self.cursor(name, &mut asked).await?;
        self.wire.gather(&rows.description())?;
        self.portals.insert(name.to_owned(), Portal::Running(rows));
        Ok(())
    }

    /// Sends the next rows of a cursor.
    pub(super) async fn fetch_rows(&mut self, name: &str, rows_max: usize) -> Result<(), End> {
        let mut asked = self.cancel.asked();
        let mut rows = self.cursor(name, &mut asked).await?;
        let before = rows.sent();
        rows.send(&mut self.wire, &mut asked, rows_max).await?;
        let fetched = rows.sent() - before;
        self.portals.insert(name.to_owned(), Portal::Running(rows));
        complete(&mut self.wire, &format!("FETCH {fetched}"))
    }

    async fn cursor(&mut self, name: &str, asked: &mut Asked) -> Result<Rows, End> {
        let Some(portal) = self.portals.remove(name) else {
            return Err(End::Refused(Refusal::error("34000", format!("cursor \"{name}\" does not exist"))));
        };
        self.started(portal, asked).await
    }
}

/// The columns of SHOW.
pub(super) fn shown_columns(name: &str) -> SchemaRef {
    let names = if name == "all" { vec!["name", "setting"] } else { vec![name] };
    let fields = names.into_iter().map(|name| Field::new(name, DataType::Utf8, false));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// What a question is called when it is done.
pub(super) fn tag(sql: &str, rows: u64) -> String {
    let first = sql.split(|character: char| !character.is_ascii_alphabetic()).find(|word| !word.is_empty());
    match first.unwrap_or_default().to_ascii_uppercase().as_str() {
        "SHOW" => "SHOW".to_owned(),
        "EXPLAIN" => "EXPLAIN".to_owned(),
        _ => format!("SELECT {rows}"),
    }
}
