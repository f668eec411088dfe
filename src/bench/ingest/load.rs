//! The load: connections with requests in flight, each sending fresh bodies until time is up.
//!
//! At full throttle a refused request is sent again, the same bytes, until it is acknowledged. At a set pace it is given up,
//! since more than can be taken is what the pace is for. What counts is what was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use prost::bytes::Bytes;
use service::error::{Error, Result};
use service::shutdown::CancellationToken;
use tokio::sync::Mutex;

use super::body::{Body, Held, Sequence, Shape};
use super::wire::{self, Answer, Connection, Wire};

/// Bodies that a connection goes through again and again, so that gaps and batch sizes differ from request to request. Calls
/// that are interleaved end with the last of them: with more they would be longer, and the memory that is sent too.
const TEMPLATES: usize = 16;

/// Messages of a template that are kept to be written over.
const USED_MAX: usize = 4;

/// How long a refused request waits before it is sent again.
const RESEND_AFTER: Duration = Duration::from_millis(200);

/// Times a request is sent before the benchmark gives up.
const TRIES_MAX: u32 = 100;

/// What to send, and how.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) grpc: String,
    pub(super) http: String,
    pub(super) wire: Wire,
    pub(super) shape: Shape,
    pub(super) connections: u32,
    pub(super) in_flight: u32,
    pub(super) duration: Duration,
    /// Spans offered a second, whether they are taken or not; none is as much as is taken.
    pub(super) pace: Option<f64>,
    /// Set if the receiver is to be killed, and cancelled when it was: a request without an answer then ends its sender.
    pub(super) victim: Option<CancellationToken>,
}

/// How long after its connection broke a receiver may be told to have been killed.
const KILL_NOTICE: Duration = Duration::from_secs(2);

/// What was acknowledged.
pub(super) struct Sent {
    /// When the load began.
    pub(super) start: Instant,
    /// Requests acknowledged, in the order of their answers.
    pub(super) acks: Vec<Ack>,
    /// Answers that refused a request for now.
    pub(super) refused: u64,
    /// Spans that an answer rejected for good.
    pub(super) rejected: i64,
    /// Call numbers given out so far.
    pub(super) calls: u64,
}

/// One acknowledged request.
#[derive(Clone)]
pub(super) struct Ack {
    /// Since the start of the load.
    pub(super) at: Duration,
    /// Time from sending to the answer.
    pub(super) took: Duration,
    /// Spans in it, and how many of them are tokens.
    pub(super) spans: u64,
    pub(super) tokens: u64,
    /// Which tokens, of calls counted from `first_call`.
    pub(super) held: Arc<[Held]>,
    pub(super) first_call: u64,
}

impl Sent {
    /// Nothing acknowledged yet.
    pub(super) fn at(start: Instant) -> Self {
        Self { start, acks: Vec::new(), refused: 0, rejected: 0, calls: 0 }
    }

    pub(super) fn spans(&self) -> u64 {
        self.acks.iter().map(|ack| ack.spans).sum()
    }

    pub(super) fn tokens(&self) -> u64 {
        self.acks.iter().map(|ack| ack.tokens).sum()
    }
}

/// What a connection sends.
struct Templates {
    templates: Vec<Template>,
    /// Calls in all of them.
    calls: u64,
}

/// A body that is sent again and again, each time with other ids and times.
struct Template {
    body: Body,
    /// Messages that were sent.
    used: parking_lot::Mutex<Vec<Bytes>>,
}

/// What the senders share.
struct Shared {
    load: Load,
    run: u64,
    next_call: AtomicU64,
    turns: AtomicU64,
    start: Instant,
    sent: Mutex<Sent>,
}

impl Load {
    /// Sends until the time is up and every request has its answer. Calls are numbered from `first_call`.
    pub(super) async fn run(&self, first_call: u64) -> Result<Sent> {
        let run = u64::from(std::process::id()) << 32 | u64::from(unix_now().subsec_nanos());
        let (grpc, http) = (&self.grpc, &self.http);
        let mut senders = tokio::task::JoinSet::new();
        let mut connections = Vec::new();
        for number in 0..u64::from(self.connections) {
            let templates = Arc::new(Templates::new(&self.shape, number)?);
            connections.push((self.wire.connect(grpc, http).await?, templates));
        }
        let start = Instant::now();
        let shared = Arc::new(Shared {
            load: self.clone(),
            run,
            next_call: AtomicU64::new(first_call),
            turns: AtomicU64::new(0),
            start,
            sent: Mutex::new(Sent::at(start)),
        });
        for (connection, templates) in connections {
            for lane in 0..self.in_flight {
                senders.spawn(send(connection.clone(), lane as usize, Arc::clone(&templates), shared.clone()));
            }
        }
        while let Some(sender) = senders.join_next().await {
            sender.map_err(|error| Error::internal("a sender broke").with_source(error))??;
        }
        let sent = shared.sent.lock().await;
        Ok(Sent { acks: sent.acks.clone(), calls: shared.next_call.load(Ordering::Relaxed), ..*sent })
    }
}

