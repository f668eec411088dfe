//! One client's connection after its login: what it says, answered in order.
//!
//! Settings, prepared statements and portals are the connection's own. A transaction is a promise that costs nothing here: nobody
//! writes, and each question pins the versions it reads.

mod extended;
mod simple;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use pgwire::messages::{
    PgWireBackendMessage,
    response::{ReadyForQuery, TransactionStatus},
};
use serde_json::Value;
use service::{principal::Principal, shutdown::CancellationToken};
use telemetry::contract::SqlRequest;
use tokio::time::timeout;

use super::{
    cancel::Cancel,
    constants,
    dialect::Dialect,
    frontend::Message,
    login::check_token,
    parameters::Bound,
    refusal::Refusal,
    statement::{Set, Statement},
    wire::{End, Wire},
};
use crate::{execute::Engine, front::session::Settings, reader::Reader};
use extended::{Portal, Prepared};

/// A client that says nothing for so long is gone.
const IDLE: Duration = Duration::from_secs(3_600);

/// What a connection is made of.
pub(super) struct Parts {
    pub(super) wire: Wire,
    pub(super) engine: Arc<Engine>,
    pub(super) reader: Arc<Reader>,
    pub(super) token_of: Option<Arc<Principal>>,
    pub(super) settings: Settings,
    pub(super) dialect: Arc<Dialect>,
    pub(super) cancel: Cancel,
}

/// A connection.
pub(super) struct Conversation {
    wire: Wire,
    engine: Arc<Engine>,
    reader: Arc<Reader>,
    /// Whose token let the client in.
    token_of: Option<Arc<Principal>>,
    /// Settings as they were after the login, for `DISCARD ALL`.
    first: Settings,
    settings: Settings,
    dialect: Arc<Dialect>,
    cancel: Cancel,
    status: TransactionStatus,
    statements: BTreeMap<String, Arc<Prepared>>,
    portals: BTreeMap<String, Portal>,
    /// After an error of the extended protocol, nothing is answered before the next Sync.
    is_skipping: bool,
}

impl Conversation {
    pub(super) fn new(parts: Parts) -> Conversation {
        let Parts { wire, engine, reader, token_of, settings, dialect, cancel } = parts;
        Conversation {
            wire,
            engine,
            reader,
            token_of,
            first: settings.clone(),
            settings,
            dialect,
            cancel,
            status: TransactionStatus::Idle,
            statements: BTreeMap::new(),
            portals: BTreeMap::new(),
            is_skipping: false,
        }
    }

