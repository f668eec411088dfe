//! What a page shows, as its URL says it.
//!
//! Parsing never fails: what makes no sense is dropped, so an old or hand-made link still opens.
//! Writing is canonical: defaults are left out, and parsing what was written gives the same state.

mod fields;
mod filters;

use jiff::Timestamp;
use jiff::tz::TimeZone;

#[cfg(test)]
use fields::decode;
pub(crate) use fields::segment;
pub use fields::{Fields, encode, path};
pub use filters::{RequestFilter, Sort};

/// Instants that a URL may name, µs since the epoch: up to the year 9000, so that what is counted from them can be written, too.
const INSTANTS: std::ops::Range<i64> = 0..221_845_392_000_000_000;

/// Whether a URL may name it, µs since the epoch.
pub fn is_instant(at_us: i64) -> bool {
    INSTANTS.contains(&at_us)
}

/// Widest range, in seconds: as long as roll-ups are kept.
const SPAN_MOST_S: i64 = 400 * 86_400;

/// Seconds shown when the URL names no range.
pub const DEFAULT_RANGE_S: i64 = 900;

/// The ranges that are one click away: seconds, name in the URL and on the page.
pub const RANGES: [(i64, &str); 5] = [(900, "15m"), (3_600, "1h"), (21_600, "6h"), (86_400, "24h"), (604_800, "7d")];

/// Which stretch of time a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// The last so many seconds; moves with the clock.
    Last(i64),
    /// Between two instants, µs since the epoch; stands still.
    Between(i64, i64),
}

/// What a scope may be narrowed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Where the model ran.
    Region,
    /// What was asked.
    Model,
    /// For whom.
    Tenant,
    /// By which inference engine.
    Engine,
    /// On which host type.
    Hardware,
}

impl Dimension {
    /// All of them, in the order in which the scope bar has them.
    pub const ALL: [Dimension; 5] =
        [Dimension::Region, Dimension::Model, Dimension::Tenant, Dimension::Engine, Dimension::Hardware];

    /// Name in the URL and on the page.
    pub fn name(self) -> &'static str {
        match self {
            Dimension::Region => "region",
            Dimension::Model => "model",
            Dimension::Tenant => "tenant",
            Dimension::Engine => "engine",
            Dimension::Hardware => "hardware",
        }
    }

    /// Column of the tables.
    pub fn column(self) -> &'static str {
        match self {
            Dimension::Hardware => "host_type",
            other => other.name(),
        }
    }
}

/// The scope that every page shares and every link carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Stretch of time.
    pub range: Range,
    /// Only this region.
    pub region: Option<String>,
    /// Only this model.
    pub model: Option<String>,
    /// Only this tenant.
    pub tenant: Option<String>,
    /// Only this inference engine.
    pub engine: Option<String>,
    /// Only this host type.
    pub hardware: Option<String>,
    /// In whose local time the page is told, by its name in the IANA database; UTC if none is named.
    pub tz: Option<String>,
    /// Whether the page renews itself.
    pub live: bool,
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            range: Range::Last(DEFAULT_RANGE_S),
            region: None,
            model: None,
            tenant: None,
            engine: None,
            hardware: None,
            tz: None,
            live: true,
        }
    }
}

impl Scope {
    /// Reads the scope out of a query string.
    pub fn parse(query: &str) -> Self {
        let fields = Fields::parse(query);
        let tz = fields.text("tz").filter(|name| name != "UTC").and_then(|name| {
            let zone = TimeZone::get(&name).ok()?;
            Some((zone.iana_name()?.to_owned(), zone))
        });
        let (tz, zone) = tz.unzip();
        Self {
            range: range(&fields, &zone.unwrap_or(TimeZone::UTC)),
            region: fields.text("region"),
            model: fields.text("model"),
            tenant: fields.text("tenant"),
            engine: fields.text("engine"),
            hardware: fields.text("hardware"),
            tz,
            live: fields.text("live").as_deref() != Some("off"),
        }
    }

    /// The fields that differ from the default, in a fixed order.
    pub fn fields(&self) -> Fields {
        let mut fields = Fields::default();
        match self.range {
            Range::Last(DEFAULT_RANGE_S) => {}
            Range::Last(seconds) => fields.set("range", range_name(seconds)),
            Range::Between(from, to) => {
                fields.set("from", rfc3339(from));
                fields.set("to", rfc3339(to));
            }
        }
        for dimension in Dimension::ALL {
            if let Some(value) = self.get(dimension) {
                fields.set(dimension.name(), value.to_owned());
            }
        }
        if let Some(tz) = &self.tz {
            fields.set("tz", tz.clone());
        }
        if !self.live {
            fields.set("live", "off".to_owned());
        }
        fields
    }

    /// What a dimension is narrowed to.
    pub fn get(&self, dimension: Dimension) -> Option<&str> {
        match dimension {
            Dimension::Region => self.region.as_deref(),
            Dimension::Model => self.model.as_deref(),
            Dimension::Tenant => self.tenant.as_deref(),
            Dimension::Engine => self.engine.as_deref(),
            Dimension::Hardware => self.hardware.as_deref(),
        }
    }

