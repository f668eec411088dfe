//! What a client wants, as far as it is recorded, and what the engine is asked for beyond it.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use rand::Rng;
use serde::Deserialize;
use serde_json::Value;
use service::hop::TraceContext;
use service::task::blocking;

use super::Front;
use super::call::{Asked, Follow};
use super::dialect::{Asks, Extra, Form};
use super::json;
use super::read::Reader;
use crate::admit::{sampled, tenant, trusts};
use crate::serve::Fault;

/// The fields of a request that are recorded; one that is not what it should be is the engine's to refuse.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Wanted {
    #[serde(deserialize_with = "readable")]
    model: Option<String>,
    #[serde(deserialize_with = "readable")]
    stream: Option<bool>,
    #[serde(deserialize_with = "readable")]
    stream_options: Option<serde_json::Map<String, Value>>,
    #[serde(deserialize_with = "readable")]
    max_tokens: Option<i64>,
    #[serde(deserialize_with = "readable")]
    max_completion_tokens: Option<i64>,
    #[serde(deserialize_with = "readable")]
    temperature: Option<f64>,
    #[serde(deserialize_with = "readable")]
    top_p: Option<f64>,
    #[serde(deserialize_with = "readable")]
    n: Option<i64>,
    /// TGI's and Triton's settings.
    #[serde(deserialize_with = "readable")]
    parameters: Option<Parameters>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parameters {
    #[serde(deserialize_with = "readable")]
    max_new_tokens: Option<i64>,
    #[serde(deserialize_with = "readable")]
    temperature: Option<f64>,
    #[serde(deserialize_with = "readable")]
    top_p: Option<f64>,
}

fn readable<'de, D, T>(value: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    Ok(serde_json::from_value(Value::deserialize(value)?).ok())
}

/// What a request over gRPC names.
pub(super) struct Named<'a> {
    pub(super) model: Option<&'a str>,
    pub(super) id: Option<&'a str>,
    pub(super) streams: bool,
    /// The trace, where it began at the proxy.
    pub(super) trace: Option<u128>,
}

/// A call as the engine is sent it, and what is known of it.
pub(super) struct Taken {
    pub(super) parts: Parts,
    pub(super) body: Bytes,
    /// What is to be taken out of the answer.
    pub(super) strip: Vec<Strip>,
    pub(super) follow: Follow,
    pub(super) trace: TraceContext,
}

/// Longest name that is recorded.
const NAME_BYTES_MAX: usize = 256;
/// Longest body that is read where it is: well below a millisecond of work.
const SHORT_BYTES_MAX: usize = 64 << 10;

impl Front {
    /// Reads a call of this form: where it is, if it is short, else off the threads that serve I/O and in turn, so that no stream waits
    /// for it.
    ///
    /// # Errors
    /// A fault for the client if too many wait; the call is recorded then.
    ///
    /// # Cancel safety
    /// Work that has begun ends; nothing comes of it.
    pub(super) async fn take_in(
        self: &Arc<Self>,
        parts: Parts,
        form: Form,
        body: Bytes,
        arrival_ns: i64,
    ) -> Result<Taken, Fault> {
        if body.len() <= SHORT_BYTES_MAX {
            return Ok(self.taken(parts, form, body, arrival_ns));
        }
        let Some(turn) = self.long.take().await else {
            self.taken(parts, form, Bytes::new(), arrival_ns).follow.turned_away();
            return Err(Fault::overloaded());
        };
        let front = Arc::clone(self);
        let work = move || {
            let taken = front.taken(parts, form, body, arrival_ns);
            drop(turn);
            taken
        };
        blocking("take in a call", work).await.map_err(|error| Fault::internal(error.to_string()))
    }

    fn taken(&self, parts: Parts, form: Form, body: Bytes, arrival_ns: i64) -> Taken {
        let wanted: Wanted = serde_json::from_slice(&body).unwrap_or_default();
        let path = parts.uri.path();
        let named = Form::of(self.config.engine, path).and_then(|(_, named)| named);
        let asked = self.asked(&parts.headers, form, named, &wanted, path, arrival_ns);
        let (body, strip) = self.ask_more(form, &wanted, &asked, body);
        let trace = TraceContext { trace_id: asked.trace_id, span_id: asked.span_id, flags: 1 };
        let reader = Reader::new(self.config.engine, form, choices(&asked, &body));
        Taken { parts, body, strip, follow: self.following(asked, reader), trace }
    }

    fn following(&self, asked: Asked, reader: Reader) -> Follow {
        let is_sampled = sampled(asked.trace_id, self.token_sampling);
        Follow::new(Arc::new(asked), Arc::clone(&self.recorder), Arc::clone(&self.clock), reader, is_sampled)
    }

