//! Flight SQL: answers as Arrow batches over gRPC, for ADBC, JDBC, ODBC and pandas.
//!
//! ```text
//! handshake ─► (statement | prepared statement) ─► flight info: schema + ticket ─► get: batches
//! ```
//!
//! Nothing is kept between calls: a ticket and the handle of a prepared statement hold the question itself, so that any
//! process on the same lake can answer the next call.

mod call;
mod catalog;
mod handle;
mod stream;

use std::{pin::Pin, sync::Arc};

use arrow::{
    array::RecordBatch,
    datatypes::{Field, Schema, SchemaRef},
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightData, FlightDescriptor,
    FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, Ticket,
    flight_service_server::{FlightService, FlightServiceServer},
    sql::{
        ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
        ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any, CommandGetCatalogs,
        CommandGetDbSchemas, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables, CommandGetXdbcTypeInfo,
        CommandPreparedStatementQuery, CommandStatementQuery, CommandStatementUpdate, DoPutPreparedStatementResult,
        ProstMessageExt, SqlInfo, TicketStatementQuery,
        server::{FlightSqlService, PeekableFlightDataStream},
    },
};
use axum::{
    Router,
    extract::ConnectInfo,
    http::{HeaderMap, header},
};
use bytes::Bytes;
use futures::{Stream, stream as streams};
use prost::Message;
use service::{principal::Role, tls::Peer};
use telemetry::contract::SqlRequest;
use tonic::{Extensions, Request, Response, Status, Streaming, metadata::MetadataMap, service::Routes};

use crate::{execute::Engine, reader::Reader};
use call::{deadline_ms, noted, shorter, status};
use handle::{Asked, Handle};
use stream::plain;

/// Largest message a client may send: a statement with one set of parameters.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// The action that ends a query by its flight info; the library knows only its older form.
const CANCEL_FLIGHT_INFO: &str = "CancelFlightInfo";

/// The gRPC routes of Flight SQL.
pub(crate) fn router(engine: Arc<Engine>) -> Router {
    let flight = Flight { engine, asked: Asked::default() };
    let server = FlightServiceServer::new(flight).max_decoding_message_size(MESSAGE_BYTES_MAX);
    Routes::new(server).prepare().into_axum_router()
}

/// The service. Calls share nothing but the engine and the queries that run.
struct Flight {
    engine: Arc<Engine>,
    asked: Asked,
}

type Answers = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;
type Handshakes = Pin<Box<dyn Stream<Item = Result<HandshakeResponse, Status>> + Send>>;

impl Flight {
    /// Who sends the request.
    fn reader<T>(&self, request: &Request<T>) -> Result<Arc<Reader>, Status> {
        let headers = request.metadata().clone().into_headers();
        let peer = request.extensions().get::<ConnectInfo<Peer>>().map(|info| &info.0);
        let principal = self.engine.deps.principals.identify(Role::Reader, &headers, peer)?;
        Ok(Arc::new(Reader::from(principal.as_ref()).through("flight")))
    }

    /// What the statement answers, and where to fetch it.
    async fn info<T>(
        &self,
        request: &Request<T>,
        descriptor: FlightDescriptor,
        handle: Handle,
    ) -> Result<Response<FlightInfo>, Status> {
        let reader = self.reader(request)?;
        let described = self.engine.describe(&handle.request, &reader).await.map_err(|error| status(&error))?;
        let ticket = TicketStatementQuery { statement_handle: handle.encode()? };
        located(&plain(&described.schema), descriptor, &ticket)
    }

    async fn answer(
        &self,
        reader: &Arc<Reader>,
        metadata: &MetadataMap,
        handle: Handle,
    ) -> Result<Response<Answers>, Status> {
        let mut request = handle.request;
        request.timeout_ms = shorter(request.timeout_ms, deadline_ms(metadata));
        let opened = self.engine.open(request, reader).await.map_err(|error| status(&error))?;
        let running = self.asked.runs(handle.id, opened.id);
        let notice = opened.notice.as_deref().and_then(noted);
        let mut response = Response::new(stream::encoded(opened, running));
        if let Some(notice) = notice {
            response.metadata_mut().insert("x-tokenwatt-notice", notice);
        }
        Ok(response)
    }

