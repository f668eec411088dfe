//! Objectives: their terms, how fast they burn, and how much of their budget is left.

use crate::ask::{Answer, Asked, Row};
use crate::sql::{Where, instant, literal, minutes};

/// What an objective demands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Terms {
    pub(crate) name: String,
    /// A column of calls, or `availability`.
    pub(crate) indicator: String,
    pub(crate) measured_at: String,
    /// Largest value of a good call; none for availability.
    pub(crate) threshold: Option<f64>,
    /// Share of calls that must be good.
    pub(crate) objective: f64,
    /// Period over which it holds, in days.
    pub(crate) window_days: i64,
    /// What it covers: column and value.
    pub(crate) covers: Vec<(&'static str, String)>,
}

/// How fast budgets burn, by the length of the look back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Burn {
    pub(crate) over_5m: Option<f64>,
    pub(crate) over_30m: Option<f64>,
    pub(crate) over_1h: Option<f64>,
    pub(crate) over_6h: Option<f64>,
}

/// What an objective's burn says. The pairs and their factors are those of the alert rules: a long window says that it matters, a
/// short one that it still goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing that it covers was measured.
    Frozen,
    Ok,
    /// 30 minutes and 6 hours over 6.
    Slow,
    /// 5 minutes and an hour over 14.4.
    Fast,
    /// Nothing is left of the budget.
    Exhausted,
}

/// Burn over 5 minutes and 1 hour from which on a budget of 30 days lasts two.
pub(crate) const FAST: f64 = 14.4;
/// Burn over 30 minutes and 6 hours from which on it lasts five.
pub(crate) const SLOW: f64 = 6.0;

impl State {
    pub(crate) fn of(burn: &Burn, left: Option<f64>) -> Self {
        let over = |value: Option<f64>, limit| value.is_some_and(|value| value >= limit);
        if burn.over_5m.is_none() && burn.over_1h.is_none() {
            Self::Frozen
        } else if left.is_some_and(|left| left <= 0.0) {
            Self::Exhausted
        } else if over(burn.over_5m, FAST) && over(burn.over_1h, FAST) {
            Self::Fast
        } else if over(burn.over_30m, SLOW) && over(burn.over_6h, SLOW) {
            Self::Slow
        } else {
            Self::Ok
        }
    }

    /// Word and class of the style sheet; the class draws a shape of its own for each.
    pub(crate) fn shown(self) -> (&'static str, &'static str) {
        match self {
            Self::Frozen => ("no data", "status frozen"),
            Self::Ok => ("ok", "status ok"),
            Self::Slow => ("burning slowly", "status warn"),
            Self::Fast => ("burning fast", "status error"),
            Self::Exhausted => ("budget used up", "status error"),
        }
    }
}

impl Terms {
    fn read(row: &Row<'_>) -> Option<Self> {
        let text = |column: &str| row.text(column).map(str::to_owned);
        let covers = [("region", "region"), ("model", "model"), ("tenant", "tenant")];
        Some(Self {
            name: text("name")?,
            indicator: text("indicator")?,
            measured_at: text("measured_at").unwrap_or_else(|| "server".to_owned()),
            threshold: row.number("threshold"),
            objective: row.number("objective").filter(|share| *share > 0.0 && *share < 1.0)?,
            window_days: text("window").as_deref().and_then(days).unwrap_or(30),
            covers: covers.into_iter().filter_map(|(name, column)| Some((name, text(column)?))).collect(),
        })
    }

    /// The objective in words.
    pub(crate) fn sentence(&self) -> String {
        let share = format!("{}%", trimmed(self.objective * 100.0));
        let of = self.covers.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ");
        let of = if of.is_empty() { "all calls".to_owned() } else { format!("calls of {of}") };
        let good = match self.threshold {
            None => "do not fail".to_owned(),
            Some(limit) => {
                let limit = viz::format::text(Some(limit), viz::format::Unit::Seconds);
                format!("have {} of at most {limit} and do not fail", self.measure())
            }
        };
        format!("{share} of {of} {good}, over {} days, as measured at the {}.", self.window_days, self.measured_at)
    }

    /// What is measured, as it is called on pages.
    pub(crate) fn measure(&self) -> &str {
        match self.indicator.as_str() {
            "ttft_s" => "a TTFT",
            "tpot_s" => "a TPOT",
            "e2e_s" => "an end to end",
            "queue_s" => "a queue",
            "itl_max_s" => "a longest gap",
            other => other,
        }
    }

