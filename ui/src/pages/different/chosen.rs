//! A part of the heat map that somebody chose: calls of a stretch of time with values between two bounds, to be compared with all others.

use leptos::prelude::*;
use viz::format::{self, Unit};
use viz::heat::{Chosen as Drawn, bound};

use crate::sql::instant;
use crate::urlstate::{Fields, parse_instant, rfc3339};
use crate::zone;

/// Values that a heat map can hold, in seconds.
const VALUES: std::ops::RangeInclusive<f64> = 1e-9..=1e9;

/// The box: its ends in time, and its bounds in seconds. What is left open goes on to the edge of the map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Chosen {
    from_us: Option<i64>,
    to_us: Option<i64>,
    low_s: Option<f64>,
    high_s: Option<f64>,
}

impl Chosen {
    /// Reads it out of a query string's fields; none if they name no box.
    pub(crate) fn parse(fields: &Fields) -> Option<Self> {
        let at = |name: &str| fields.text(name).and_then(|text| parse_instant(&text));
        let value = |name: &str| fields.text(name)?.parse().ok().filter(|value| VALUES.contains(value));
        let chosen =
            Self { from_us: at("box_from"), to_us: at("box_to"), low_s: value("box_low"), high_s: value("box_high") };
        let turned = chosen.from_us.zip(chosen.to_us).is_some_and(|(from, to)| from >= to)
            || chosen.low_s.zip(chosen.high_s).is_some_and(|(low, high)| low >= high);
        let empty = chosen.from_us.or(chosen.to_us).is_none() && chosen.low_s.or(chosen.high_s).is_none();
        (!turned && !empty).then_some(chosen)
    }

    /// The fields that [`Chosen::parse`] reads back.
    pub(crate) fn write(&self, fields: &mut Fields) {
        for (name, at) in [("box_from", self.from_us), ("box_to", self.to_us)] {
            if let Some(at) = at {
                fields.set(name, rfc3339(at));
            }
        }
        for (name, value) in [("box_low", self.low_s), ("box_high", self.high_s)] {
            if let Some(value) = value {
                fields.set(name, format!("{value}"));
            }
        }
    }

    /// The same with its edges on those of the map's cells.
    pub(crate) fn on_grid(&self, step_us: i64) -> Self {
        let (down, up) = (
            |at: i64| at.div_euclid(step_us) * step_us,
            |at: i64| at.saturating_add(step_us - 1).div_euclid(step_us) * step_us,
        );
        let level = |value: f64| value.log2() * 4.0;
        Self {
            from_us: self.from_us.map(down),
            to_us: self.to_us.map(up),
            // A hair's breadth beside an edge is on it.
            low_s: self.low_s.map(|low| bound((level(low) + 1e-6).floor() as i64)),
            high_s: self.high_s.map(|high| bound((level(high) - 1e-6).ceil() as i64)),
        }
    }

    /// What holds of its calls. A cell has its upper bound and not its lower one.
    pub(crate) fn condition(&self, column: &str) -> String {
        let parts = [
            self.from_us.map(|at| format!("time >= {}", instant(at))),
            self.to_us.map(|at| format!("time < {}", instant(at))),
            self.low_s.map(|low| format!("{column} > {low:?}")),
            self.high_s.map(|high| format!("{column} <= {high:?}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        format!("({})", parts.join(" AND "))
    }

    /// The box on the map.
    pub(crate) fn drawn(&self, span_us: (i64, i64)) -> Drawn {
        Drawn {
            span_us: (self.from_us.unwrap_or(span_us.0), self.to_us.unwrap_or(span_us.1)),
            low: self.low_s.unwrap_or(*VALUES.start()),
            high: self.high_s.unwrap_or(*VALUES.end()),
        }
    }

    /// In words, as it follows "calls".
    pub(crate) fn words(&self) -> String {
        let seconds = |value: f64| format::text(Some(value), Unit::Seconds);
        let values = match (self.low_s, self.high_s) {
            (Some(low), Some(high)) => format!("between {} and {}", seconds(low), seconds(high)),
            (Some(low), None) => format!("over {}", seconds(low)),
            (None, Some(high)) => format!("up to {}", seconds(high)),
            (None, None) => "of any length".to_owned(),
        };
        let times = match (self.from_us, self.to_us) {
            (Some(from), Some(to)) => format!(", {} to {}", zone::clock(from), zone::clock(to)),
            (Some(from), None) => format!(", from {} on", zone::clock(from)),
            (None, Some(to)) => format!(", until {}", zone::clock(to)),
            (None, None) => String::new(),
        };
        format!("{values}{times}")
    }
}

/// What a page compares with all of its calls where nobody chose a box, in words.
pub(crate) struct Otherwise {
    /// Title of the panel.
    pub(crate) title: &'static str,
    /// The calls that are meant, as they follow "those".
    pub(crate) words: &'static str,
    /// That there are none.
    pub(crate) none: &'static str,
    /// What is held against what.
    pub(crate) note: &'static str,
    /// The way back to them.
    pub(crate) back: &'static str,
}

/// The calls that a page compares: those of a box, else others.
pub(crate) struct Compared<'a> {
    /// The box as the page's address has it.
    pub(crate) asked: Option<Chosen>,
    /// The same on the map's grid; none where single calls are not read.
    pub(crate) chosen: Option<Chosen>,
    pub(crate) otherwise: &'a Otherwise,
}

impl Compared<'_> {
    pub(crate) fn title(&self) -> String {
        match self.chosen {
            Some(chosen) => format!("What is different about the calls {}", chosen.words()),
            None => self.otherwise.title.to_owned(),
        }
    }

    /// The calls that are meant, and that there are none.
    pub(crate) fn words(&self) -> (&'static str, &'static str) {
        match self.chosen {
            Some(_) => ("in the box", "No call lies there"),
            None => (self.otherwise.words, self.otherwise.none),
        }
    }

    pub(crate) fn note(&self) -> &'static str {
        match self.chosen {
            Some(_) => {
                "calls in the box against all calls of the range; a node leads to its page, all else narrows this one"
            }
            None => self.otherwise.note,
        }
    }