    /// Ends the query that was asked with that ticket, if it runs and is the reader's to end.
    fn cancel(&self, reader: &Reader, info: Option<&FlightInfo>) -> CancelStatus {
        let tickets = info.iter().flat_map(|info| &info.endpoint).filter_map(|endpoint| endpoint.ticket.as_ref());
        let handles = tickets.filter_map(|ticket| Handle::of_ticket(ticket).ok());
        let mut outcome = CancelStatus::NotCancellable;
        for id in handles.filter_map(|handle| self.asked.running(handle.id)) {
            if self.engine.running().cancel(id, reader) {
                outcome = CancelStatus::Cancelled;
            }
        }
        outcome
    }
}

#[tonic::async_trait]
impl FlightSqlService for Flight {
    type FlightService = Flight;

    /// Name and password, or a token, become the token that later calls show.
    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Handshakes>, Status> {
        self.reader(&request)?;
        let token = service::principal::Token::of(&request.metadata().clone().into_headers());
        let none: Handshakes = Box::pin(streams::iter([Ok(HandshakeResponse::default())]));
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert(header::AUTHORIZATION, token.bearer()?);
        }
        Ok(Response::from_parts(MetadataMap::from_headers(headers), none, Extensions::default()))
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let descriptor = request.get_ref().clone();
        self.info(&request, descriptor, Handle::new(SqlRequest { sql: query.query, ..SqlRequest::default() })).await
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let descriptor = request.get_ref().clone();
        // Each execution is one of its own, which can be cancelled apart from the others.
        let handle = Handle::new(Handle::decode(&query.prepared_statement_handle)?.request);
        self.info(&request, descriptor, handle).await
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<Answers>, Status> {
        let reader = self.reader(&request)?;
        let handle = Handle::decode(&ticket.statement_handle)?;
        self.answer(&reader, request.metadata(), handle).await
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<Answers>, Status> {
        let reader = self.reader(&request)?;
        let handle = Handle::decode(&query.prepared_statement_handle)?;
        self.answer(&reader, request.metadata(), handle).await
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let reader = self.reader(&request)?;
        let handle = Handle::new(SqlRequest { sql: query.query, ..SqlRequest::default() });
        let described = self.engine.describe(&handle.request, &reader).await.map_err(|error| status(&error))?;
        let parameters = described.parameters.iter().map(|(name, kind)| {
            let kind = kind.clone().unwrap_or(arrow::datatypes::DataType::Utf8);
            Field::new(name, kind, true)
        });
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: handle.encode()?,
            dataset_schema: stream::schema_bytes(&plain(&described.schema))?,
            parameter_schema: stream::schema_bytes(&plain(&Schema::new(parameters.collect::<Vec<_>>()).into()))?,
        })
    }

    /// The parameters become part of the handle that the client uses from now on.
    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let reader = self.reader(&request)?;
        let handle = Handle::decode(&query.prepared_statement_handle)?;
        let described = self.engine.describe(&handle.request, &reader).await.map_err(|error| status(&error))?;
        let names: Vec<String> = described.parameters.into_iter().map(|(name, _)| name).collect();
        let bound = handle.bind(&names, stream::only_row(request.into_inner()).await?)?;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(bound.encode()?) })
    }

    /// Nothing is kept of it.
    async fn do_action_close_prepared_statement(
        &self,
        _query: ActionClosePreparedStatementRequest,
        _request: Request<Action>,
    ) -> Result<(), Status> {
        Ok(())
    }

    async fn do_put_statement_update(
        &self,
        _command: CommandStatementUpdate,
        _request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(Status::permission_denied("this interface only reads; rows arrive through the collector"))
    }

    async fn do_action_cancel_query(
        &self,
        query: ActionCancelQueryRequest,
        request: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        let reader = self.reader(&request)?;
        let info = FlightInfo::decode(query.info).map_err(|error| Status::invalid_argument(error.to_string()))?;
        // The older form numbers its outcomes as the newer one does.
        Ok(ActionCancelQueryResult { result: self.cancel(&reader, Some(&info)).into() })
    }

    async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> Result<Response<<Self as FlightService>::DoActionStream>, Status> {
        let action = request.get_ref();
        if action.r#type != CANCEL_FLIGHT_INFO {
            return Err(Status::unimplemented(format!("action {} is not known", action.r#type)));
        }
        let reader = self.reader(&request)?;
        let asked = CancelFlightInfoRequest::decode(action.body.clone());
        let asked = asked.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let result = CancelFlightInfoResult { status: self.cancel(&reader, asked.info.as_ref()).into() };
        let body = Bytes::from(result.encode_to_vec());
        Ok(Response::new(Box::pin(streams::iter([Ok(arrow_flight::Result { body })]))))
    }

    async fn list_custom_actions(&self) -> Option<Vec<Result<ActionType, Status>>> {
        let description = "Ends the query of a flight info: CancelFlightInfoRequest, CancelFlightInfoResult".to_owned();
        Some(vec![Ok(ActionType { r#type: CANCEL_FLIGHT_INFO.to_owned(), description })])
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.reader(&request)?;
        located(&query.into_builder().schema(), request.into_inner(), &query)
    }

    async fn do_get_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<Ticket>,
    ) -> Result<Response<Answers>, Status> {
        self.reader(&request)?;
        whole(catalog::catalogs(query)?)
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.reader(&request)?;
        located(&query.clone().into_builder().schema(), request.into_inner(), &query)
    }

    async fn do_get_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<Ticket>,
    ) -> Result<Response<Answers>, Status> {
        let reader = self.reader(&request)?;
        whole(catalog::schemas(&self.engine, &reader, query).await?)
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.reader(&request)?;
        located(&query.clone().into_builder().schema(), request.into_inner(), &query)
    }

    async fn do_get_tables(
        &self,
        query: CommandGetTables,
        request: Request<Ticket>,
    ) -> Result<Response<Answers>, Status> {
        let reader = self.reader(&request)?;
        whole(catalog::tables(&self.engine, &reader, query).await?)
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.reader(&request)?;
        located(&query.into_builder().schema(), request.into_inner(), &query)
    }

    async fn do_get_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<Ticket>,
    ) -> Result<Response<Answers>, Status> {
        self.reader(&request)?;
        whole(catalog::table_types(query)?)
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.reader(&request)?;
        located(&catalog::server_info()?.schema(), request.into_inner(), &query)
    }

    async fn do_get_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<Ticket>,
    ) -> Result<Response<Answers>, Status> {
        self.reader(&request)?;
        whole(catalog::server_info()?.record_batch(query.info)?)
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.reader(&request)?;
        located(&catalog::types()?.schema(), request.into_inner(), &query)
    }

    async fn do_get_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<Ticket>,
    ) -> Result<Response<Answers>, Status> {
        self.reader(&request)?;
        whole(catalog::types()?.record_batch(query.data_type)?)
    }

    /// What there is to say of the server is said in [`catalog::server_info`].
    async fn register_sql_info(&self, _id: i32, _result: &SqlInfo) {}
}

/// Where the answer of `command` is fetched: here.
fn located<C: ProstMessageExt>(
    schema: &SchemaRef,
    descriptor: FlightDescriptor,
    command: &C,
) -> Result<Response<FlightInfo>, Status> {
    let ticket: Any = command.as_any();
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket.encode_to_vec()));
    let info = FlightInfo::new().try_with_schema(schema).map_err(|error| Status::internal(error.to_string()))?;
    Ok(Response::new(info.with_endpoint(endpoint).with_descriptor(descriptor)))
}

fn whole(batch: RecordBatch) -> Result<Response<Answers>, Status> {
    Ok(Response::new(stream::encoded_batch(batch)))
}

#[cfg(test)]
mod tests;
