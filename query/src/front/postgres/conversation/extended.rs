//! The extended protocol: a statement is parsed, bound to values and executed, piece by piece.
//!
//! A question is planned when its portal is described or executed, with the values it is bound to; it is planned without them only
//! for clients that ask what a prepared statement would answer.

use std::{mem, sync::Arc};

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use pgwire::{
    api::Type,
    messages::{
        PgWireBackendMessage,
        data::{NoData, ParameterDescription},
        extendedquery::{BindComplete, CloseComplete, ParseComplete, PortalSuspended},
        response::EmptyQueryResponse,
    },
};

use super::{
    Conversation,
    simple::{shown_columns, tag},
};
use crate::{
    encode::postgres::kind,
    execute::Described,
    front::postgres::{
        cancel::Asked,
        frontend::{Bind, Format, Formats, Message, Target},
        parameters::{Bound, Placeholders},
        refusal::Refusal,
        rows::{Rows, attended, complete, description},
        statement::{Copy, Statement, statements},
        types::columns,
        wire::End,
    },
};

/// Most prepared statements of a connection.
const STATEMENTS_MAX: usize = 1_000;
/// Most open portals and cursors of a connection; each may hold a query.
pub(super) const CURSORS_MAX: usize = 16;

/// A statement with a name.
pub(super) struct Prepared {
    statement: Statement,
    placeholders: Placeholders,
    /// Types the client gave to parameters.
    declared: Vec<Option<Type>>,
    /// What the engine says of it, once it was asked.
    described: Mutex<Option<Arc<Described>>>,
}

/// A statement bound to values.
#[allow(clippy::large_enum_variant, reason = "a connection has few, and they are moved only between messages")]
pub(super) enum Portal {
    /// Not a question.
    Word(Statement),
    /// Not begun yet. What a client was told of its columns, it will get.
    Question { bound: Bound, formats: Formats, described: Option<SchemaRef> },
    /// A cursor of that name, which is not declared yet.
    Cursor(String, Bound),
    /// Under way.
    Running(Rows),
    /// Sent to its last row.
    Done,
}

impl Portal {
    pub(super) fn question(bound: Bound, formats: Formats) -> Portal {
        Portal::Question { bound, formats, described: None }
    }
}

impl Prepared {
    fn new(sql: &str, types: &[u32]) -> Result<Prepared, Refusal> {
        let mut found = statements(sql)?;
        let statement = match (found.pop(), found.is_empty()) {
            (Some(only), true) => only,
            _ => return Err(Refusal::error("42601", "a prepared statement is one statement")),
        };
        let question = match &statement {
            Statement::Query(sql) | Statement::Copy(Copy { query: sql, .. }) | Statement::Declare(_, sql) => {
                sql.as_str()
            }
            _ => "",
        };
        // 0 and `unknown` are left to us.
        let declared = types.iter().map(|oid| match oid {
            0 | 705 => Ok(None),
            oid => Type::from_oid(*oid)
                .map(Some)
                .ok_or_else(|| Refusal::error("42704", format!("there is no type with object id {oid}"))),
        });
        let declared = declared.collect::<Result<_, Refusal>>()?;
        Ok(Prepared { placeholders: Placeholders::of(question)?, statement, declared, described: Mutex::default() })
    }

    /// The types of its parameters as far as they are known.
    fn kinds(&self) -> Vec<Option<Type>> {
        let described = self.described.lock();
        let found = |number: usize| {
            let name = number.to_string();
            let mut parameters = described.as_ref()?.parameters.iter();
            parameters.find(|(known, _)| *known == name)?.1.as_ref().map(kind)
        };
        (0..self.placeholders.count())
            .map(|index| self.declared.get(index).cloned().flatten().or_else(|| found(index + 1)))
            .collect()
    }
}

impl Conversation {
    pub(super) async fn extended(&mut self, message: Message) -> Result<(), End> {
        match message {
            Message::Parse { name, sql, types } => self.parse(name, &sql, &types),
            Message::Bind(bind) => self.bind(bind).await,
            Message::Describe(Target::Statement(name)) => self.describe_statement(&name).await,
            Message::Describe(Target::Portal(name)) => self.describe_portal(name).await,
            Message::Execute { portal, rows_max } => self.execute(portal, rows_max).await,
            Message::Close(Target::Statement(name)) => {
                self.statements.remove(&name);
                self.wire.gather(&PgWireBackendMessage::CloseComplete(CloseComplete::new()))
            }
            Message::Close(Target::Portal(name)) => {
                self.portals.remove(&name);
                self.wire.gather(&PgWireBackendMessage::CloseComplete(CloseComplete::new()))
            }
            Message::Flush => self.wire.send().await,
            Message::Sync => {
                self.is_skipping = false;
                self.ready().await
            }
            Message::Query(_) | Message::Terminate | Message::Copy => Ok(()),
        }
    }

