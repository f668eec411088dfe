//! An hour of single calls and the tokens they made.

use std::sync::Arc;

use arrow::array::RecordBatch;
use service::error::Result;

use super::fleet::{Fleet, HOUR_US, Host, NOON_US};
use super::rows::{Columns, Draws};

/// Calls of the hour at scale 1: 500 a second.
pub(super) const CALLS: u64 = 1_800_000;
/// The longest call; what would come later is not made. Microseconds.
const CALL_US_MAX: i64 = 110_000_000;
/// Rows of a batch, about.
const BATCH_ROWS: usize = 32 * 1024;
/// Every so many calls are seen at the gateway too.
const GATEWAY_EVERY: u64 = 4;

/// The hour's calls, as many as a scale gives.
pub(super) struct Hour {
    pub(super) fleet: Arc<Fleet>,
    pub(super) calls: u64,
}

/// One call.
struct Call<'a> {
    number: u64,
    host: &'a Host,
    tenant: &'a str,
    trace_id: String,
    span_id: String,
    arrived_us: i64,
    queue_s: f64,
    prefill_s: f64,
    tokens: Vec<Token>,
    input_tokens: i64,
    is_error: bool,
}

struct Token {
    at_us: i64,
    batch: i64,
    device_us: i64,
    stall: Option<&'static str>,
}

impl Hour {
    /// At scale 1 an hour of Prime Day.
    pub(super) fn new(fleet: Arc<Fleet>, scale: f64) -> Hour {
        Hour { fleet, calls: ((CALLS as f64 * scale) as u64).max(1) }
    }

    /// The trace of a call in the middle of the hour.
    pub(super) fn a_trace(&self) -> String {
        trace_id(self.calls / 2)
    }

    fn arrived_us(&self, number: u64) -> i64 {
        NOON_US + ((number as f64 + 0.5) * HOUR_US as f64 / self.calls as f64) as i64
    }

    /// Numbers of the calls that arrive in a stretch of the hour, `from_us` and `to_us` into it.
    fn numbers(&self, from_us: i64, to_us: i64) -> std::ops::Range<u64> {
        let number = |us: i64| (us.clamp(0, HOUR_US) as f64 * self.calls as f64 / HOUR_US as f64) as u64;
        number(from_us)..number(to_us)
    }

