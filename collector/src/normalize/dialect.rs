//! What emitters call things, a file per emitter; the tables are the whole knowledge.
//!
//! A dialect knows its emitter's spans by name or sign and says which of them are calls: an emitter's agents, tools, and spans
//! around a call or inside it are none. An alias maps an attribute to a field of a call and says in which unit it comes. A
//! dialect's own aliases hold before the conventions that all share. Where several are sent for one field (both generations of
//! a convention, or a framework's copy), the one listed first holds and the rest stay attributes, so nothing is added twice.

mod conventions;
mod dynamo;
mod genai;
mod langfuse;
mod litellm;
mod openinference;
mod openlit;
mod openllmetry;
mod ours;
mod sglang;
mod tensorrt_llm;
mod tgi;
mod triton;
mod vercel;
mod vllm;
pub mod webui;

mod emitters;
mod field;

use std::collections::HashMap;

use super::quality::Flags;
use super::seen::Reading;
use crate::decode::view::{Attribute, Span, Value};
use crate::decode::wire::Malformed;

pub(super) use conventions::operation;
pub use emitters::{EMITTERS, Emitter};
pub use field::{Alias, FIELDS, Field, Scale};
pub use triton::Neighbours;

/// An emitter of calls.
pub struct Dialect {
    /// Name of the dialect.
    pub name: &'static str,
    /// By which sign a call is known, in words.
    pub sign: &'static str,
    /// Whose a span is, and whether it is a call.
    pub judge: fn(&Sight<'_, '_>) -> Verdict,
    /// The engine, where the dialect is one engine's.
    pub engine: Option<&'static str>,
    /// Where the call is measured when the span does not say.
    pub measured_at: Place,
    /// What its first token is when neither the span, the alias nor an event says.
    pub ttft_definition: &'static str,
    /// What it alone calls things.
    pub aliases: &'static [Alias],
    /// Names inside the attribute in which it sends its usage as a JSON object.
    pub usage: &'static [Alias],
    /// What the name of a span says where no attribute does.
    pub named: &'static [Named],
    /// What no alias can say.
    pub more: More,
    /// What is true of every call of it.
    pub flags: Flags,
    /// Columns of `requests` that a streamed call fills, with spaces between; the others it never does.
    pub gives: &'static str,
}

/// Reads what no alias can say.
type More = for<'a> fn(&Sight<'_, 'a>, &Neighbours<'_>, &mut Reading<'a>) -> Result<(), Malformed>;

/// What a dialect says of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Another emitter's.
    Foreign,
    /// Its own, and no call: another dialect must not take it for one.
    NoCall,
    /// A call.
    Call,
}

/// A part of a span's name, and what it says of the call.
pub struct Named {
    /// The part.
    pub part: &'static str,
    /// Kind of call.
    pub operation: Option<&'static str>,
    /// Whether the answer is streamed.
    pub stream: Option<bool>,
}

/// Where a call is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the engine, whatever the span's kind.
    Server,
    /// In a gateway, whatever the span's kind.
    Gateway,
    /// By the span's kind: SERVER at the server, else at the client.
    ByKind,
    /// By the span's kind: SERVER at the server, else in a gateway.
    ServerOrGateway,
}

impl Dialect {
    /// A dialect that knows its spans so, and says nothing else.
    const fn new(name: &'static str, sign: &'static str, judge: fn(&Sight<'_, '_>) -> Verdict) -> Self {
        Self {
            name,
            sign,
            judge,
            engine: None,
            measured_at: Place::ByKind,
            ttft_definition: FIRST_CHUNK,
            aliases: &[],
            usage: &[],
            named: &[],
            more: |_, _, _| Ok(()),
            flags: Flags::NONE,
            gives: "",
        }
    }

    /// Columns of `requests` that a streamed call fills.
    pub fn fills(&self) -> impl Iterator<Item = &'static str> {
        self.gives.split_whitespace()
    }

    /// What the span's name says: the first part that it contains.
    pub fn named(&self, span: &str) -> Option<&'static Named> {
        self.named.iter().find(|named| span.contains(named.part))
    }
}

/// Arrival to the first chunk, with or without content.
const FIRST_CHUNK: &str = "first_chunk";