    fn parse(&mut self, name: String, sql: &str, types: &[u32]) -> Result<(), End> {
        let prepared = Prepared::new(sql, types).map_err(End::Refused)?;
        self.check_transaction(&prepared.statement)?;
        if !name.is_empty() && self.statements.contains_key(&name) {
            return Err(End::Refused(Refusal::error("42P05", format!("prepared statement \"{name}\" already exists"))));
        }
        if self.statements.len() >= STATEMENTS_MAX {
            let refusal = Refusal::error("53000", format!("{STATEMENTS_MAX} statements are prepared"));
            return Err(End::Refused(refusal.with_hint("DEALLOCATE those that are done")));
        }
        self.statements.insert(name, Arc::new(prepared));
        self.wire.gather(&PgWireBackendMessage::ParseComplete(ParseComplete::new()))
    }

    fn prepared(&self, name: &str) -> Result<Arc<Prepared>, End> {
        let found = self.statements.get(name).map(Arc::clone);
        found.ok_or_else(|| {
            End::Refused(Refusal::error("26000", format!("prepared statement \"{name}\" does not exist")))
        })
    }

    async fn bind(&mut self, bind: Bind) -> Result<(), End> {
        let prepared = self.prepared(&bind.statement)?;
        // Bytes without a type mean nothing; a text becomes what it is compared with.
        let is_unknown =
            |(index, kind): (usize, &Option<Type>)| kind.is_none() && bind.formats.of(index) == Format::Binary;
        if prepared.kinds().iter().enumerate().any(is_unknown) {
            self.described(&prepared).await?;
        }
        let portal = match &prepared.statement {
            Statement::Query(_) => {
                let bound = prepared.placeholders.bound(&prepared.kinds(), &bind).map_err(End::Refused)?;
                let described = prepared.described.lock().as_ref().map(|described| Arc::clone(&described.schema));
                Portal::Question { bound, formats: bind.results.clone(), described }
            }
            Statement::Copy(copy) => {
                let bound = prepared.placeholders.bound(&prepared.kinds(), &bind).map_err(End::Refused)?;
                if !bound.params.is_empty() {
                    return Err(End::Refused(Refusal::error("0A000", "COPY takes no parameters")));
                }
                Portal::Word(Statement::Copy(copy.clone()))
            }
            Statement::Declare(name, _) => {
                let bound = prepared.placeholders.bound(&prepared.kinds(), &bind).map_err(End::Refused)?;
                Portal::Cursor(name.clone(), bound)
            }
            other => Portal::Word(other.clone()),
        };
        if self.portals.len() >= CURSORS_MAX && !self.portals.contains_key(&bind.portal) {
            return Err(End::Refused(Refusal::error("53000", format!("{CURSORS_MAX} portals are open"))));
        }
        self.portals.insert(bind.portal, portal);
        self.wire.gather(&PgWireBackendMessage::BindComplete(BindComplete::new()))
    }

    /// What the engine says of the statement.
    async fn described(&mut self, prepared: &Prepared) -> Result<Arc<Described>, End> {
        if let Some(described) = &*prepared.described.lock() {
            return Ok(Arc::clone(described));
        }
        let sql = prepared.placeholders.typed(&prepared.declared);
        let request = self.request(Bound { sql, params: Default::default() });
        let mut asked = self.cancel.asked();
        let describing = self.engine.describe(&request, &self.reader);
        let described = attended(&mut self.wire, &mut asked, describing).await?;
        let described = Arc::new(described.map_err(|error| End::Refused(error.into()))?);
        *prepared.described.lock() = Some(Arc::clone(&described));
        Ok(described)
    }

    async fn describe_statement(&mut self, name: &str) -> Result<(), End> {
        let prepared = self.prepared(name)?;
        let described = match &prepared.statement {
            Statement::Query(_) => Some(self.described(&prepared).await?),
            _ => None,
        };
        let kinds = prepared.kinds().into_iter().map(|kind| kind.unwrap_or(Type::TEXT).oid()).collect();
        self.wire.gather(&PgWireBackendMessage::ParameterDescription(ParameterDescription::new(kinds)))?;
        let schema = described.map(|described| Arc::clone(&described.schema)).or_else(|| shown(&prepared.statement));
        self.columns(schema.as_ref(), &Formats::text())
    }

