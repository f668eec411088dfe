//! What a page shows, as its URL says it.
//!
//! Parsing never fails: what makes no sense is dropped, so an old or hand-made link still opens.
//! Writing is canonical: defaults are left out, and parsing what was written gives the same state.

use jiff::Timestamp;

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
    /// Whether the page renews itself.
    pub live: bool,
}

impl Default for Scope {
    fn default() -> Self {
        Self { range: Range::Last(DEFAULT_RANGE_S), region: None, model: None, tenant: None, live: true }
    }
}

impl Scope {
    /// Reads the scope out of a query string.
    pub fn parse(query: &str) -> Self {
        let fields = Fields::parse(query);
        Self {
            range: range(&fields),
            region: fields.text("region"),
            model: fields.text("model"),
            tenant: fields.text("tenant"),
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
        for (name, value) in [("region", &self.region), ("model", &self.model), ("tenant", &self.tenant)] {
            if let Some(value) = value {
                fields.set(name, value.clone());
            }
        }
        if !self.live {
            fields.set("live", "off".to_owned());
        }
        fields
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

    /// Whether the range moves with the clock.
    pub fn follows_now(&self) -> bool {
        matches!(self.range, Range::Last(_))
    }
}

fn range(fields: &Fields) -> Range {
    let instant = |name| fields.text(name).and_then(|text| parse_instant(&text));
    if let (Some(from), Some(to)) = (instant("from"), instant("to"))
        && from < to
    {
        return Range::Between(from, to);
    }
    let seconds = fields.text("range").and_then(|text| parse_span(&text));
    Range::Last(seconds.unwrap_or(DEFAULT_RANGE_S))
}

/// RFC 3339, also without a zone or seconds (as date fields send it), which is read as UTC; or
/// milliseconds since the epoch.
fn parse_instant(text: &str) -> Option<i64> {
    if let Ok(millis) = text.parse::<i64>() {
        return millis.checked_mul(1_000);
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at.as_microsecond());
    }
    let civil: jiff::civil::DateTime = text.parse().ok()?;
    civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|at| at.timestamp().as_microsecond())
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
    (1..=400 * 86_400).contains(&seconds).then_some(seconds)
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

/// How the requests page orders its rows, always from the top down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Newest first.
    #[default]
    Time,
    /// Slowest first token first.
    Ttft,
    /// Longest request first.
    E2e,
}

impl Sort {
    /// Every order, in the order of the columns.
    pub const ALL: [Sort; 3] = [Sort::Time, Sort::Ttft, Sort::E2e];

    /// Name in the URL.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Time => "time",
            Sort::Ttft => "ttft",
            Sort::E2e => "e2e",
        }
    }

    /// Column that is compared.
    pub fn column(self) -> &'static str {
        match self {
            Sort::Time => "time",
            Sort::Ttft => "ttft_s",
            Sort::E2e => "e2e_s",
        }
    }
}

/// Filters of the requests page beyond the scope.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestFilter {
    /// Only this status (ok, error, cancelled).
    pub status: Option<String>,
    /// Only requests whose first token took at least this many milliseconds.
    pub min_ttft_ms: Option<f64>,
    /// Order of the rows.
    pub sort: Sort,
    /// The last row of the page before: its value in the sort column, and its span id.
    pub after: Option<(String, String)>,
}

impl RequestFilter {
    /// Reads the filters out of a query string.
    pub fn parse(query: &str) -> Self {
        let fields = Fields::parse(query);
        let sort = fields.text("sort");
        let min_ttft = fields.text("min_ttft_ms").and_then(|text| text.parse::<f64>().ok());
        Self {
            status: fields.text("status"),
            min_ttft_ms: min_ttft.filter(|ms| ms.is_finite() && *ms > 0.0),
            sort: Sort::ALL.into_iter().find(|known| Some(known.name()) == sort.as_deref()).unwrap_or_default(),
            after: fields.text("after").and_then(|text| {
                let (value, span) = text.rsplit_once('~')?;
                Some((value.to_owned(), span.to_owned()))
            }),
        }
    }

    /// A link to the requests page with scope and filters.
    pub fn link(&self, scope: &Scope) -> String {
        let mut fields = scope.fields();
        if let Some(status) = &self.status {
            fields.set("status", status.clone());
        }
        if let Some(ms) = self.min_ttft_ms {
            fields.set("min_ttft_ms", ms.to_string());
        }
        if self.sort != Sort::default() {
            fields.set("sort", self.sort.name().to_owned());
        }
        if let Some((value, span)) = &self.after {
            fields.set("after", format!("{value}~{span}"));
        }
        fields.link("/requests")
    }
}

/// Longest value that is read from a URL; longer ones are dropped.
const VALUE_MOST: usize = 256;

/// Names and values of a query string, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Splits and decodes a query string (or a form body, which is written the same way).
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).take(64);
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self(decoded.collect())
    }

    /// A value of bounded length; empty counts as absent, as an untouched form field is.
    pub fn text(&self, name: &str) -> Option<String> {
        self.long_text(name).filter(|value| value.len() <= VALUE_MOST)
    }

    /// A value of any length.
    pub fn long_text(&self, name: &str) -> Option<String> {
        let found = self.0.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// Adds a field.
    pub fn set(&mut self, name: &str, value: String) {
        self.0.push((name.to_owned(), value));
    }

    /// The fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A path with these fields behind it.
    pub fn link(&self, path: &str) -> String {
        let mut link = path.to_owned();
        for (index, (name, value)) in self.0.iter().enumerate() {
            link.push(if index == 0 { '?' } else { '&' });
            link.push_str(&encode(name));
            link.push('=');
            link.push_str(&encode(value));
        }
        link
    }
}

/// Percent-encodes all but the letters that a query may hold as they are.
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'/' | b',' => {
                out.push(char::from(byte))
            }
            b' ' => out.push('+'),
            other => {
                out.push('%');
                for half in [other >> 4, other & 15] {
                    out.push(char::from_digit(u32::from(half), 16).unwrap_or('0').to_ascii_uppercase());
                }
            }
        }
    }
    out
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let ahead = rest.clone();
                match (hex(rest.next()), hex(rest.next())) {
                    (Some(high), Some(low)) => bytes.push(high << 4 | low),
                    _ => {
                        // Not an escape: the sign stands for itself.
                        bytes.push(b'%');
                        rest = ahead;
                    }
                }
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: Option<u8>) -> Option<u8> {
    char::from(digit?).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests;
