//! Tokens that many others of their group are like: each waits for its call's turn, and becomes a row with what all of its
//! pattern have in common.

use super::turns::Turns;
use super::{MOST, Meaning, Numbers, Token, said, utf8};
use crate::batch::rows::{Rows, Source};
use crate::batch::tables::Tables;
use crate::decode::alike::{self, Pattern, Patterns};
use crate::normalize::resource::Resource;
use crate::normalize::row::micros;
use crate::normalize::window::accepts;
use crate::normalize::{Normalizer, Place};

/// Tokens of one group that many others are like.
pub(in crate::normalize) struct Alike<'a> {
    pub(super) patterns: Patterns<'a, Same<'a>>,
    pub(super) turns: Turns<'a>,
}

/// What all tokens of a pattern have in common, and where their numbers lie.
pub(super) struct Same<'a> {
    /// Number of the pattern: rows of one number have the same texts.
    pattern: u64,
    said: Numbers,
    stall: Option<&'a str>,
    model: Option<&'a str>,
    tenant: Option<&'a str>,
    numbers: Vec<(usize, usize)>,
}

impl<'a> Same<'a> {
    pub(super) fn new(number: u64, token: Token<'a>, pattern: &Pattern<'_>) -> Self {
        let numbers = pattern.numbers().iter().filter_map(|(key, at)| match Meaning::of(key) {
            Some(Meaning::Number(which)) => Some((which, *at)),
            _ => None,
        });
        Self {
            pattern: number,
            said: token.numbers,
            stall: token.stall.and_then(utf8),
            model: token.model.and_then(utf8),
            tenant: token.tenant.and_then(utf8),
            numbers: numbers.collect(),
        }
    }

    /// The numbers of a span that fits; none if one of them can not be true.
    #[inline]
    fn numbers(&self, span: &[u8]) -> Option<Numbers> {
        let mut numbers = self.said;
        for (which, at) in &self.numbers {
            let count = alike::number(span, *at);
            if !(0..=*MOST.get(*which)?).contains(&count) {
                return None;
            }
            *numbers.get_mut(*which)? = Some(count);
        }
        Some(numbers)
    }
}

impl<'a> Alike<'a> {
    /// None yet, of a group of so many bytes: many a body has a group for every few tokens.
    pub(in crate::normalize) fn new(group_bytes: usize) -> Self {
        Self { patterns: Patterns::default(), turns: Turns::new(group_bytes) }
    }

    /// Lets a span that fits a pattern wait for its call's turn; false if it is no row as the others are.
    #[inline]
    pub(super) fn wait(&mut self, place: &Place<'_, 'a>, span: &'a [u8], found: usize) -> bool {
        let Some((pattern, same)) = self.patterns.get(found) else { return false };
        let time_us = micros(pattern.end(span));
        if !accepts(&telemetry::table::TOKENS, time_us, place.body.received_us) || same.numbers(span).is_none() {
            return false;
        }
        self.turns.add(pattern.trace_id(span), span, found);
        true
    }
}

impl Normalizer {
    /// Appends the tokens of a group that wait for their call's turn.
    pub(in crate::normalize) fn write_tokens(
        &self,
        resource: &Resource<'_>,
        group: u64,
        alike: &mut Alike<'_>,
        tables: &mut Tables,
    ) {
        for (span, number) in alike.turns.in_order() {
            let Some((pattern, same)) = alike.patterns.get(number) else { continue };
            let time_us = micros(pattern.end(span));
            let (Some(numbers), Some(rows)) = (same.numbers(span), tables.tokens.rows(time_us)) else { continue };
            self.hold(resource, group, same, rows);
            let ids = (pattern.trace_id(span), said(pattern.parent_span_id(span)));
            self.columns.tokens.write(time_us, ids, &numbers, rows);
            rows.end();
        }
        alike.turns.clear();
    }

    /// Puts what tokens of a pattern have in common into this row and all that follow.
    #[inline]
    fn hold(&self, resource: &Resource<'_>, group: u64, same: &Same<'_>, rows: &mut Rows) {
        let (another, texts) = rows.enter(Source { group, pattern: same.pattern });
        if another {
            resource.hold(rows);
        }
        if another || texts {
            let columns = &self.columns.tokens;
            rows.hold(columns.stall, same.stall);
            rows.hold(columns.tenant, same.tenant);
            rows.hold(columns.model, same.model.or_else(|| self.models.of(resource, None).name()));
        }
    }
}