    /// The same scope with one dimension narrowed, or widened again.
    pub fn with(&self, dimension: Dimension, value: Option<&str>) -> Self {
        let mut scope = self.clone();
        let place = match dimension {
            Dimension::Region => &mut scope.region,
            Dimension::Model => &mut scope.model,
            Dimension::Tenant => &mut scope.tenant,
            Dimension::Engine => &mut scope.engine,
            Dimension::Hardware => &mut scope.hardware,
        };
        *place = value.map(str::to_owned);
        scope
    }

    /// The same stretch of time, of everything.
    pub fn all(&self) -> Self {
        Self { range: self.range, tz: self.tz.clone(), live: self.live, ..Self::default() }
    }

    /// A link to a page that keeps this scope.
    pub fn link(&self, path: &str) -> String {
        self.fields().link(path)
    }

    /// Both ends in µs since the epoch, given the present. One call per page: every panel, table
    /// and count of it shares them.
    pub fn resolve(&self, now_us: i64) -> (i64, i64) {
        match self.range {
            Range::Last(seconds) => (now_us.saturating_sub(seconds.saturating_mul(1_000_000)), now_us),
            Range::Between(from, to) => (from, to),
        }
    }

    /// The window half its width earlier (-1) or later (1); it stands still then, unless it would pass the present.
    pub fn shifted(&self, now_us: i64, direction: i64) -> Self {
        let (from, to) = self.resolve(now_us);
        let by = (to.saturating_sub(from) / 2).saturating_mul(direction);
        let end = to.saturating_add(by);
        let range = if direction > 0 && end >= now_us {
            Range::Last((to.saturating_sub(from) / 1_000_000).clamp(1, SPAN_MOST_S))
        } else {
            Range::Between(from.saturating_add(by), end)
        };
        Self { range, ..self.clone() }
    }

    /// A window twice as wide, with the same end if that is now.
    pub fn widened(&self, now_us: i64) -> Self {
        let (from, to) = self.resolve(now_us);
        let width = to.saturating_sub(from);
        let half = (width / 2).min((SPAN_MOST_S * 1_000_000 - width).max(0) / 2);
        let range = match self.range {
            Range::Last(seconds) => Range::Last(seconds.saturating_mul(2).min(SPAN_MOST_S)),
            Range::Between(..) => {
                Range::Between(from.saturating_sub(half), to.saturating_add(half).min(now_us.max(to)))
            }
        };
        Self { range, ..self.clone() }
    }

    /// Whether the range moves with the clock.
    pub fn follows_now(&self) -> bool {
        matches!(self.range, Range::Last(_))
    }
}

/// Times without a zone are read in `zone`, as the page's date fields show them.
fn range(fields: &Fields, zone: &TimeZone) -> Range {
    let instant = |name| fields.text(name).and_then(|text| parse_local(&text, zone));
    if let (Some(from), Some(to)) = (instant("from"), instant("to"))
        && from < to
        && to - from <= SPAN_MOST_S * 1_000_000
    {
        return Range::Between(from, to);
    }
    // As links from alerts name it: an instant and the width around it.
    let width = fields.text("time.window").and_then(|text| parse_span(&text));
    if let Some((at, width)) = instant("time").zip(width) {
        let half = width * 500_000;
        if INSTANTS.contains(&(at - half)) && INSTANTS.contains(&(at + half)) {
            return Range::Between(at - half, at + half);
        }
    }
    let seconds = fields.text("range").and_then(|text| parse_span(&text));
    Range::Last(seconds.unwrap_or(DEFAULT_RANGE_S))
}

/// RFC 3339, also without a zone or seconds (as date fields send it), which is read as UTC; or
/// milliseconds since the epoch.
pub(crate) fn parse_instant(text: &str) -> Option<i64> {
    parse_local(text, &TimeZone::UTC)
}

/// The same, with what has no zone read in this one. An hour that comes twice is the first of the two.
fn parse_local(text: &str, zone: &TimeZone) -> Option<i64> {
    let at_us = if let Ok(millis) = text.parse::<i64>() {
        millis.checked_mul(1_000)?
    } else if let Ok(at) = text.parse::<Timestamp>() {
        at.as_microsecond()
    } else {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        zone.to_ambiguous_zoned(civil).compatible().ok()?.timestamp().as_microsecond()
    };
    INSTANTS.contains(&at_us).then_some(at_us)
}

/// "90s", "15m", "6h", "7d", from a second up to 400 days.
fn parse_span(text: &str) -> Option<i64> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    let count: i64 = text.get(..text.len() - 1)?.parse().ok()?;
    let seconds = count.checked_mul(unit)?;
    (1..=SPAN_MOST_S).contains(&seconds).then_some(seconds)
}

/// The shortest spelling of a span that [`parse_span`] reads back.
pub fn range_name(seconds: i64) -> String {
    if let Some((_, name)) = RANGES.iter().find(|(span, _)| *span == seconds) {
        return (*name).to_owned();
    }
    for (unit, letter) in [(86_400, 'd'), (3_600, 'h'), (60, 'm')] {
        if seconds % unit == 0 {
            return format!("{}{letter}", seconds / unit);
        }
    }
    format!("{seconds}s")
}

/// An instant in UTC, as SQL and URLs write it.
pub fn rfc3339(at_us: i64) -> String {
    Timestamp::from_microsecond(at_us).map(|at| at.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