/// Dialects in the order in which they are asked: those that tell themselves by a name first.
pub const DIALECTS: &[&Dialect] = &[
    &ours::DIALECT,
    &vllm::V0,
    &tensorrt_llm::DIALECT,
    &vllm::V1,
    &litellm::DIALECT,
    &vercel::DIALECT,
    &sglang::DIALECT,
    &triton::DIALECT,
    &tgi::DIALECT,
    &dynamo::DIALECT,
    &langfuse::DIALECT,
    &openinference::DIALECT,
    &openllmetry::DIALECT,
    &openlit::DIALECT,
    &genai::CURRENT,
    &genai::OLD,
];

/// Events that mark the first token, and what they mean.
pub const FIRST_TOKEN_EVENTS: &[&str] =
    &["gen_ai.content.chunk", "first_token", "llm.first_token", "First Token Stream Event", "ai.stream.firstChunk"];

/// A span and its attributes.
#[derive(Clone, Copy)]
pub struct Sight<'s, 'a> {
    /// The span.
    pub span: &'s Span<'a>,
    /// Its attributes.
    pub attributes: &'s [Attribute<'a>],
}

impl<'a> Sight<'_, 'a> {
    /// Whose the span is, and whether it is a call.
    pub fn judge(&self) -> (Option<&'static Dialect>, bool) {
        for dialect in DIALECTS.iter().copied() {
            match (dialect.judge)(self) {
                Verdict::Foreign => {}
                verdict => return (Some(dialect), verdict == Verdict::Call),
            }
        }
        (None, false)
    }

    /// Whether it has an attribute of that key.
    fn has(&self, key: &str) -> bool {
        self.attributes.iter().any(|attribute| attribute.key == key)
    }

    /// Whether it has an attribute of one of the keys.
    fn has_one_of(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.has(key))
    }

    /// Whether it has an attribute whose key starts so.
    fn has_prefix(&self, prefix: &str) -> bool {
        self.attributes.iter().any(|attribute| attribute.key.starts_with(prefix))
    }

    /// The value of the attribute of that key.
    fn value(&self, key: &str) -> Value<'a> {
        self.attributes.iter().find(|attribute| attribute.key == key).map(|found| found.value).unwrap_or_default()
    }

    /// The text of the attribute of that key.
    fn text(&self, key: &str) -> Option<&'a str> {
        self.value(key).text()
    }
}

/// A call if that holds, else another emitter's.
fn call_if(holds: bool) -> Verdict {
    if holds { Verdict::Call } else { Verdict::Foreign }
}

/// For an emitter's own span: whether it is a call.
fn call_or_none(holds: bool) -> Verdict {
    if holds { Verdict::Call } else { Verdict::NoCall }
}

/// All aliases by key, for each dialect.
pub struct Aliases {
    shared: HashMap<&'static str, Ranked>,
    of_dialect: Vec<(&'static str, HashMap<&'static str, Ranked>)>,
}

/// An alias and its place in the order.
pub type Ranked = (u16, &'static Alias);

impl Aliases {
    /// Gathers the tables.
    pub fn new() -> Self {
        let of = |dialect: &&'static Dialect| (dialect.name, ranked(dialect.aliases));
        Self { shared: ranked(&[]), of_dialect: DIALECTS.iter().map(of).collect() }
    }

    /// What the attributes of a dialect's span mean; what all share if it is nobody's.
    pub fn of(&self, dialect: Option<&Dialect>) -> &HashMap<&'static str, Ranked> {
        let own = |dialect: &Dialect| self.of_dialect.iter().find(|(name, _)| *name == dialect.name);
        dialect.and_then(own).map_or(&self.shared, |(_, aliases)| aliases)
    }
}

impl Default for Aliases {
    fn default() -> Self {
        Self::new()
    }
}

/// A dialect's own aliases before those that all share.
fn ranked(own: &'static [Alias]) -> HashMap<&'static str, Ranked> {
    let mut by_key = HashMap::new();
    for (rank, alias) in own.iter().chain(conventions::ALIASES).enumerate() {
        by_key.entry(alias.key).or_insert((u16::try_from(rank).unwrap_or(u16::MAX), alias));
    }
    by_key
}

/// The aliases that all dialects share, in the order in which they hold.
pub fn shared() -> &'static [Alias] {
    conventions::ALIASES
}
