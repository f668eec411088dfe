//! A process from its first signal handler to its exit code.

use std::time::Duration;

use service::principal::{Principal, Principals};
use service::shutdown::{Shutdown, what_became};
use service::signal::Stop;
use service::tls::Acceptor;
use service::{Deps, Error};

use crate::failure::{Failure, INTERRUPTED, IO};
use crate::print;
use crate::settings::Config;

/// How long each stage of the shutdown may take.
const STAGE_GRACE: Duration = Duration::from_secs(30);
/// How long tasks may take to end after the last stage.
const TASK_GRACE: Duration = Duration::from_secs(5);

/// A running process: shared parts, and the signals that end it.
pub(crate) struct Process {
    deps: Deps,
    /// Clients that live in this process leave before the services they call begin to stop.
    clients: Shutdown,
    stop: Stop,
}

impl Process {
    /// Starts to listen for signals and reads the certificate; services are built with [`Process::deps`].
    pub(crate) fn start(config: &Config) -> Result<Self, Failure> {
        let stop = Stop::listen()?;
        let mut deps = Deps::system();
        deps.principals = Principals::new(&config.principal, &deps.clock);
        deps.tls = Acceptor::load(&config.tls)?;
        deps.tls.clone().watch(&deps);
        deps.limits = config.listen;
        identify(&deps);
        date_tokens(&config.principal, &deps);
        Ok(Self { deps, clients: Shutdown::new(), stop })
    }

    pub(crate) fn deps(&self) -> &Deps {
        &self.deps
    }

    /// Parts for clients of these services that run in the same process.
    pub(crate) fn client_deps(&self) -> Deps {
        Deps { shutdown: self.clients.clone(), ..self.deps.clone() }
    }

    /// Waits for the services to be built, unless a signal comes first.
    pub(crate) async fn build<T>(&mut self, build: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            built = build => built,
            signal = self.stop.next() => Err(Error::cancelled(format!("{signal} during the start")).into()),
        }
    }

    /// Runs until a signal, a failed task or `end`, then drains stage by stage.
    ///
    /// # Errors
    /// What failed, or who had not drained in time.
    pub(crate) async fn run(mut self, end: impl Future<Output = ()>) -> Result<(), Failure> {
        let reason = tokio::select! {
            signal = self.stop.next() => signal.to_owned(),
            () = self.deps.tasks.failed().cancelled_owned() => "a failed task".to_owned(),
            () = end => "the end of the run".to_owned(),
        };
        tracing::info!(reason, "draining; a second signal ends the process at once");
        let late = tokio::select! {
            late = drain(&self.clients, &self.deps) => late,
            signal = self.stop.next() => {
                tracing::error!(signal, "ended before everything was drained");
                // Nothing runs after this on purpose: the journal is what keeps acknowledged data.
                std::process::exit(INTERRUPTED.into());
            }
        };
        if let Some(failure) = self.deps.tasks.failure() {
            return Err(Error::internal(failure).with_hint("the log above has the details").into());
        }
        if !late.is_empty() {
            let error =
                Error::internal(format!("not drained in time: {}", late.join(", "))).with_hint(what_became(&late));
            return Err(Failure::new(IO, error));
        }
        print::line("drained");
        Ok(())
    }
}

/// Runs until a signal or a failure.
pub(crate) async fn forever() {
    std::future::pending().await
}

async fn drain(clients: &Shutdown, deps: &Deps) -> Vec<String> {
    let mut late = clients.walk(STAGE_GRACE).await;
    deps.health.drain();
    late.extend(deps.shutdown.walk(STAGE_GRACE).await);
    late.extend(deps.tasks.join(TASK_GRACE).await);
    late
}

fn identify(deps: &Deps) {
    let version = [("version", env!("CARGO_PKG_VERSION").to_owned())];
    deps.metrics.gauge("tokenwatt_build", "1, with the version of the binary.", &version).set(1.0);
}

/// When tokens expire, for an alert before they do.
fn date_tokens(principals: &[Principal], deps: &Deps) {
    for principal in principals {
        if let Some(expires) = principal.expires {
            let help = "When the token of this principal expires, seconds since 1970-01-01 UTC.";
            let label = [("principal", principal.name.clone())];
            let gauge = deps.metrics.gauge("tokenwatt_token_expires_timestamp_seconds", help, &label);
            gauge.set(expires.as_second() as f64);
        }
    }
}