    /// The column of calls behind it; none for availability.
    pub(crate) fn column(&self) -> Option<&'static str> {
        ["ttft_s", "tpot_s", "e2e_s", "queue_s", "itl_max_s"].into_iter().find(|column| *column == self.indicator)
    }

    /// A call that is not good.
    pub(crate) fn is_bad(&self) -> String {
        match (self.column(), self.threshold) {
            (Some(column), Some(limit)) => format!("(coalesce(status, '') = 'error' OR {column} > {limit:?})"),
            _ => "coalesce(status, '') = 'error'".to_owned(),
        }
    }

    /// The calls that count: those it covers, if what it measures is known of them or they failed.
    pub(crate) fn counting(&self, clause: Where) -> Where {
        let clause = clause.and_equal("measured_at", Some(&self.measured_at));
        let clause = self.covers.iter().fold(clause, |clause, (name, value)| clause.and_equal(name, Some(value)));
        clause.and(match self.column() {
            Some(column) => format!("({column} IS NOT NULL OR status = 'error')"),
            None => "status IN ('ok', 'error')".to_owned(),
        })
    }
}

/// "30d" in days.
fn days(text: &str) -> Option<i64> {
    text.strip_suffix('d')?.parse().ok().filter(|days| (1..=400).contains(days))
}

/// A number without zeros behind its point.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The objectives in force at an instant.
pub(crate) fn terms_sql(at_us: i64) -> String {
    let now = instant(at_us);
    format!(
        "SELECT name, indicator, measured_at, threshold, objective, \"window\", region, model, tenant, effective_from\nFROM (\n  SELECT *, row_number() OVER (PARTITION BY name ORDER BY effective_from DESC, effective_to DESC NULLS LAST) AS age\n  FROM slos\n  WHERE effective_from <= {now}\n)\nWHERE age = 1 AND (effective_to IS NULL OR effective_to > {now})\nORDER BY name"
    )
}

pub(crate) fn terms(answer: &Answer) -> Vec<Terms> {
    answer.rows().filter_map(|row| Terms::read(&row)).collect()
}

/// The newest burn of each objective in a stretch of time.
pub(crate) fn burn_sql(span: (i64, i64)) -> String {
    format!(
        "SELECT slo, time, calls, good, burn_5m, burn_30m, burn_1h, burn_6h\nFROM (\n  SELECT *, row_number() OVER (PARTITION BY slo ORDER BY time DESC) AS age\n  FROM slo_burn\n  {}\n)\nWHERE age = 1",
        Where::span(minutes(span)).clause().replace('\n', "\n  ")
    )
}

/// How fast an objective burns at the instant `to_us`.
pub(crate) fn burn(asked: &Asked, name: &str, to_us: i64) -> Burn {
    let Ok(answer) = &asked.outcome else { return Burn::default() };
    let Some(row) = answer.rows().find(|row| row.text("slo") == Some(name)) else { return Burn::default() };
    let newest = Burn {
        over_5m: row.number("burn_5m"),
        over_30m: row.number("burn_30m"),
        over_1h: row.number("burn_1h"),
        over_6h: row.number("burn_6h"),
    };
    match row.time("time") {
        Some(at) => newest.aged(to_us.saturating_sub(at)),
        None => Burn::default(),
    }
}

impl Burn {
    /// The same so long after its newest minute with calls: a stretch in which there was none says nothing.
    fn aged(self, age_us: i64) -> Self {
        let known = |value: Option<f64>, minutes: i64| value.filter(|_| age_us <= minutes * 60_000_000);
        Self {
            over_5m: known(self.over_5m, 5),
            over_30m: known(self.over_30m, 30),
            over_1h: known(self.over_1h, 60),
            over_6h: known(self.over_6h, 360),
        }
    }
}

/// Calls and good ones of each objective over its own window.
pub(crate) fn budget_sql(terms: &[Terms], to_us: i64) -> String {
    let from = |terms: &Terms| to_us.saturating_sub(terms.window_days * 86_400_000_000);
    let longest = terms.iter().map(from).min().unwrap_or(to_us);
    let own = terms.iter().map(|terms| {
        let (from, _) = minutes((from(terms), to_us));
        format!("slo = {} AND time >= {}", literal(&terms.name), instant(from))
    });
    let own = own.collect::<Vec<_>>().join("\n    OR ");
    let clause = Where::span(minutes((longest, to_us)));
    let clause = if own.is_empty() { clause } else { clause.and(format!("({own})")) };
    format!(
        "SELECT slo, sum(calls) AS calls, sum(good) AS good, min(time) AS since\nFROM slo_burn\n{}\nGROUP BY slo",
        clause.clause()
    )
}

