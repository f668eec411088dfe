//! From a request on the wire to a call: validation, identity, places in the queue.
//!
//! ```text
//! body -> options -> prompt -> tokens -> places (or 429) -> job -> step thread
//! ```

mod options;
mod trace;
mod urgency;

pub(crate) use trace::sampled;

use std::sync::Arc;

use axum::http::HeaderMap;
use rand::Rng;
use service::channel::{Receiver, bounded};
use service::hop::TraceContext;
use service::secret::Secret;
use service::shutdown::CancellationToken;
use telemetry::names;
use telemetry::openai::{ChatRequest, CompletionRequest, Options, Prompt, StreamOptions};

use crate::engine::{ChatMessage, EngineDescription, EngineError, Text};
use crate::queue::{Asked, Call, Door, Event, Gauges, Job, Turned};
use crate::serve::Fault;
use crate::step::NodeClock;

/// What request handlers share.
pub(crate) struct Entrance {
    pub(crate) engine: EngineDescription,
    pub(crate) text: Arc<dyn Text>,
    pub(crate) door: Door,
    pub(crate) gauges: Arc<Gauges>,
    pub(crate) clock: Arc<NodeClock>,
    pub(crate) fleet_secret: Option<Secret>,
    pub(crate) token_sampling: f64,
    /// Cancelled once no new call is taken.
    pub(crate) closing: CancellationToken,
}

/// Which API a call came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Text,
}

/// A call that the step thread has.
pub(crate) struct Admitted {
    pub(crate) call: Arc<Call>,
    pub(crate) events: Receiver<Event>,
    pub(crate) style: Style,
    pub(crate) choices: u32,
    pub(crate) stream_options: StreamOptions,
}

/// A request whose body was understood, before it has tokens.
struct Draft<'a> {
    headers: &'a HeaderMap,
    options: &'a Options,
    style: Style,
    /// Alternatives to name beside each token, if log probabilities are asked for.
    likelihoods: Option<u32>,
    max_tokens: Option<u32>,
    /// Output tokens where the client sets no limit.
    max_tokens_default: u32,
    prompts: Vec<String>,
    arrival_ns: i64,
}

/// Output tokens of a text completion without a limit, as that API has it.
const TEXT_TOKENS: u32 = 16;
/// Texts in one text completion.
const PROMPTS_MAX: usize = 8;

impl Entrance {
    /// Takes in a chat.
    ///
    /// # Errors
    /// A fault in OpenAI's shape.
    pub(crate) fn chat(&self, headers: &HeaderMap, body: &[u8]) -> Result<Admitted, Fault> {
        let arrival_ns = self.clock.now_ns();
        let request: ChatRequest = parse(body)?;
        options::check_chat(&request)?;
        let messages = options::messages(&request.messages)?;
        let prompt = self.chat_prompt(&messages)?;
        self.admit(&Draft {
            headers,
            options: &request.options,
            style: Style::Chat,
            likelihoods: options::chat_logprobs(&request.options)?,
            max_tokens: request.max_completion_tokens.or(request.options.max_tokens),
            max_tokens_default: u32::MAX,
            prompts: vec![prompt],
            arrival_ns,
        })
    }

    /// Takes in a text completion.
    ///
    /// # Errors
    /// A fault in OpenAI's shape.
    pub(crate) fn completion(&self, headers: &HeaderMap, body: &[u8]) -> Result<Admitted, Fault> {
        let arrival_ns = self.clock.now_ns();
        self.completion_of(headers, parse(body)?, arrival_ns)
    }

    /// Takes in a text completion that was read from another protocol's message.
    ///
    /// # Errors
    /// A fault that names OpenAI's fields.
    pub(crate) fn completion_of(
        &self,
        headers: &HeaderMap,
        request: CompletionRequest,
        arrival_ns: i64,
    ) -> Result<Admitted, Fault> {
        options::check_completion(&request)?;
        let prompts = match request.prompt {
            Prompt::Text(text) => vec![text],
            Prompt::Texts(texts) if (1..=PROMPTS_MAX).contains(&texts.len()) => texts,
            Prompt::Texts(_) => return Err(Fault::invalid("prompt", format!("1 to {PROMPTS_MAX} prompts are served"))),
            Prompt::Other(_) => return Err(Fault::unsupported("prompt", "prompts of token ids")),
        };
        self.admit(&Draft {
            headers,
            options: &request.options,
            style: Style::Text,
            likelihoods: options::text_logprobs(&request.options)?,
            max_tokens: request.options.max_tokens,
            max_tokens_default: TEXT_TOKENS,
            prompts,
            arrival_ns,
        })
    }

    fn chat_prompt(&self, messages: &[ChatMessage]) -> Result<String, Fault> {
        self.text.chat_prompt(messages).map_err(|error| engine_fault("messages", &error))
    }