    fn asked(
        &self,
        headers: &HeaderMap,
        form: Form,
        named: Option<&str>,
        wanted: &Wanted,
        path: &str,
        arrival_ns: i64,
    ) -> Asked {
        let mut rng = rand::rng();
        let (trace_id, parent_span_id) = match TraceContext::of(headers) {
            Some(caller) => (caller.trace_id, Some(caller.span_id)),
            None => (rng.random_range(1..=u128::MAX), None),
        };
        let model = wanted.model.as_deref().or(named).or(self.config.model.as_deref());
        let of_parameters = wanted.parameters.as_ref();
        let streams = path.ends_with("_stream");
        Asked {
            trace_id,
            span_id: rng.random_range(1..=u64::MAX),
            parent_span_id,
            arrival_ns,
            operation: form.operation(),
            stream: streams || wanted.stream.unwrap_or(false) && form != Form::Kserve,
            model: model.filter(|model| model.len() <= NAME_BYTES_MAX).map(Arc::from),
            tenant: if trusts(self.fleet_secret.as_ref(), headers) { tenant(headers) } else { None },
            max_tokens: wanted
                .max_completion_tokens
                .or(wanted.max_tokens)
                .or(of_parameters.and_then(|parameters| parameters.max_new_tokens)),
            temperature: wanted.temperature.or(of_parameters.and_then(|parameters| parameters.temperature)),
            top_p: wanted.top_p.or(of_parameters.and_then(|parameters| parameters.top_p)),
            choices: wanted.n,
            engine: self.config.engine.name(),
            measured_at: self.config.measured_at.name(),
        }
    }

    /// Follows a call over gRPC, which begins now.
    pub(super) fn follow(&self, headers: &HeaderMap, named: &Named<'_>) -> Follow {
        let wanted = Wanted { stream: Some(named.streams), ..Wanted::default() };
        let path = if named.streams { "/generate_stream" } else { "/generate" };
        let now = self.clock.now_ns();
        let mut asked = self.asked(headers, Form::Kserve, named.model, &wanted, path, now);
        if let Some(trace) = named.trace {
            (asked.trace_id, asked.parent_span_id) = (trace, None);
        }
        let mut reader = Reader::new(self.config.engine, Form::Kserve, 1);
        reader.said.id = named.id.filter(|id| !id.is_empty() && id.len() <= NAME_BYTES_MAX).map(str::to_owned);
        self.following(asked, reader)
    }

    /// Asks for what tells tokens from chunks, and says what is to be taken out of the answer again.
    fn ask_more(&self, form: Form, wanted: &Wanted, asked: &Asked, body: Bytes) -> (Bytes, Vec<Strip>) {
        let (mut body, mut strip) = (body, Vec::new());
        if !form.is_openai() || !asked.stream {
            return (body, strip);
        }
        let mut options = wanted.stream_options.clone().unwrap_or_default();
        let asks = |name: &str| options.get(name).and_then(Value::as_bool).unwrap_or(false);
        let (at_end, with_every_chunk) = (asks("include_usage"), asks("continuous_usage_stats"));
        for extra in self.config.engine.extras() {
            let (has_it, value) = match extra.asks {
                Asks::Member(value) => (json::value(&body, extra.key).is_some(), value.to_owned()),
                Asks::Options(flags) => {
                    options.extend(flags.iter().map(|flag| ((*flag).to_owned(), Value::Bool(true))));
                    let has_it = with_every_chunk || at_end && flags.len() == 1;
                    (has_it, Value::Object(options.clone()).to_string())
                }
            };
            if !has_it {
                body = json::with(&body, extra.key, &value).into();
                strip.push(Strip { extra, keeps_last: at_end && extra.brings_chunk });
            }
        }
        (body, strip)
    }
}

/// Choices that the answer has, as far as it matters: one, or several. A list of prompts may be several.
fn choices(asked: &Asked, body: &[u8]) -> u32 {
    let listed = json::value(body, "prompt").is_some_and(|prompt| prompt.starts_with(b"["));
    let asked = asked.choices.and_then(|choices| u32::try_from(choices).ok()).unwrap_or(1);
    if listed { asked.max(2) } else { asked }
}

/// A frame of which something was taken out.
pub(super) enum Kept {
    Some(Vec<u8>),
    /// Nothing is left of it: it was sent for what was taken out.
    Nothing,
}

/// What is taken out of every frame of a stream.
pub(super) struct Strip {
    pub(super) extra: &'static Extra,
    /// Not out of the one at the end, for which the client asked.
    pub(super) keeps_last: bool,
}

/// The frame without what its client did not ask for; `None` if it holds nothing of that.
pub(super) fn stripped(data: &[u8], strip: &[Strip]) -> Option<Kept> {
    let mut kept: Option<Vec<u8>> = None;
    for Strip { extra, keeps_last } in strip {
        let bytes = kept.as_deref().unwrap_or(data);
        let Some(value) = json::value(bytes, extra.strip) else { continue };
        let is_alone = json::value(bytes, "choices").is_some_and(|choices| choices.trim_ascii() == b"[]");
        if extra.brings_chunk && is_alone && value != b"null" {
            if *keeps_last {
                continue;
            }
            return Some(Kept::Nothing);
        }
        kept = Some(json::without(bytes, extra.strip));
    }
    kept.map(Kept::Some)
}