    /// Answers until the client leaves, says nothing for too long, its token expires, or `stop` is cancelled while nothing runs.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let end = self.answered(&stop).await;
        // What still runs stops here, before a farewell that may take its time.
        self.portals.clear();
        self.wire.close(end).await;
    }

    async fn answered(&mut self, stop: &CancellationToken) -> End {
        loop {
            // Cancel safe: a message half read stays with the wire.
            let message = tokio::select! {
                biased;
                message = timeout(IDLE, self.wire.message()) => message,
                () = stop.cancelled() => return End::Refused(Refusal::shutdown()),
            };
            let (kind, body) = match message {
                Ok(Ok(message)) => message,
                Ok(Err(end)) => return end,
                Err(_) => return End::Refused(Refusal::fatal("57P05", "nothing was asked for an hour")),
            };
            let message = match Message::parse(kind, body) {
                Ok(message) => message,
                Err(refusal) if refusal.is_fatal() => return End::Refused(refusal),
                Err(refusal) => {
                    if let Err(end) = self.refuse(refusal, kind == b'Q').await {
                        return end;
                    }
                    continue;
                }
            };
            if message == Message::Terminate {
                return End::Left;
            }
            if let Err(expired) = check_token(&self.engine.deps, self.token_of.as_ref()) {
                return expired;
            }
            if let Err(end) = self.answer(message).await {
                return end;
            }
        }
    }

    /// # Errors
    /// Only what ends the connection.
    async fn answer(&mut self, message: Message) -> Result<(), End> {
        if self.is_skipping && message != Message::Sync {
            return Ok(());
        }
        let is_simple = matches!(message, Message::Query(_));
        let answered = match message {
            Message::Query(sql) => self.query(&sql).await,
            other => self.extended(other).await,
        };
        match answered {
            Err(End::Refused(refusal)) if !refusal.is_fatal() => self.refuse(refusal, is_simple).await,
            other => other,
        }
    }

    /// Says what went wrong. In a transaction, nothing more is answered before its end, as clients expect.
    async fn refuse(&mut self, refusal: Refusal, is_simple: bool) -> Result<(), End> {
        self.wire.gather(&refusal.to_message())?;
        if self.status != TransactionStatus::Idle {
            self.status = TransactionStatus::Error;
        }
        if is_simple {
            return self.ready().await;
        }
        self.is_skipping = true;
        self.wire.send().await
    }

    async fn ready(&mut self) -> Result<(), End> {
        // Without a transaction, what was opened ends with the statement.
        if self.status == TransactionStatus::Idle {
            self.portals.clear();
        }
        self.wire.gather(&PgWireBackendMessage::ReadyForQuery(ReadyForQuery::new(self.status)))?;
        self.wire.send().await
    }

    /// # Errors
    /// `25P02` in a transaction that has failed, for all but its end.
    fn check_transaction(&self, statement: &Statement) -> Result<(), End> {
        let ends = matches!(statement, Statement::Commit | Statement::Rollback | Statement::Nothing("ROLLBACK"));
        if self.status != TransactionStatus::Error || ends {
            return Ok(());
        }
        let message = "current transaction is aborted, commands ignored until end of transaction block";
        Err(End::Refused(Refusal::error("25P02", message)))
    }

    /// Does what a word in passing asks for, and names it; `None` for a question.
    fn pass(&mut self, statement: &Statement) -> Result<Option<&'static str>, Refusal> {
        Ok(Some(match statement {
            Statement::Begin => {
                self.status = TransactionStatus::Transaction;
                "BEGIN"
            }
            Statement::Commit => {
                let failed = self.status == TransactionStatus::Error;
                self.end_transaction();
                if failed { "ROLLBACK" } else { "COMMIT" }
            }
            Statement::Rollback => {
                self.end_transaction();
                "ROLLBACK"
            }
            Statement::Nothing(tag) => {
                if *tag == "ROLLBACK" && self.status == TransactionStatus::Error {
                    self.status = TransactionStatus::Transaction;
                }
                *tag
            }
            Statement::Set(set) => {
                self.set(set)?;
                if set.value.is_some() { "SET" } else { "RESET" }
            }
            Statement::Discard => {
                self.settings = self.first.clone();
                self.statements.clear();
                self.portals.clear();
                "DISCARD ALL"
            }
            Statement::Deallocate(name) => {
                match name {
                    Some(name) => drop(self.statements.remove(name)),
                    None => self.statements.clear(),
                }
                "DEALLOCATE"
            }
            Statement::Close(name) => {
                match name {
                    Some(name) => drop(self.portals.remove(name)),
                    None => self.portals.clear(),
                }
                "CLOSE CURSOR"
            }
            _ => return Ok(None),
        }))
    }

    fn end_transaction(&mut self) {
        self.status = TransactionStatus::Idle;
        self.portals.clear();
    }

    fn set(&mut self, set: &Set) -> Result<(), Refusal> {
        match (&set.name, &set.value) {
            (None, _) => self.settings = self.first.clone(),
            (Some(name), None) => self.settings.reset(name),
            (Some(name), Some(value)) if constants::of(name).is_some() => constants::check(name, value)?,
            (Some(name), Some(value)) => self.settings.set(name, value)?,
        }
        Ok(())
    }

    /// The rows of SHOW: what a setting holds, or the name of each and what it holds.
    fn shown(&self, name: &str) -> Result<Vec<Vec<String>>, Refusal> {
        if name == "all" {
            let row = |(name, value): (&str, &str)| vec![name.to_owned(), value.to_owned()];
            return Ok(self.settings.all().map(row).chain(constants::all().map(row)).collect());
        }
        let value = match constants::of(name) {
            Some(value) => value,
            None => self.settings.show(name)?,
        };
        Ok(vec![vec![value.to_owned()]])
    }

    /// The question as the engine is asked it.
    fn request(&self, bound: Bound) -> SqlRequest {
        let sql = self.dialect.adapted(&bound.sql, &self.facts(&bound.params));
        let mut request = SqlRequest { sql, params: bound.params, ..SqlRequest::default() };
        self.settings.apply(&mut request);
        request
    }

    fn facts<'c>(&'c self, params: &'c BTreeMap<String, Value>) -> super::dialect::Facts<'c> {
        let (user, process) = (self.reader.name(), self.cancel.key().0);
        super::dialect::Facts { user, process, settings: &self.settings, params }
    }
}
