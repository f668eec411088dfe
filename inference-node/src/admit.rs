//! From a request on the wire to a call: validation, identity, places in the queue.
//!
//! ```text
//! place (or 429) -> body -> options -> further places -> prompt -> tokens -> job -> step thread
//! ```
//!
//! What takes the longer the longer a request is runs on threads of its own, a few at a time, so that neither streams nor health
//! checks wait for it; and a text that cannot fit the model is refused by its length before it is taken apart.

mod options;
mod trace;
mod urgency;

pub(crate) use trace::sampled;

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::HeaderMap;
use rand::Rng;
use service::channel::{Receiver, bounded};
use service::hop::TraceContext;
use service::secret::Secret;
use service::shutdown::CancellationToken;
use telemetry::names;
use telemetry::openai::{ChatRequest, CompletionRequest, Options, Prompt, StreamOptions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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
    /// Turns of long requests ([`long_at_once`]).
    pub(crate) long: Arc<Semaphore>,
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
    source: Source,
    arrival_ns: i64,
}

/// What prompts are made of.
enum Source {
    Messages(Vec<ChatMessage>),
    Texts(Vec<String>),
}

/// A request's right to be taken in.
pub(crate) struct Ticket {
    /// Its first place in the node.
    place: OwnedSemaphorePermit,
    /// Cancelled once nobody waits for the answer.
    gone: CancellationToken,
}

/// Output tokens of a text completion without a limit, as that API has it.
const TEXT_TOKENS: u32 = 16;
/// Texts in one text completion.
const PROMPTS_MAX: usize = 8;
/// Longest request that is taken in at once, where it is read: some milliseconds of work at most.
const SHORT_BYTES_MAX: usize = 4 << 10;

/// How many long requests are taken in at once: half as many as there are cores, since the others have tokens to make.
pub(crate) fn long_at_once() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores / 2).unwrap_or(u32::MAX).max(1)
}

impl Entrance {
    /// Takes in a chat.
    ///
    /// # Errors
    /// A fault in OpenAI's shape.
    ///
    /// # Cancel safety
    /// A cancelled call leaves no job and no place behind.
    pub(crate) async fn chat(self: &Arc<Self>, headers: HeaderMap, body: Bytes) -> Result<Admitted, Fault> {
        let arrival_ns = self.clock.now_ns();
        self.take_in(body.len(), move |entrance, ticket| entrance.chat_of(&headers, &body, arrival_ns, ticket)).await
    }

    /// Takes in a text completion.
    ///
    /// # Errors
    /// A fault in OpenAI's shape.
    ///
    /// # Cancel safety
    /// A cancelled call leaves no job and no place behind.
    pub(crate) async fn completion(self: &Arc<Self>, headers: HeaderMap, body: Bytes) -> Result<Admitted, Fault> {
        let arrival_ns = self.clock.now_ns();
        self.take_in(body.len(), move |entrance, ticket| {
            entrance.completion_of(&headers, parse(&body)?, arrival_ns, ticket)
        })
        .await
    }