    /// The form for bounds, and the way back to what the page compares by itself. `rest` is the page's state without the box.
    pub(crate) fn controls(&self, path: &str, rest: &Fields) -> AnyView {
        let form = form(path, self.asked, rest);
        view! { {form}{self.back(path, rest)} }.into_any()
    }

    pub(crate) fn back(&self, path: &str, rest: &Fields) -> Option<AnyView> {
        self.asked.map(|_| view! { <p class="links"><a href=rest.link(path)>{self.otherwise.back}</a></p> }.into_any())
    }
}

/// A form for those who draw no box: bounds in seconds, of the page's whole range. `hidden` is the rest of the page's state.
fn form(path: &str, chosen: Option<Chosen>, hidden: &Fields) -> AnyView {
    let hidden: Vec<_> = hidden
        .iter()
        .map(|(name, value)| view! { <input type="hidden" name=name.to_owned() value=value.to_owned()/> })
        .collect();
    let bound = |value: Option<f64>| value.map(|value| format!("{}", (value * 1e6).round() / 1e6));
    let (low, high) = (bound(chosen.and_then(|chosen| chosen.low_s)), bound(chosen.and_then(|chosen| chosen.high_s)));
    view! {
        <form class="filters" method="get" action=path.to_owned()>
            <label><span>"over (s)"</span><input type="number" name="box_low" min="0" step="any" value=low/></label>
            <label><span>"up to (s)"</span><input type="number" name="box_high" min="0" step="any" value=high/></label>
            {hidden}
            <button>"Compare"</button>
            <span class="hint">"or drag a box over the heat map"</span>
        </form>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_is_said_as_it_is_asked() {
        let otherwise = Otherwise { title: "T", words: "slow", none: "None", note: "n", back: "Back" };
        let chosen = Chosen::parse(&Fields::parse("box_low=0.5"));
        let boxed = Compared { asked: chosen, chosen, otherwise: &otherwise };
        assert!(
            boxed.title().contains("over 500")
                && boxed.words().0 == "in the box"
                && boxed.back("/x", &Fields::default()).is_some()
        );
        // A box that a long range cannot tell is still one to leave.
        let untold = Compared { chosen: None, ..boxed };
        assert_eq!((untold.title().as_str(), untold.words(), untold.note()), ("T", ("slow", "None"), "n"));
        assert!(untold.back("/x", &Fields::default()).is_some());
    }

    #[test]
    fn a_box_survives_its_own_url_and_lies_on_the_grid() {
        let fields = Fields::parse("box_from=1795953603000&box_to=1795953617000&box_low=0.3&box_high=1.1");
        let chosen = Chosen::parse(&fields).unwrap();
        let mut written = Fields::default();
        chosen.write(&mut written);
        assert_eq!(Chosen::parse(&written), Some(chosen));
        let grid = chosen.on_grid(10_000_000);
        assert_eq!(
            grid.condition("ttft_s"),
            format!(
                "(time >= TIMESTAMP '2026-11-29T12:00:00Z' AND time < TIMESTAMP '2026-11-29T12:00:20Z' AND ttft_s > {:?} AND ttft_s <= {:?})",
                bound(-7),
                bound(1)
            )
        );
        assert_eq!(grid.on_grid(10_000_000), grid, "what is on the grid stays");
        for nonsense in
            ["", "box_low=x", "box_low=-1", "box_low=2&box_high=1", "box_from=2000&box_to=1000", "box_high=NaN"]
        {
            assert_eq!(Chosen::parse(&Fields::parse(nonsense)), None, "{nonsense}");
        }
    }
}
