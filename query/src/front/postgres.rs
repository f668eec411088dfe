//! PostgreSQL's wire protocol, for everything that speaks it: psql, Grafana, SQLAlchemy, JDBC, ADBC.
//!
//! ```text
//! accept (bounded) ─► login (TLS, proof, 10 s) ─► conversation ─► statement ─► parameters ─► dialect ─► engine ─► rows
//!                  └► cancel                       simple · extended                                            └► COPY
//! ```
//!
//! Invariants:
//! 1. Nobody is taken for somebody else: where principals are named, no byte of a question is read before a proof.
//! 2. Nothing a client sets is seen by another, and nothing it says writes.
//! 3. An answer is whole or an error: one that was cut at `query.max_rows` ends as `54000`.
//! 4. A query runs no longer than its client waits for it.

mod cancel;
mod constants;
mod conversation;
mod dialect;
mod frontend;
mod login;
mod parameters;
mod refusal;
mod rows;
mod statement;
mod types;
mod values;
mod wire;

use std::{net::SocketAddr, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use service::{
    Error, Result,
    metrics::Counter,
    principal::Principal,
    shutdown::{CancellationToken, Hold, Stage},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};

use super::session::Settings;
use crate::execute::Engine;
use cancel::Cancels;
use conversation::{Conversation, Parts};
use dialect::Dialect;
use login::{Begun, Proven};
use refusal::Refusal;
use wire::{End, Wire};

/// Time for a login; whoever needs more is not going to finish.
const LOGIN: Duration = Duration::from_secs(10);
/// Most clients in the middle of one.
const LOGINS_MAX: usize = 64;
/// How long statements that run may go on after the server was told to stop.
const DRAIN: Duration = Duration::from_secs(20);
/// Pause after the system could not hand out a connection (too many files, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The front, bound to its port.
pub struct Postgres {
    listener: TcpListener,
    addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<Engine>,
    cancels: Arc<Cancels>,
    dialect: Arc<Dialect>,
    /// Sockets, logged in or not.
    sockets: Arc<Semaphore>,
    connections: Arc<Semaphore>,
    refused: Counter,
}

impl Postgres {
    /// Binds the port; nothing is served yet.
    pub(crate) async fn bind(engine: Arc<Engine>, addr: SocketAddr) -> Result<Postgres> {
        let listener = service::listen::bind(addr).await?;
        let addr =
            listener.local_addr().map_err(|error| Error::internal("read the bound address").with_source(error))?;
        let most = engine.config.connections_max;
        let connections = Arc::new(Semaphore::new(most));
        let counted = Arc::downgrade(&connections);
        let front = [("front", "postgresql".to_owned())];
        let help = "Connections that are logged in.";
        engine.deps.metrics.observe("tokenwatt_query_connections", help, &front, move || {
            counted.upgrade().map(|connections| most.saturating_sub(connections.available_permits()) as f64)
        });
        let help = "Connections that were refused at their login.";
        let refused = engine.deps.metrics.counter("tokenwatt_query_logins_refused_total", help, &front);
        let shared = Shared {
            engine,
            cancels: Arc::default(),
            dialect: Arc::default(),
            sockets: Arc::new(Semaphore::new(most.saturating_add(LOGINS_MAX))),
            connections,
            refused,
        };
        Ok(Postgres { listener, addr, shared: Arc::new(shared) })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves in the background until the last stage of the shutdown, then lets statements that run finish for a while.
    pub fn spawn(self) {
        let deps = self.shared.engine.deps.clone();
        let health = deps.health.component("postgresql");
        let stop = deps.shutdown.token(Stage::Query);
        deps.tasks.spawn("query.postgresql", async move {
            health.ready();
            self.accept(stop).await;
        });
    }

    async fn accept(self, stop: CancellationToken) {
        loop {
            // Cancel safe: a connection not accepted stays in the kernel.
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stop.cancelled() => return,
            };
            match accepted {
                Ok((socket, _)) => self.take(socket, &stop),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves a connection in the background. One too many is dropped: there is nobody to tell it so.
    fn take(&self, socket: TcpStream, stop: &CancellationToken) {
        let Ok(place) = Arc::clone(&self.shared.sockets).try_acquire_owned() else { return };
        let deps = &self.shared.engine.deps;
        let hold = deps.shutdown.hold(Stage::Query, "postgresql");
        let connection = Connection { shared: Arc::clone(&self.shared), _place: place, _hold: hold };
        let stop = stop.clone();
        deps.tasks.spawn("query.postgresql.connection", async move {
            let overdue = async {
                stop.cancelled().await;
                sleep(DRAIN).await;
            };
            // One connection's fault is not the process's.
            let served = AssertUnwindSafe(connection.serve(socket, stop.clone())).catch_unwind();
            tokio::select! {
                served = served => if served.is_err() {
                    tracing::error!("a PostgreSQL connection ended by a fault of its own");
                },
                () = overdue => tracing::warn!("a statement that still ran at the end of the drain was cut"),
            }
        });
    }
}

/// A connection's share of everything.
struct Connection {
    shared: Arc<Shared>,
    _place: OwnedSemaphorePermit,
    _hold: Hold,
}

impl Connection {
    async fn serve(self, socket: TcpStream, stop: CancellationToken) {
        // Without it the kernel may hold back a row until the one before it was acknowledged.
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "connection without TCP_NODELAY");
        }
        let login = timeout(LOGIN, self.login(socket));
        let logged_in = tokio::select! {
            login = login => login,
            () = stop.cancelled() => return,
        };
        match logged_in {
            Ok(Some((conversation, _permit))) => conversation.run(stop).await,
            Ok(None) => {}
            Err(_) => self.shared.refused.inc(),
        }
    }

    async fn login(&self, socket: TcpStream) -> Option<(Conversation, OwnedSemaphorePermit)> {
        let deps = &self.shared.engine.deps;
        let (mut wire, peer, parameters) = match login::begin(socket, deps, &self.shared.cancels).await {
            Ok(Begun::Wire(wire, peer, parameters)) => (wire, peer, parameters),
            Ok(Begun::Refused(wire, refusal)) => {
                self.refuse(wire, End::Refused(refusal)).await;
                return None;
            }
            Ok(Begun::Cancelled) | Err(_) => return None,
        };
        let parts = match login::prove(&mut wire, deps, &peer, &parameters).await {
            Ok(proven) => self.admit(&mut wire, proven, &parameters).await,
            Err(end) => Err(end),
        };
        match parts {
            Ok((reader, token_of, settings, cancel, permit)) => {
                let engine = Arc::clone(&self.shared.engine);
                let dialect = Arc::clone(&self.shared.dialect);
                Some((Conversation::new(Parts { wire, engine, reader, token_of, settings, dialect, cancel }), permit))
            }
            Err(end) => {
                self.refuse(wire, end).await;
                None
            }
        }
    }

    /// A place for somebody who has proven who they are.
    async fn admit(
        &self,
        wire: &mut Wire,
        proven: Proven,
        parameters: &[(String, String)],
    ) -> std::result::Result<Admitted, End> {
        let permit = Arc::clone(&self.shared.connections).try_acquire_owned().map_err(|_| {
            let most = self.shared.engine.config.connections_max;
            let refusal = Refusal::fatal("53300", format!("{most} clients are connected (query.connections_max)"));
            End::Refused(refusal.with_hint("close connections that are idle, or raise query.connections_max"))
        })?;
        let random = |error: Error| End::Refused(Refusal::fatal("XX000", error.to_string()));
        let cancel = self.shared.cancels.enter().map_err(random)?;
        let settings = settings(parameters);
        let application = settings.show("application_name").unwrap_or_default();
        login::welcome(wire, &proven.reader, application, cancel.key()).await?;
        Ok((Arc::new(proven.reader), proven.token_of, settings, cancel, permit))
    }

    async fn refuse(&self, wire: Wire, end: End) {
        if matches!(end, End::Refused(_)) {
            self.shared.refused.inc();
        }
        wire.close(end).await;
    }
}

type Admitted = (Arc<crate::reader::Reader>, Option<Arc<Principal>>, Settings, cancel::Cancel, OwnedSemaphorePermit);

/// The settings that a start-up names, those that mean something here. Drivers send some that they never look at again, so the others
/// are not refused.
fn settings(parameters: &[(String, String)]) -> Settings {
    let mut settings = Settings::default();
    let named = parameters.iter().filter(|(name, _)| !matches!(name.as_str(), "user" | "database" | "options"));
    let options = parameters.iter().find(|(name, _)| name == "options").map(|(_, value)| options(value));
    for (name, value) in named.cloned().chain(options.unwrap_or_default()) {
        if let Err(error) = settings.set(&name, &value) {
            tracing::debug!(name, error = error.message, "a setting of a start-up means nothing here");
        }
    }
    settings
}

/// `-c name=value`, with or without the blank, as often as it is there.
fn options(text: &str) -> Vec<(String, String)> {
    let words = text.split_whitespace().map(|word| word.strip_prefix("-c").or(word.strip_prefix("--")).unwrap_or(word));
    words.filter_map(|word| word.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::settings;

    #[test]
    fn a_start_up_names_settings() {
        let pairs = [
            ("user", "grafana"),
            ("application_name", "psql"),
            ("geqo", "off"),
            ("client_encoding", "LATIN1"),
            ("options", "-c statement_timeout=5s -cTimeZone=Asia/Tokyo --search_path=public -c work_mem=1TB"),
        ];
        let settings = settings(&pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let shown = |name: &str| settings.show(name).map(str::to_owned).ok();
        assert_eq!(shown("application_name").as_deref(), Some("psql"));
        assert_eq!(shown("statement_timeout").as_deref(), Some("5s"));
        assert_eq!(shown("TimeZone").as_deref(), Some("Asia/Tokyo"));
        assert_eq!(shown("client_encoding").as_deref(), Some("UTF8"));
        assert_eq!(shown("work_mem"), None);
    }
}
