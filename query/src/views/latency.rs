//! Calls and how long they took.

use telemetry::table::{REQUESTS, TOKENS};

use super::{A_LONG_CALL, NOTHING, ONE_BEFORE, View, column};

pub(super) const CALLS: View = View {
    name: "calls",
    doc: "One row per inference call: of the rows that client, gateway and server wrote about it, the one measured nearest the \
          engine (server > gateway > client). A row is left out when its trace holds a nearer row inside its own time span. \
          Count, and sum tokens, here.",
    sql: include_str!("calls.sql"),
    columns: &[],
    passes: &[&REQUESTS],
    tables: A_LONG_CALL,
    views: NOTHING,
    keys: &["trace_id"],
};

pub(super) const TTFT: View = View {
    name: "ttft",
    doc: "One row per measured time to first token: arrival at the measuring place to the first token with content leaving it \
          (an empty or role-only chunk is none; a reasoning token counts). `measured_at` says where; filter by it or group by \
          it, for client, gateway and server times are never mixed. Percentiles: \
          `exph_quantile(exph(ttft_s), 0.99)`, right to within 1.1 % of the value.",
    sql: include_str!("ttft.sql"),
    columns: &[],
    passes: &[&REQUESTS],
    tables: NOTHING,
    views: NOTHING,
    keys: &["trace_id"],
};

pub(super) const LATENCY: View = View {
    name: "latency",
    doc: "One row per call and measuring place with every phase: queue, prefill, decode, TTFT, TPOT = (e2e - TTFT) / (output \
          tokens - 1), the longest gap between two tokens, and end to end.",
    sql: include_str!("latency.sql"),
    columns: &[],
    passes: &[&REQUESTS],
    tables: NOTHING,
    views: NOTHING,
    keys: &["trace_id"],
};

pub(super) const TOKEN_GAPS: View = View {
    name: "token_gaps",
    doc: "One row per token (or chunk of `count` tokens) with the gap since the one before it in the same choice, which is the \
          inter-token latency (ITL); unknown for the first.",
    sql: include_str!("token_gaps.sql"),
    columns: &[column("gap_s", "s", "time since the token or chunk before it in the same choice")],
    passes: &[&TOKENS],
    tables: ONE_BEFORE,
    views: NOTHING,
    keys: &["trace_id", "request_span_id"],
};