    fn call(&self, number: u64) -> Call<'_> {
        let mut draws = Draws::of(2, number);
        let host = &self.fleet.hosts[draws.below(self.fleet.hosts.len() as u64) as usize];
        // A few callers make most of the calls.
        let tenant = (self.fleet.tenants.len() as f64 * draws.share().powi(3)) as usize;
        let arrived_us = self.arrived_us(number);
        let queue_s = if draws.below(20) == 0 { draws.around(0.8, 0.6) } else { draws.around(0.004, 0.8) };
        let input_tokens = draws.around(600.0, 0.9) as i64 + 1;
        let prefill_s = 0.04 + input_tokens as f64 * host.gap_s / 250.0;
        let first_us = arrived_us + ((queue_s + prefill_s) * 1e6) as i64;
        let is_error = draws.below(250) == 0;
        let wanted = if is_error { 0 } else { draws.around(76.0, 0.75).clamp(1.0, 1_000.0) as usize };
        let pace_s = draws.around(host.gap_s, 0.1);
        Call {
            number,
            host,
            tenant: &self.fleet.tenants[tenant],
            trace_id: trace_id(number),
            span_id: format!("{:016x}", draws.bits()),
            tokens: tokens(&mut draws, (arrived_us, first_us), wanted, pace_s),
            arrived_us,
            queue_s,
            prefill_s,
            input_tokens,
            is_error,
        }
    }

    /// Rows of `requests` that arrived in a stretch of the hour, in the table's order.
    ///
    /// # Errors
    /// None that a reader could mend.
    pub(super) fn requests(&self, from_us: i64, to_us: i64) -> Result<Vec<RecordBatch>> {
        let mut calls: Vec<_> = self.numbers(from_us, to_us).map(|number| self.call(number)).collect();
        calls.sort_by(|a, b| {
            (a.host.model, a.host.cluster, a.arrived_us).cmp(&(b.host.model, b.host.cluster, b.arrived_us))
        });
        let seen = calls.iter().flat_map(|call| {
            let gateway = (call.number % GATEWAY_EVERY == 0).then_some((call, "gateway"));
            std::iter::once((call, "server")).chain(gateway)
        });
        let seen: Vec<_> = seen.collect();
        seen.chunks(BATCH_ROWS).map(requests).collect()
    }

    /// Rows of `tokens` that left their engine in a stretch of the hour, in the table's order, a batch at a time.
    pub(super) fn tokens(
        self: Arc<Self>,
        from_us: i64,
        to_us: i64,
    ) -> impl Iterator<Item = Result<RecordBatch>> + Send {
        // The hour's last calls go on after its end, and their tokens are in its last file.
        let end_us = if to_us >= HOUR_US { HOUR_US + CALL_US_MAX } else { to_us };
        let window = NOON_US + from_us..NOON_US + end_us;
        let mut numbers: Vec<_> =
            self.numbers(from_us - CALL_US_MAX, to_us).map(|number| (trace_id(number), number)).collect();
        numbers.sort_unstable();
        let mut numbers = numbers.into_iter();
        std::iter::from_fn(move || {
            let (mut calls, mut rows) = (Vec::new(), 0);
            while rows < BATCH_ROWS
                && let Some((_, number)) = numbers.next()
            {
                let call = self.call(number);
                rows += call.tokens.iter().filter(|token| window.contains(&token.at_us)).count();
                calls.push(call);
            }
            let made = |call| move |(index, token)| Made { call, index, token };
            let all = calls.iter().flat_map(|call| call.tokens.iter().enumerate().map(made(call)));
            let made: Vec<_> = all.filter(|made| window.contains(&made.token.at_us)).collect();
            (!made.is_empty()).then(|| token_rows(&made))
        })
    }
}

/// A token with its place.
struct Made<'a> {
    call: &'a Call<'a>,
    index: usize,
    token: &'a Token,
}

fn trace_id(number: u64) -> String {
    let mut draws = Draws::of(3, number);
    format!("{:016x}{:016x}", draws.bits(), draws.bits())
}

fn tokens(draws: &mut Draws, (arrived_us, first_us): (i64, i64), wanted: usize, pace_s: f64) -> Vec<Token> {
    let mut at_us = first_us;
    let mut tokens = Vec::with_capacity(wanted);
    let mut batch = 8 + draws.below(56) as i64;
    for index in 0..wanted {
        if index > 0 {
            let (stall, slower) = match draws.below(2_000) {
                0 => (Some("preempted"), 20.0),
                1..=12 => (Some("prefill"), 4.0),
                _ => (None, 1.0),
            };
            at_us += (draws.around(pace_s, 0.05) * slower * 1e6) as i64;
            batch = (batch + draws.below(5) as i64 - 2).clamp(1, 64);
            let device_us = (pace_s * 1e6) as i64 / batch;
            tokens.push(Token { at_us, batch, device_us, stall });
        } else {
            tokens.push(Token { at_us, batch, device_us: (at_us - arrived_us) / batch, stall: None });
        }
        if at_us - arrived_us > CALL_US_MAX {
            tokens.pop();
            break;
        }
    }
    tokens
}

