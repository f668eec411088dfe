//! What tickets and prepared statements hold, and which of them run.

use std::{collections::BTreeMap, sync::Arc};

use arrow::array::RecordBatch;
use arrow_flight::{
    Ticket,
    sql::{Any, TicketStatementQuery},
};
use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use serde::{Deserialize, Serialize};
use telemetry::contract::SqlRequest;
use tonic::Status;
use uuid::Uuid;

use crate::encode;

/// Longest handle: a statement and its parameters.
const HANDLE_BYTES_MAX: usize = 2 << 20;

/// A question as the client carries it from call to call.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Handle {
    /// Tells one execution from another, so that it can be cancelled.
    pub(super) id: Uuid,
    /// The question.
    pub(super) request: SqlRequest,
}

impl Handle {
    /// A question not asked before.
    pub(super) fn new(request: SqlRequest) -> Handle {
        Handle { id: Uuid::new_v4(), request }
    }

    /// # Errors
    /// `InvalidArgument` for bytes that no call of ours gave out.
    pub(super) fn decode(bytes: &[u8]) -> Result<Handle, Status> {
        serde_json::from_slice(bytes).map_err(|_| foreign())
    }

    /// # Errors
    /// `InvalidArgument` for a ticket of another kind.
    pub(super) fn of_ticket(ticket: &Ticket) -> Result<Handle, Status> {
        let any = Any::decode(&*ticket.ticket).map_err(|_| foreign())?;
        let statement: Option<TicketStatementQuery> = any.unpack().map_err(|_| foreign())?;
        Handle::decode(&statement.ok_or_else(foreign)?.statement_handle)
    }

    /// # Errors
    /// `ResourceExhausted` if statement and parameters together are too long.
    pub(super) fn encode(&self) -> Result<Bytes, Status> {
        let bytes = serde_json::to_vec(self).map_err(|error| Status::internal(error.to_string()))?;
        if bytes.len() > HANDLE_BYTES_MAX {
            let message = format!("statement and parameters are longer than {HANDLE_BYTES_MAX} bytes");
            return Err(Status::resource_exhausted(message));
        }
        Ok(bytes.into())
    }

    /// The question with one row of parameters: by name where the row has the statement's names, else in the statement's order.
    ///
    /// # Errors
    /// `InvalidArgument` if the row has not as many values as the statement has parameters.
    pub(super) fn bind(mut self, names: &[String], row: RecordBatch) -> Result<Handle, Status> {
        if row.num_columns() != names.len() {
            let message = format!("the statement has {} parameters, {} were given", names.len(), row.num_columns());
            return Err(Status::invalid_argument(message));
        }
        let is_named = names.iter().all(|name| row.column_by_name(name).is_some());
        let column = |at: usize, name: &str| if is_named { row.column_by_name(name) } else { row.columns().get(at) };
        let values = names
            .iter()
            .enumerate()
            .filter_map(|(at, name)| column(at, name).map(|column| (name.clone(), encode::cell(column.as_ref(), 0))));
        self.request.params = values.collect::<BTreeMap<_, _>>();
        Ok(self)
    }
}

fn foreign() -> Status {
    Status::invalid_argument("the ticket was not given out by this service; ask for the flight info again")
}

/// The executions that run: the id in their ticket, and the engine's number of the query.
#[derive(Clone, Default)]
pub(super) struct Asked {
    running: Arc<Mutex<BTreeMap<Uuid, u64>>>,
}

/// An execution's entry, gone when the answer is.
pub(super) struct Entry {
    asked: Asked,
    id: Uuid,
    query: u64,
}

impl Asked {
    /// Notes that the ticket's question runs as the engine's query `query`.
    pub(super) fn runs(&self, id: Uuid, query: u64) -> Entry {
        self.running.lock().insert(id, query);
        Entry { asked: self.clone(), id, query }
    }

    /// The engine's query behind a ticket.
    pub(super) fn running(&self, id: Uuid) -> Option<u64> {
        self.running.lock().get(&id).copied()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut running = self.asked.running.lock();
        // The same ticket may have been fetched again since.
        if running.get(&self.id) == Some(&self.query) {
            running.remove(&self.id);
        }
    }
}