    async fn describe_portal(&mut self, name: String) -> Result<(), End> {
        let Some(portal) = self.portals.remove(&name) else { return Err(no_portal(&name)) };
        if let Portal::Word(Statement::Fetch(cursor, _)) = &portal {
            let cursor = cursor.clone();
            self.portals.insert(name, portal);
            return self.describe_cursor(&cursor).await;
        }
        if let Portal::Word(statement) = &portal {
            let schema = shown(statement);
            self.portals.insert(name, portal);
            return self.columns(schema.as_ref(), &Formats::text());
        }
        if let Portal::Cursor(..) = &portal {
            self.portals.insert(name, portal);
            return self.columns(None, &Formats::text());
        }
        if matches!(portal, Portal::Done) {
            return self.wire.gather(&PgWireBackendMessage::NoData(NoData::new()));
        }
        let mut asked = self.cancel.asked();
        let rows = self.started(portal, &mut asked).await?;
        self.wire.gather(&rows.description())?;
        self.portals.insert(name, Portal::Running(rows));
        Ok(())
    }

    fn columns(&mut self, schema: Option<&SchemaRef>, formats: &Formats) -> Result<(), End> {
        match schema {
            Some(schema) => {
                let columns = columns(schema, formats).map_err(End::Refused)?;
                self.wire.gather(&description(&columns))
            }
            None => self.wire.gather(&PgWireBackendMessage::NoData(NoData::new())),
        }
    }

    /// The rows of a portal's question, which begins now if it has not.
    pub(super) async fn started(&mut self, portal: Portal, asked: &mut Asked) -> Result<Rows, End> {
        let (bound, formats, described) = match portal {
            Portal::Running(rows) => return Ok(rows),
            Portal::Question { bound, formats, described } => (bound, formats, described),
            Portal::Word(_) | Portal::Cursor(..) | Portal::Done => {
                return Err(End::Refused(Refusal::error("55000", "the portal has no rows")));
            }
        };
        let rows = self.open(bound, &formats, asked).await?;
        if described.is_some_and(|schema| !rows.is_as_described(&schema)) {
            return Err(End::Refused(Refusal::error("0A000", "cached plan must not change result type")));
        }
        Ok(rows)
    }

    async fn execute(&mut self, name: String, rows_max: usize) -> Result<(), End> {
        let Some(portal) = self.portals.get_mut(&name) else { return Err(no_portal(&name)) };
        let portal = mem::replace(portal, Portal::Done);
        match portal {
            Portal::Word(statement) => self.word(statement).await,
            Portal::Cursor(cursor, bound) => {
                self.check_transaction(&Statement::Declare(cursor.clone(), bound.sql.clone()))?;
                self.declare(cursor, bound)
            }
            Portal::Done => complete(&mut self.wire, "SELECT 0"),
            question => {
                let sql = match &question {
                    Portal::Question { bound, .. } => bound.sql.clone(),
                    _ => String::new(),
                };
                let mut asked = self.cancel.asked();
                let mut rows = self.started(question, &mut asked).await?;
                let before = rows.sent();
                if rows.send(&mut self.wire, &mut asked, rows_max).await? {
                    self.portals.insert(name, Portal::Running(rows));
                    return self.wire.gather(&PgWireBackendMessage::PortalSuspended(PortalSuspended::new()));
                }
                complete(&mut self.wire, &tag(&sql, rows.sent() - before))
            }
        }
    }

    async fn word(&mut self, statement: Statement) -> Result<(), End> {
        self.check_transaction(&statement)?;
        match statement {
            Statement::Empty => self.wire.gather(&PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new())),
            Statement::Copy(copy) => self.copy(&copy).await,
            Statement::Show(name) => self.show_rows(&name),
            Statement::Declare(name, sql) => self.declare(name, Bound { sql, params: Default::default() }),
            Statement::Fetch(name, rows) => self.fetch_rows(&name, rows).await,
            other => match self.pass(&other).map_err(End::Refused)? {
                Some(tag) => complete(&mut self.wire, tag),
                None => Ok(()),
            },
        }
    }
}

/// The column of a word that answers with a row.
fn shown(statement: &Statement) -> Option<SchemaRef> {
    match statement {
        Statement::Show(name) => Some(shown_columns(name)),
        _ => None,
    }
}

fn no_portal(name: &str) -> End {
    End::Refused(Refusal::error("34000", format!("portal \"{name}\" does not exist")))
}