fn requests(rows: &[(&Call<'_>, &'static str)]) -> Result<RecordBatch> {
    let calls = || rows.iter().map(|(call, _)| *call);
    let ttft = |call: &Call<'_>| call.queue_s + call.prefill_s;
    let decode = |call: &Call<'_>| match (call.tokens.first(), call.tokens.last()) {
        (Some(first), Some(last)) => (last.at_us - first.at_us) as f64 / 1e6,
        _ => 0.0,
    };
    let tpot = |call: &Call<'_>| decode(call) / (call.tokens.len().max(2) - 1) as f64;
    let longest = |call: &Call<'_>| {
        let gaps = call.tokens.windows(2).map(|pair| pair[1].at_us - pair[0].at_us);
        gaps.max().unwrap_or(0) as f64 / 1e6
    };
    let on_device = |call: &Call<'_>, first: bool| {
        let made = call.tokens.iter().enumerate().filter(|(index, _)| (*index == 0) == first);
        made.map(|(_, token)| token.device_us).sum()
    };
    let columns =
        dimensions(Columns::default().time("time", calls().map(|call| call.arrived_us)), || calls().map(|c| c.host));
    columns
        .text("measured_at", rows.iter().map(|(_, place)| *place))
        .text("trace_id", calls().map(|call| call.trace_id.as_str()))
        .text("span_id", calls().map(|call| call.span_id.as_str()))
        .text("request_id", calls().map(|call| call.trace_id.as_str()))
        .text("engine", calls().map(|_| "vllm"))
        .text("accelerator", calls().map(|call| call.host.accelerator))
        .int("chips", calls().map(|call| call.host.chips))
        .text("model", calls().map(|call| call.host.model))
        .text("tenant", calls().map(|call| call.tenant))
        .text("operation", calls().map(|_| "chat"))
        .int("input_tokens", calls().map(|call| call.input_tokens))
        .int("cached_input_tokens", calls().map(|call| call.input_tokens / 3))
        .int("output_tokens", calls().map(|call| call.tokens.len() as i64))
        .double("queue_s", calls().map(|call| call.queue_s))
        .double("prefill_s", calls().map(|call| call.prefill_s))
        .double("decode_s", calls().map(decode))
        .double("ttft_s", rows.iter().map(|(call, place)| ttft(call) + way_s(place)))
        .double("tpot_s", calls().map(tpot))
        .double("itl_max_s", calls().map(longest))
        .double("e2e_s", rows.iter().map(|(call, place)| ttft(call) + decode(call) + way_s(place)))
        .int("device_us_prefill", calls().map(|call| on_device(call, true)))
        .int("device_us_decode", calls().map(|call| on_device(call, false)))
        .text("status", calls().map(|call| if call.is_error { "error" } else { "ok" }))
        .text_known("error_type", calls().map(|call| call.is_error.then_some("overloaded")))
        .text("finish_reason", calls().map(|call| if call.tokens.len() == 1_000 { "length" } else { "stop" }))
        .double("token_sampling", calls().map(|_| 1.0))
        .batch()
}

/// What the way to the engine and back adds where it is seen, seconds.
fn way_s(place: &str) -> f64 {
    if place == "gateway" { 0.002 } else { 0.0 }
}

fn token_rows(rows: &[Made<'_>]) -> Result<RecordBatch> {
    let calls = || rows.iter().map(|made| made.call);
    let columns = Columns::default().time("time", rows.iter().map(|made| made.token.at_us));
    dimensions(columns, || calls().map(|call| call.host))
        .text("trace_id", calls().map(|call| call.trace_id.as_str()))
        .text("request_span_id", calls().map(|call| call.span_id.as_str()))
        .int("choice", rows.iter().map(|_| 0))
        .int("index", rows.iter().map(|made| made.index as i64))
        .int("count", rows.iter().map(|_| 1))
        .int("batch_size", rows.iter().map(|made| made.token.batch))
        .int("device_us", rows.iter().map(|made| made.token.device_us))
        .text_known("stall", rows.iter().map(|made| made.token.stall))
        .text("model", calls().map(|call| call.host.model))
        .text("tenant", calls().map(|call| call.tenant))
        .batch()
}

/// Where a row comes from.
fn dimensions<'a, I: Iterator<Item = &'a Host>>(columns: Columns, hosts: impl Fn() -> I) -> Columns {
    columns
        .text("region", hosts().map(|host| host.region))
        .text("zone", hosts().map(|host| host.zone))
        .text("environment", hosts().map(|_| "production"))
        .text("cluster", hosts().map(|host| host.cluster))
        .text("namespace", hosts().map(|_| "inference"))
        .text("pool", hosts().map(|host| host.host_type))
        .text("host_id", hosts().map(|host| host.id.as_str()))
        .text("host_type", hosts().map(|host| host.host_type))
        .text("service", hosts().map(|_| "vllm"))
        .text("service_version", hosts().map(|host| host.version))
        .text("instance", hosts().map(|host| host.instance.as_str()))
}