    /// Runs `read` on a request of so many bytes: where it is, if it is short, else off the threads that serve I/O and in turn. It
    /// has a place before, so that no more can wait for their turn than the node may hold.
    ///
    /// # Errors
    /// Its own, and those of a node that is full or closing.
    ///
    /// # Cancel safety
    /// Work that has begun ends with the prompt at hand; nothing comes of it.
    pub(crate) async fn take_in<T: Send + 'static>(
        self: &Arc<Self>,
        bytes: usize,
        read: impl FnOnce(&Self, Ticket) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        if self.closing.is_cancelled() {
            return Err(Fault::closing());
        }
        let gone = CancellationToken::new();
        let ticket = Ticket { place: self.door.places(1).map_err(Fault::turned)?, gone: gone.clone() };
        if bytes <= SHORT_BYTES_MAX {
            return read(self, ticket);
        }
        let _gone = gone.drop_guard();
        let turn = tokio::select! {
            biased;
            () = self.closing.cancelled() => return Err(Fault::closing()),
            turn = Arc::clone(&self.long).acquire_owned() => turn.map_err(|_| Fault::closing())?,
        };
        let entrance = Arc::clone(self);
        let taken = service::task::blocking("take in a request", move || {
            let _turn = turn;
            read(&entrance, ticket)
        });
        taken.await.unwrap_or_else(|error| Err(Fault::internal(error.to_string())))
    }

    fn chat_of(&self, headers: &HeaderMap, body: &[u8], arrival_ns: i64, ticket: Ticket) -> Result<Admitted, Fault> {
        let request: ChatRequest = parse(body)?;
        options::check_chat(&request)?;
        let messages = options::messages(&request.messages)?;
        let draft = Draft {
            headers,
            options: &request.options,
            style: Style::Chat,
            likelihoods: options::chat_logprobs(&request.options)?,
            max_tokens: request.max_completion_tokens.or(request.options.max_tokens),
            max_tokens_default: u32::MAX,
            source: Source::Messages(messages),
            arrival_ns,
        };
        self.admit(draft, ticket)
    }

    /// Takes in a text completion, which may have been read from another protocol's message.
    ///
    /// # Errors
    /// A fault that names OpenAI's fields.
    pub(crate) fn completion_of(
        &self,
        headers: &HeaderMap,
        request: CompletionRequest,
        arrival_ns: i64,
        ticket: Ticket,
    ) -> Result<Admitted, Fault> {
        options::check_completion(&request)?;
        let texts = match request.prompt {
            Prompt::Text(text) => vec![text],
            Prompt::Texts(texts) if (1..=PROMPTS_MAX).contains(&texts.len()) => texts,
            Prompt::Texts(_) => return Err(Fault::invalid("prompt", format!("1 to {PROMPTS_MAX} prompts are served"))),
            Prompt::Other(_) => return Err(Fault::unsupported("prompt", "prompts of token ids")),
        };
        let draft = Draft {
            headers,
            options: &request.options,
            style: Style::Text,
            likelihoods: options::text_logprobs(&request.options)?,
            max_tokens: request.options.max_tokens,
            max_tokens_default: TEXT_TOKENS,
            source: Source::Texts(texts),
            arrival_ns,
        };
        self.admit(draft, ticket)
    }

    fn admit(&self, draft: Draft<'_>, ticket: Ticket) -> Result<Admitted, Fault> {
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
        let choices = n.saturating_mul(u32::try_from(draft.source.len()).unwrap_or(u32::MAX));
        let Ticket { place: mut places, gone } = ticket;
        places.merge(self.door.places(choices.saturating_sub(1)).map_err(Fault::turned)?);
        let prompts = self.tokens(&draft, &gone)?;
        let call = Arc::new(self.call(&draft, &prompts)?);
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

    /// Token ids of each prompt, all short enough for the model. None is taken apart if one of them cannot be.
    fn tokens(&self, draft: &Draft<'_>, gone: &CancellationToken) -> Result<Vec<Arc<[u32]>>, Fault> {
        let rendered;
        let (field, texts) = match &draft.source {
            Source::Texts(texts) => ("prompt", texts),
            Source::Messages(messages) => {
                let prompt = self.text.chat_prompt(messages).map_err(|error| engine_fault("messages", &error))?;
                rendered = vec![prompt];
                ("messages", &rendered)
            }
        };
        for text in texts {
            let least = self.text.tokens_min(text);
            self.fits(field, least, draft.max_tokens, || format!("at least {least}"))?;
        }
        let mut prompts: Vec<Arc<[u32]>> = Vec::with_capacity(texts.len());
        for text in texts {
            if gone.is_cancelled() {
                return Err(Fault::internal("the client went away"));
            }
            let tokens = self.text.tokenize(text).map_err(|error| engine_fault(field, &error))?;
            if tokens.is_empty() {
                return Err(Fault::no_prompt(field));
            }
            self.fits(field, tokens.len(), draft.max_tokens, || tokens.len().to_string())?;
            prompts.push(tokens.into());
        }
        Ok(prompts)
    }

    /// Refuses a prompt of so many tokens that the model cannot take, or not go on from as far as asked; `said` is how many, in words.
    fn fits(&self, field: &str, tokens: usize, output: Option<u32>, said: impl Fn() -> String) -> Result<(), Fault> {
        let (longest, prompt_max) = (self.engine.max_len, self.engine.prompt_max);
        if tokens + output.unwrap_or(1) as usize > longest as usize {
            return Err(Fault::too_long(field, &said(), output, longest));
        }
        if tokens > prompt_max as usize {
            return Err(Fault::prompt_too_long(field, &said(), prompt_max));
        }
        Ok(())
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

impl Source {
    /// How many prompts it makes.
    fn len(&self) -> usize {
        match self {
            Self::Messages(_) => 1,
            Self::Texts(texts) => texts.len(),
        }
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
