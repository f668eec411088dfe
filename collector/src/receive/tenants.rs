//! What a sender that is bound to tenants may not write: such items are taken out of the body before it is journalled, so
//! that nothing behind the journal has to know who sent it.

use bytes::Bytes;
use service::principal::Principal;
use telemetry::names;

use crate::decode::check;
use crate::decode::view::{Attribute, Span};
use crate::decode::wire::{Fields, Malformed, Raw, put_bytes, put_raw};
use crate::normalize::dialect::Aliases;
use crate::normalize::tenant_of;
use crate::signal::Signal;

/// The body without the items that `principal` may not write, and how many those are; `None` if it may write all.
///
/// An item's tenant is the one that its rows will have; it must be one of the principal's. Items with a fault of their own stay:
/// they are rejected for that.
pub(super) fn foreign(signal: Signal, body: &[u8], principal: &Principal) -> Result<Option<(Bytes, u64)>, Malformed> {
    if principal.every_tenant() {
        return Ok(None);
    }
    let mut filter = Filter { signal, principal, aliases: Aliases::new(), data: 0, taken_out: 0 };
    let mut kept = Vec::with_capacity(body.len());
    filter.copy(body, 0, &mut kept)?;
    Ok((filter.taken_out > 0).then(|| (kept.into(), filter.taken_out)))
}

struct Filter<'p> {
    signal: Signal,
    principal: &'p Principal,
    aliases: Aliases,
    /// Field of the metric that holds the points now being read: its kind.
    data: u32,
    taken_out: u64,
}

/// What a field holds, by its number and depth.
enum Holds {
    /// Messages that lead to items.
    More,
    /// An item.
    Item,
    /// Something else.
    Other,
}

impl Filter<'_> {
    /// Copies a message but for the items below that are taken out. Depth 0 is the request, 1 a resource's group, 2 a scope's,
    /// 3 a metric, 4 its data.
    fn copy(&mut self, bytes: &[u8], depth: u8, out: &mut Vec<u8>) -> Result<(), Malformed> {
        for field in Fields::new(bytes) {
            let (number, value) = field?;
            match (self.holds(depth, number), value) {
                (Holds::More, Raw::Bytes(inner)) => {
                    if depth == 3 {
                        self.data = number;
                    }
                    let mut copied = Vec::with_capacity(inner.len());
                    self.copy(inner, depth + 1, &mut copied)?;
                    put_bytes(number, &copied, out);
                }
                (Holds::Item, Raw::Bytes(item)) => match self.allows(item) {
                    Ok(false) => self.taken_out += 1,
                    Ok(true) | Err(Malformed::Utf8) => put_bytes(number, item, out),
                    Err(malformed) => return Err(malformed),
                },
                (_, value) => put_raw(number, value, out),
            }
        }
        Ok(())
    }

    fn holds(&self, depth: u8, number: u32) -> Holds {
        let metrics = self.signal == Signal::Metrics;
        match (depth, number) {
            (0, 1) | (1, 2) => Holds::More,
            (2, 2) if metrics => Holds::More,
            (2, 2) => Holds::Item,
            (3, number) if check::point_message(number).is_some() => Holds::More,
            (4, 1) => Holds::Item,
            _ => Holds::Other,
        }
    }

    fn allows(&self, item: &[u8]) -> Result<bool, Malformed> {
        let mut attributes = Vec::new();
        match self.signal {
            Signal::Traces => {
                let span = Span::read(item, &mut attributes)?;
                let own = match span.name == names::SPAN_TOKEN {
                    true => self.owns(&attributes),
                    false => self.principal.allows(tenant_of(&self.aliases, &span, &attributes)),
                };
                Ok(own && self.owns_token_events(item)?)
            }
            Signal::Logs => {
                Attribute::read_all(item, 6, &mut attributes)?;
                Ok(self.owns(&attributes))
            }
            _ => {
                let point = check::point_message(self.data).and_then(|message| message.named("attributes"));
                Attribute::read_all(item, point.map_or(0, |field| field.number), &mut attributes)?;
                Ok(self.owns(&attributes))
            }
        }
    }

    /// Whether all tenants named are the principal's, and there is one.
    fn owns(&self, attributes: &[Attribute<'_>]) -> bool {
        let mut named = attributes.iter().filter(|attribute| attribute.key == names::TENANT).peekable();
        named.peek().is_some() && named.all(|attribute| self.principal.allows(attribute.value.text()))
    }

    /// Tokens sent as events of a span become rows of their own.
    fn owns_token_events(&self, span: &[u8]) -> Result<bool, Malformed> {
        let mut attributes = Vec::new();
        for field in Fields::new(span) {
            let (11, Raw::Bytes(event)) = field? else { continue };
            let named = |field| matches!(field, Ok((2, Raw::Bytes(name))) if name == names::SPAN_TOKEN.as_bytes());
            if Fields::new(event).any(named) {
                Attribute::read_all(event, 3, &mut attributes)?;
                if !self.owns(&attributes) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