/// The share of the budget that is left, of the calls that there were so far; negative when more was spent.
pub(crate) fn left(asked: &Asked, terms: &Terms) -> Option<f64> {
    let answer = asked.outcome.as_ref().ok()?;
    let row = answer.rows().find(|row| row.text("slo") == Some(&terms.name))?;
    left_of(row.number("calls")?, row.number("good")?, terms.objective)
}

/// What is left in words: a share, or how many times all of it was spent.
pub(crate) fn left_words(left: Option<f64>) -> String {
    match left {
        Some(left) if left <= 0.0 => format!("none, {:.1}× spent", 1.0 - left),
        _ => viz::format::text(left, viz::format::Unit::Ratio),
    }
}

/// One minus the bad calls over those that may be bad.
pub(crate) fn left_of(calls: f64, good: f64, objective: f64) -> Option<f64> {
    (calls > 0.0).then(|| 1.0 - (calls - good) / ((1.0 - objective) * calls))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ttft() -> Terms {
        Terms {
            name: "ttft-eu".into(),
            indicator: "ttft_s".into(),
            measured_at: "server".into(),
            threshold: Some(1.0),
            objective: 0.99,
            window_days: 30,
            covers: vec![("region", "eu-west-1".into())],
        }
    }

    #[test]
    fn an_objective_reads_as_a_sentence() {
        assert_eq!(
            ttft().sentence().replace('\u{202f}', " "),
            "99% of calls of region eu-west-1 have a TTFT of at most 1.00 s and do not fail, over 30 days, as measured at the server."
        );
        let available =
            Terms { indicator: "availability".into(), threshold: None, covers: vec![], objective: 0.999, ..ttft() };
        assert!(available.sentence().starts_with("99.9% of all calls do not fail, over 30 days"));
        assert_eq!(available.is_bad(), "coalesce(status, '') = 'error'");
    }

    #[test]
    fn a_burn_is_forgotten_once_its_stretch_has_passed() {
        let all = Burn { over_5m: Some(9.0), over_30m: Some(9.0), over_1h: Some(9.0), over_6h: Some(9.0) };
        let minutes = |count: i64| all.aged(count * 60_000_000);
        assert_eq!(minutes(5), all);
        assert_eq!(minutes(6), Burn { over_5m: None, ..all });
        assert_eq!(minutes(60), Burn { over_5m: None, over_30m: None, ..all });
        assert_eq!(minutes(300), Burn { over_6h: Some(9.0), ..Burn::default() });
        assert_eq!(minutes(361), Burn::default());
        assert_eq!(State::of(&minutes(300), Some(0.5)), State::Frozen, "nothing was measured for hours");
    }

    #[test]
    fn a_burn_counts_when_the_short_and_the_long_window_agree() {
        let burn = |five, hour| Burn { over_5m: Some(five), over_1h: Some(hour), ..Burn::default() };
        assert_eq!(State::of(&burn(20.0, 20.0), Some(0.4)), State::Fast);
        assert_eq!(State::of(&burn(0.0, 20.0), Some(0.4)), State::Ok, "it has stopped");
        assert_eq!(State::of(&burn(20.0, 1.0), Some(0.4)), State::Ok, "it may be noise");
        assert_eq!(State::of(&burn(0.0, 0.0), Some(-0.1)), State::Exhausted);
        assert_eq!(State::of(&Burn::default(), None), State::Frozen);
    }

    #[test]
    fn a_budget_is_of_the_calls_so_far() {
        assert_eq!(left_of(1_000.0, 1_000.0, 0.99), Some(1.0));
        assert!((left_of(1_000.0, 995.0, 0.99).unwrap() - 0.5).abs() < 1e-9);
        assert!(left_of(1_000.0, 900.0, 0.99).unwrap() < -8.9);
        assert_eq!(left_of(0.0, 0.0, 0.99), None);
        assert_eq!(left_words(Some(-8.9)), "none, 9.9× spent");
        assert_eq!(left_words(Some(0.25)), "25.0%");
    }

    #[test]
    fn names_stay_inside_their_quotes() {
        let hostile = Terms { name: "x' OR 1=1 --".into(), ..ttft() };
        assert!(budget_sql(&[hostile], 1_795_953_600_000_000).contains("slo = 'x'' OR 1=1 --'"));
        let clause = Terms { covers: vec![("region", "a'b".into())], ..ttft() }.counting(Where::span((0, 1)));
        assert!(clause.clause().contains("region = 'a''b'"));
    }
}
