//! One line: a sample, or a comment that says something of a family.

use std::borrow::Cow;

use super::{Declared, Format, Heads};

/// Labels: names and values.
pub type Labels<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// An observation that stands for a bucket or a counter.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar<'a> {
    /// Its labels, such as `trace_id`.
    pub labels: Labels<'a>,
    /// The observation.
    pub value: f64,
    /// When it was made, nanoseconds since 1970-01-01 UTC.
    pub time_ns: Option<i64>,
}

/// A line with a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample<'a> {
    pub(super) name: &'a str,
    /// In order of their names.
    pub(super) labels: Labels<'a>,
    pub(super) value: f64,
    pub(super) time_ns: Option<i64>,
    pub(super) exemplar: Option<Box<Exemplar<'a>>>,
}

/// What is wrong with a line.
type Fault = &'static str;

/// Most labels of one sample.
const LABELS_MAX: usize = 128;

/// Reads `# HELP`, `# TYPE` and `# UNIT`; any other comment says nothing.
pub(super) fn comment<'a>(line: &'a str, heads: &mut Heads<'a>) -> Result<(), Fault> {
    let rest = line.strip_prefix('#').unwrap_or(line).trim_ascii_start();
    let Some((keyword, rest)) = rest.split_once([' ', '\t']) else { return Ok(()) };
    if !matches!(keyword, "HELP" | "TYPE" | "UNIT") {
        return Ok(());
    }
    let mut rest = Rest(rest.trim_ascii_start());
    let name = if rest.0.starts_with('"') {
        let Cow::Borrowed(name) = rest.quoted()? else { return Err("a name with escapes") };
        name
    } else {
        let (name, after) = rest.0.split_once([' ', '\t']).unwrap_or((rest.0, ""));
        rest.0 = after;
        name
    };
    if name.is_empty() {
        return Err("a comment without the name of a family");
    }
    let said = rest.0.trim_ascii();
    let head = heads.entry(name).or_default();
    match keyword {
        "HELP" => head.help = unescape(said),
        "UNIT" => head.unit = said,
        _ => head.declared = Declared::named(said).ok_or("an unknown type")?,
    }
    Ok(())
}

/// Reads a sample.
pub(super) fn sample(line: &str, format: Format) -> Result<Sample<'_>, Fault> {
    let mut rest = Rest(line);
    let mut name = rest.identifier(|byte| byte == b':');
    let mut labels = Labels::new();
    if name.is_empty() && !rest.0.starts_with('{') {
        return Err("no metric name");
    }
    rest.spaces();
    if rest.eat('{') {
        let quoted = rest.labels(&mut labels)?;
        name = match (name, quoted) {
            ("", Some(quoted)) => quoted,
            (_, Some(_)) => return Err("two names"),
            (name, None) => name,
        };
    } else if rest.0.len() + name.len() == line.len() {
        return Err("no space between name and value");
    }
    if name.is_empty() {
        return Err("no metric name");
    }
    let value = rest.number("no value")?;
    let time_ns = if rest.0.is_empty() || rest.0.starts_with('#') { None } else { Some(rest.time(format)?) };
    let exemplar = if rest.eat('#') { Some(Box::new(rest.exemplar()?)) } else { None };
    if rest.0.is_empty() { Ok(Sample { name, labels, value, time_ns, exemplar }) } else { Err("text after the sample") }
}

