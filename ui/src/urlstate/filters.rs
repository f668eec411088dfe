//! What the list pages filter by beyond the scope.

use super::{Fields, Scope};

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
    /// Only requests that this host served.
    pub host: Option<String>,
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
            host: fields.text("host"),
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
        if let Some(host) = &self.host {
            fields.set("host", host.clone());
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