impl Shared {
    /// Waits for the next request's turn; false when time is up.
    async fn turn(&self) -> bool {
        let mut due = self.start;
        if let Some(pace) = self.load.pace {
            let turn = self.turns.fetch_add(1, Ordering::Relaxed) as f64;
            due += Duration::from_secs_f64(turn * self.load.shape.spans as f64 / pace);
            tokio::time::sleep_until(due.into()).await;
        }
        due.max(Instant::now()) < self.start + self.load.duration
    }
}

async fn send(mut connection: Connection, lane: usize, templates: Arc<Templates>, shared: Arc<Shared>) -> Result<()> {
    let mut turn = lane;
    let mut first_call = None;
    while shared.turn().await {
        let place = turn % templates.templates.len();
        let Some(template) = templates.templates.get(place) else { return Ok(()) };
        turn += 1;
        let going_on = first_call.filter(|_| place > 0);
        let first_call = *first_call
            .insert(going_on.unwrap_or_else(|| shared.next_call.fetch_add(templates.calls, Ordering::Relaxed)));
        let message = template.message(shared.run, first_call);
        let begun = Instant::now();
        let Some(answer) = shared.load.offer(&mut connection, message.clone()).await? else { return Ok(()) };
        template.give_back(message);
        let now = Instant::now();
        let mut sent = shared.sent.lock().await;
        let Some((refused, rejected)) = answer else {
            sent.refused += 1;
            continue;
        };
        sent.refused += refused;
        sent.rejected += rejected;
        sent.acks.push(Ack {
            at: now - shared.start,
            took: now - begun,
            spans: shared.load.shape.spans as u64,
            tokens: template.body.tokens() as u64,
            held: template.body.held(),
            first_call,
        });
    }
    Ok(())
}

impl Templates {
    fn new(shape: &Shape, seed: u64) -> Result<Self> {
        let sequence = Sequence::new(shape, TEMPLATES, seed)?;
        let calls = sequence.calls();
        let template = |body| Template { body, used: parking_lot::Mutex::default() };
        Ok(Self { templates: sequence.bodies.into_iter().map(template).collect(), calls })
    }
}

impl Template {
    /// A body with ids and times of its own, in the memory of one before if there is one.
    fn message(&self, run: u64, first_call: u64) -> Bytes {
        let used = self.used.lock().pop().and_then(|used| used.try_into_mut().ok());
        let mut message = used.unwrap_or_else(|| wire::framed(self.body.bytes()));
        if let Some(bytes) = message.get_mut(wire::PREFIX..) {
            self.body.renew(bytes, run, first_call, unix_now().as_nanos() as u64);
        }
        message.freeze()
    }

    /// Keeps a message's memory for the next.
    fn give_back(&self, message: Bytes) {
        let mut used = self.used.lock();
        if used.len() < USED_MAX {
            used.push(message);
        }
    }
}

impl Load {
    /// Sends a body as the pace has it: the refusals met and the spans rejected, or nothing if it was given up. Nothing at all
    /// if the receiver was killed.
    async fn offer(&self, connection: &mut Connection, bytes: Bytes) -> Result<Option<Option<(u64, i64)>>> {
        let offer = async {
            match self.pace {
                None => until_acknowledged(connection, bytes).await,
                Some(_) => match connection.send(bytes).await? {
                    Answer::Acknowledged { rejected } => Ok(Some((0, rejected))),
                    Answer::Refused => Ok(None),
                },
            }
        };
        let Some(victim) = &self.victim else { return offer.await.map(Some) };
        let answer = tokio::select! {
            biased;
            answer = offer => answer,
            () = victim.cancelled() => return Ok(None),
        };
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) => match tokio::time::timeout(KILL_NOTICE, victim.cancelled()).await {
                Ok(()) => Ok(None),
                Err(_) => Err(error),
            },
        }
    }
}

/// Sends until acknowledged; returns the refusals met and the spans rejected.
async fn until_acknowledged(connection: &mut Connection, bytes: Bytes) -> Result<Option<(u64, i64)>> {
    for tries in 0..TRIES_MAX {
        match connection.send(bytes.clone()).await? {
            Answer::Acknowledged { rejected } => return Ok(Some((u64::from(tries), rejected))),
            Answer::Refused => tokio::time::sleep(RESEND_AFTER).await,
        }
    }
    Err(Error::unavailable(format!("the collector refused the same request {TRIES_MAX} times")))
}

fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