    fn admit(&self, draft: &Draft<'_>) -> Result<Admitted, Fault> {
        if self.closing.is_cancelled() {
            return Err(Fault::closing());
        }
        if draft.options.model != self.engine.model {
            return Err(Fault::no_such_model(&draft.options.model));
        }
        options::check(draft.options, draft.max_tokens)?;
        if draft.likelihoods.is_some() && !self.engine.likelihoods {
            return Err(Fault::unsupported("logprobs", "logprobs"));
        }
        if !self.engine.likelihoods && !options::bias(draft.options)?.is_empty() {
            return Err(Fault::unsupported("logit_bias", "logit_bias"));
        }
        let n = draft.options.n.unwrap_or(1);
        let prompts = self.tokens(draft)?;
        let choices = n.saturating_mul(u32::try_from(prompts.len()).unwrap_or(u32::MAX));
        let places = self.door.places(choices).map_err(Fault::turned)?;
        let call = Arc::new(self.call(draft, &prompts)?);
        // Room for every token, the text held back at the end, and the end of each choice.
        let room = (call.output_max as usize + 2).saturating_mul(choices as usize);
        let (sender, events) = bounded("node.events", room);
        let each = |prompt: &Arc<[u32]>| std::iter::repeat_n(Arc::clone(prompt), n as usize);
        let prompts = prompts.iter().flat_map(each).collect();
        let job = Job { call: Arc::clone(&call), prompts, events: sender, _places: places };
        self.door.enter(job).map_err(Fault::turned)?;
        let stream_options = draft.options.stream_options.unwrap_or_default();
        Ok(Admitted { call, events, style: draft.style, choices, stream_options })
    }

    /// Token ids of each prompt, all short enough for the model.
    fn tokens(&self, draft: &Draft<'_>) -> Result<Vec<Arc<[u32]>>, Fault> {
        let field = if draft.style == Style::Chat { "messages" } else { "prompt" };
        let mut prompts: Vec<Arc<[u32]>> = Vec::with_capacity(draft.prompts.len());
        for prompt in &draft.prompts {
            let tokens = self.text.tokenize(prompt).map_err(|error| engine_fault(field, &error))?;
            let needed = tokens.len() + draft.max_tokens.unwrap_or(1) as usize;
            if tokens.is_empty() || needed > self.engine.max_len as usize {
                return Err(Fault::too_long(field, tokens.len(), draft.max_tokens, self.engine.max_len));
            }
            prompts.push(tokens.into());
        }
        Ok(prompts)
    }

    fn call(&self, draft: &Draft<'_>, prompts: &[Arc<[u32]>]) -> Result<Call, Fault> {
        let options = draft.options;
        let mut rng = rand::rng();
        let (trace_id, parent_span_id) = match TraceContext::of(draft.headers) {
            Some(caller) => (caller.trace_id, Some(caller.span_id)),
            None => (rng.random_range(1..=u128::MAX), None),
        };
        let shortest = prompts.iter().map(|prompt| prompt.len()).min().unwrap_or(0);
        let output_room = self.engine.max_len.saturating_sub(u32::try_from(shortest).unwrap_or(u32::MAX));
        let asked = Asked {
            max_tokens: draft.max_tokens,
            temperature: options.temperature,
            top_p: options.top_p,
            choices: options.n,
        };
        let prefix = if draft.style == Style::Chat { "chatcmpl" } else { "cmpl" };
        let trusted = self.trusts(draft.headers);
        Ok(Call {
            trace_id,
            span_id: rng.random_range(1..=u64::MAX),
            parent_span_id,
            arrival_ns: draft.arrival_ns,
            id: format!("{prefix}-{:024x}", rng.random::<u128>() >> 32),
            operation: if draft.style == Style::Chat { "chat" } else { "text_completion" },
            stream: options.stream.unwrap_or(false),
            model: self.engine.model.as_str().into(),
            tenant: if trusted { tenant(draft.headers) } else { None },
            priority: urgency::priority(options.priority, trusted),
            deadline_ns: urgency::deadline(draft.headers, draft.arrival_ns)?,
            input_tokens: prompts.iter().map(|prompt| prompt.len() as u64).sum(),
            output_max: draft.max_tokens.unwrap_or(draft.max_tokens_default).min(output_room).max(1),
            asked,
            sampling: options::sampling(options, draft.likelihoods, rng.random())?,
            stops: options.stop.as_ref().map_or(&[][..], |stop| stop.texts()).into(),
            sampled: sampled(trace_id, self.token_sampling),
        })
    }

    fn trusts(&self, headers: &HeaderMap) -> bool {
        trusts(self.fleet_secret.as_ref(), headers)
    }
}

/// Whether the caller is a gateway of the fleet; what anybody else says about tenant and priority is not believed.
pub(crate) fn trusts(secret: Option<&Secret>, headers: &HeaderMap) -> bool {
    let offered = headers.get(names::HEADER_FLEET_SECRET);
    secret.zip(offered).is_some_and(|(secret, offered)| secret.matches(offered.as_bytes()))
}

/// The tenant that the caller names.
pub(crate) fn tenant(headers: &HeaderMap) -> Option<Arc<str>> {
    let tenant = headers.get(names::HEADER_TENANT)?.to_str().ok()?.trim();
    (!tenant.is_empty()).then(|| tenant.into())
}

fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(body).map_err(|error| Fault::body(&error))
}

fn engine_fault(field: &str, error: &EngineError) -> Fault {
    match error {
        EngineError::Input { reason } => Fault::invalid(field, reason.clone()),
        _ => Fault::internal(error.to_string()),
    }
}

impl Fault {
    fn turned(turned: Turned) -> Self {
        match turned {
            Turned::Full => Fault::overloaded(),
            Turned::Closed => Fault::closing(),
        }
    }
}

#[cfg(test)]
mod tests;
