//! Lists as operators write them: CSV with documented columns, each row of which is a dated fact.

#[cfg(test)]
pub(crate) mod fixture;

use crate::record::{Header, Record, Refusal, instant, need_instant};

/// A column of a list.
#[derive(Debug)]
pub struct ListColumn {
    /// Name in the header.
    pub name: &'static str,
    /// Another name that is understood too.
    pub alias: Option<&'static str>,
    /// Whether every row must have it.
    pub needed: bool,
    /// What stands in it.
    pub doc: &'static str,
}

/// A column of a list.
pub(crate) const fn column(name: &'static str, needed: bool, doc: &'static str) -> ListColumn {
    ListColumn { name, alias: None, needed, doc }
}

/// Where a figure was read and how far it can be trusted, as every list has it.
pub(crate) const SOURCE: ListColumn = column("source", true, "where it was read: a contract, an address, a person");
pub(crate) const FROM: ListColumn =
    column("effective_from", true, "first instant at which it holds: a date or RFC 3339");
pub(crate) const TO: ListColumn =
    column("effective_to", false, "first instant at which it no longer holds; empty while open");
pub(crate) const AS_OF: ListColumn =
    column("as_of", false, "when the source was current; `effective_from` where it is left out");
pub(crate) const CONFIDENCE: ListColumn = column(
    "confidence",
    false,
    "`measured`, `published`, `secondary`, `undated_source`, `estimated` or `assumed`; `published` where it is left out",
);
pub(crate) const NOTE: ListColumn = column("note", false, "anything worth knowing");

const CONFIDENCES: [&str; 6] = ["measured", "published", "secondary", "undated_source", "estimated", "assumed"];

/// Sees to it that the header has what is needed and nothing that would be ignored.
///
/// # Errors
/// All that is wrong with it.
pub fn check(header: &Header, columns: &[ListColumn]) -> Result<(), Refusal> {
    let named = |column: &&ListColumn| header.has(column.name) || column.alias.is_some_and(|name| header.has(name));
    let missing: Vec<_> =
        columns.iter().filter(|column| column.needed && !named(column)).map(|column| column.name).collect();
    let known =
        |name: &&String| columns.iter().any(|column| column.name == **name || column.alias == Some(name.as_str()));
    let unknown: Vec<_> = header.names().iter().filter(|name| !known(name)).map(String::as_str).collect();
    let mut faults = Vec::new();
    if !missing.is_empty() {
        faults.push(format!("columns missing: {}", missing.join(", ")));
    }
    if !unknown.is_empty() {
        faults.push(format!("columns unknown: {}", unknown.join(", ")));
    }
    if faults.is_empty() { Ok(()) } else { Err(Refusal(faults.join("; "))) }
}

/// From when to when a fact holds, and who says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Dated {
    /// First instant at which it holds, µs since the epoch.
    pub from_us: i64,
    /// First instant at which it no longer holds, µs since the epoch; `None` while it is open.
    pub to_us: Option<i64>,
    /// Where it was read.
    pub source: String,
    /// When the source was current, as it says.
    pub as_of: String,
    /// `measured`, `published`, `secondary`, `undated_source`, `estimated` or `assumed`, from firm to weak.
    pub confidence: String,
    /// Anything worth knowing.
    pub note: Option<String>,
}

impl Dated {
    /// Reads the columns that all lists have.
    ///
    /// # Errors
    /// Which of them is wrong, and how.
    pub(crate) fn read(record: Record<'_>) -> Result<Dated, Refusal> {
        let from_us = need_instant(record, "effective_from")?;
        Ok(Dated {
            from_us,
            to_us: record.get("effective_to").map(|text| until(text, from_us)).transpose()?,
            source: record.need("source")?.to_owned(),
            as_of: record.get("as_of").unwrap_or(record.need("effective_from")?).to_owned(),
            confidence: one_of("confidence", record.get("confidence").unwrap_or("published"), &CONFIDENCES)?,
            note: record.get("note").map(str::to_owned),
        })
    }

    /// Whether both hold at some instant.
    pub fn overlaps(&self, other: &Dated) -> bool {
        let ends = |dated: &Dated| dated.to_us.unwrap_or(i64::MAX);
        self.from_us < ends(other) && other.from_us < ends(self)
    }
}

fn until(text: &str, from_us: i64) -> Result<i64, Refusal> {
    match instant(text) {
        Some(us) if us > from_us => Ok(us),
        Some(_) => Err(Refusal("`effective_to` is not after `effective_from`".to_owned())),
        None => Err(Refusal(format!("`effective_to` is {text:?}, not a time such as 2026-05-01"))),
    }
}

/// One of the words that a column may have.
pub(crate) fn one_of(name: &str, value: &str, allowed: &[&str]) -> Result<String, Refusal> {
    if allowed.contains(&value) {
        return Ok(value.to_owned());
    }
    Err(Refusal(format!("`{name}` is {value:?}, not one of {}", allowed.join(", "))))
}

/// Whether the text is a code of ISO 4217 by its form.
pub(crate) fn currency(name: &str, text: &str) -> Result<String, Refusal> {
    if text.len() == 3 && text.chars().all(|each| each.is_ascii_uppercase()) {
        return Ok(text.to_owned());
    }
    Err(Refusal(format!("`{name}` is {text:?}, not a currency such as EUR")))
}