/// What is left of a line.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn spaces(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    fn eat(&mut self, mark: char) -> bool {
        let rest = self.0.strip_prefix(mark);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Takes a classic name, perhaps an empty one; `more` says what else it may consist of.
    fn identifier(&mut self, more: impl Fn(u8) -> bool) -> &'a str {
        let bytes = self.0.as_bytes();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || more(byte);
        let length = bytes.iter().position(|byte| !fits(*byte)).unwrap_or(bytes.len());
        if bytes.first().is_some_and(u8::is_ascii_digit) {
            return "";
        }
        let (name, rest) = self.0.split_at_checked(length).unwrap_or((self.0, ""));
        self.0 = rest;
        name
    }

    /// Takes a quoted text.
    fn quoted(&mut self) -> Result<Cow<'a, str>, Fault> {
        let text = self.0.strip_prefix('"').ok_or("a value without quotes")?;
        let mut escaped = false;
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    let (inside, rest) = text.split_at_checked(at).ok_or("a broken text")?;
                    self.0 = rest.strip_prefix('"').unwrap_or(rest);
                    return Ok(unescape(inside));
                }
                _ => {}
            }
        }
        Err("a quote that does not end")
    }

    /// Takes labels up to the closing brace, and returns the metric's name if it stands among them.
    fn labels(&mut self, labels: &mut Labels<'a>) -> Result<Option<&'a str>, Fault> {
        let mut name = None;
        loop {
            self.spaces();
            if self.eat('}') {
                break;
            }
            if labels.len() == LABELS_MAX {
                return Err("more than 128 labels");
            }
            let (label, quoted) = self.label()?;
            self.spaces();
            if self.eat('=') {
                self.spaces();
                labels.push((label, self.quoted()?));
            } else if quoted && name.is_none() {
                name = Some(label);
            } else {
                return Err("a label without a value");
            }
            self.spaces();
            if !self.eat(',') && !self.0.starts_with('}') {
                return Err("no comma between labels");
            }
        }
        labels.sort_by_key(|(label, _)| *label);
        if labels.windows(2).any(|pair| pair.first().map(|one| one.0) == pair.get(1).map(|two| two.0)) {
            return Err("a label stands twice");
        }
        Ok(name)
    }

    /// Takes a label's name, and says whether it was quoted.
    fn label(&mut self) -> Result<(&'a str, bool), Fault> {
        if !self.0.starts_with('"') {
            let label = self.identifier(|_| false);
            return if label.is_empty() { Err("a label without a name") } else { Ok((label, false)) };
        }
        match self.quoted()? {
            Cow::Borrowed("") => Err("a label without a name"),
            Cow::Borrowed(label) => Ok((label, true)),
            Cow::Owned(_) => Err("a name with escapes"),
        }
    }

    /// Takes a word and the spaces around it.
    fn word(&mut self) -> &'a str {
        self.spaces();
        let (word, rest) = self.0.split_once([' ', '\t']).unwrap_or((self.0, ""));
        self.0 = rest;
        self.spaces();
        word
    }

    fn number(&mut self, missing: Fault) -> Result<f64, Fault> {
        match self.word() {
            "" => Err(missing),
            word => word.parse().map_err(|_| "a value that is no number"),
        }
    }

    fn time(&mut self, format: Format) -> Result<i64, Fault> {
        let word = self.word();
        let ns = match format {
            Format::Text => word.parse::<i64>().ok().and_then(|ms| ms.checked_mul(1_000_000)),
            Format::OpenMetrics => word.parse::<f64>().ok().and_then(nanoseconds),
        };
        ns.ok_or("a timestamp that is none")
    }

    fn exemplar(&mut self) -> Result<Exemplar<'a>, Fault> {
        self.spaces();
        if !self.eat('{') {
            return Err("an exemplar without labels");
        }
        let mut labels = Labels::new();
        if self.labels(&mut labels)?.is_some() {
            return Err("a label without a value");
        }
        let value = self.number("an exemplar without a value")?;
        let time_ns = if self.0.is_empty() { None } else { Some(self.time(Format::OpenMetrics)?) };
        Ok(Exemplar { labels, value, time_ns })
    }
}

/// Seconds since 1970-01-01 UTC as nanoseconds; `None` where they do not fit.
pub(super) fn nanoseconds(seconds: f64) -> Option<i64> {
    // Apart, so that the whole seconds stay exact: a float holds 15 digits, and nanoseconds of today have 19.
    let (whole, part) = (seconds.floor(), (seconds - seconds.floor()) * 1e9);
    ((whole.abs() + 1.0) * 1e9 < i64::MAX as f64).then(|| whole as i64 * 1_000_000_000 + part.round() as i64)
}

/// Undoes `\\`, `\"` and `\n`; any other backslash stands for itself.
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let escaped = if character == '\\' { characters.next() } else { None };
        match (character, escaped) {
            ('\\', Some('n')) => plain.push('\n'),
            ('\\', Some(mark @ ('\\' | '"'))) => plain.push(mark),
            ('\\', Some(other)) => plain.extend(['\\', other]),
            (character, _) => plain.push(character),
        }
    }
    Cow::Owned(plain)
}
