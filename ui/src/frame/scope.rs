//! The bar under the heading: what the page is narrowed to, and which stretch of time it shows. Forms and links alone, so that
//! all of it works without scripts.

use leptos::prelude::*;

use super::Sheet;
use crate::ask::Asked;
use crate::server::Visit;
use crate::urlstate::{DEFAULT_RANGE_S, Dimension, Fields, RANGES, Range, Scope, range_name};
use crate::zone;

/// What the bar's links and forms need to know.
struct Bar<'a> {
    visit: &'a Visit,
    sheet: &'a Sheet,
    path: String,
}

pub(super) fn bar(visit: &Visit, sheet: &Sheet, choices: &Asked) -> AnyView {
    let bar = Bar { visit, sheet, path: visit.path().to_owned() };
    let scope = &sheet.scope;
    // The form sends what it shows; the rest of the scope and the page's own fields travel hidden.
    let hidden = sheet.filters.iter().fold(scope.clone(), |rest, dimension| rest.with(*dimension, None));
    let chosen = sheet.filters.iter().any(|dimension| scope.get(*dimension).is_some());
    let clear = chosen.then(|| view! { <a class="quiet" href=bar.link(&hidden)>"Clear"</a> });
    let selects = sheet.filters.iter().map(|dimension| select(*dimension, scope.get(*dimension), choices));
    let form = (!sheet.filters.is_empty()).then(|| {
        view! {
            <form method="get" action=bar.path.clone()>
                {selects.collect_view()}
                {bar.hidden(&hidden)}
                <button>"Apply"</button>
                {clear}
            </form>
        }
    });
    view! {
        <section class="scope" aria-label="Scope and time">
            {form}
            {bar.left_out()}
            <div class="times">{bar.steps()}{bar.ranges()}{bar.zones()}</div>
        </section>
    }
    .into_any()
}

impl Bar<'_> {
    /// This page with another scope.
    fn link(&self, scope: &Scope) -> String {
        self.fields(scope).link(&self.path)
    }

    fn fields(&self, scope: &Scope) -> Fields {
        let mut fields = scope.fields();
        self.sheet.keep.iter().for_each(|(name, value)| fields.set(name, value.to_owned()));
        fields
    }

    fn hidden(&self, scope: &Scope) -> AnyView {
        let fields: Vec<_> = self
            .fields(scope)
            .iter()
            .map(|(name, value)| view! { <input type="hidden" name=name.to_owned() value=value.to_owned()/> })
            .collect();
        fields.into_any()
    }

    /// Narrowings of other pages that mean nothing here are named, so that nobody takes the numbers for narrowed ones.
    fn left_out(&self) -> Option<AnyView> {
        let left_out: Vec<String> = Dimension::ALL
            .into_iter()
            .filter(|dimension| !self.sheet.filters.contains(dimension))
            .filter_map(|dimension| Some(format!("{} {}", dimension.name(), self.sheet.scope.get(dimension)?)))
            .collect();
        (!left_out.is_empty()).then(|| {
            let words = format!("not narrowed to {}: these figures do not tell", left_out.join(", "));
            view! { <span class="chip stale">{words}</span> }.into_any()
        })
    }

    /// Earlier, later, wider.
    fn steps(&self) -> AnyView {
        let (scope, now_us) = (&self.sheet.scope, self.visit.now_us);
        let later = (!scope.follows_now()).then(|| self.link(&scope.shifted(now_us, 1)));
        view! {
            <div class="ranges" role="group" aria-label="Move the window">
                <a href=self.link(&scope.shifted(now_us, -1)) data-key="[" title="half a window earlier ( [ )" aria-label="Earlier">"‹"</a>
                <a href=later data-key="]" title="half a window later ( ] )" aria-label="Later">"›"</a>
                <a href=self.link(&scope.widened(now_us)) data-key="-" title="twice as wide ( - )" aria-label="Wider">"⤢"</a>
            </div>
        }
        .into_any()
    }

    fn ranges(&self) -> AnyView {
        let scope = &self.sheet.scope;
        let ranges = RANGES.map(|(seconds, name)| {
            let link = self.link(&Scope { range: Range::Last(seconds), ..scope.clone() });
            let current = (scope.range == Range::Last(seconds)).then_some("true");
            view! { <a href=link aria-current=current>{name}</a> }
        });
        view! {
            <div class="ranges" role="group" aria-label="Time range">{ranges.into_iter().collect_view()}{self.absolute()}</div>
        }
        .into_any()
    }

    /// In whose local time the page is told: UTC, that of the browser (which scripts fill in), or any other.
    fn zones(&self) -> AnyView {
        let scope = &self.sheet.scope;
        let in_zone = |tz: Option<&str>| self.link(&Scope { tz: tz.map(str::to_owned), ..scope.clone() });
        let offered = zone::OFFERED.map(|name| view! { <option value=name></option> });
        let hidden = Scope { tz: None, ..scope.clone() };
        let current = scope.tz.is_none().then_some("true");
        view! {
            <div class="ranges" role="group" aria-label="Time zone"><details class="absolute">
                <summary data-key="u" title="time zone ( u )">{zone::name()}</summary>
                <form method="get" action=self.path.clone()>
                    <p class="links">
                        <a href=in_zone(None) aria-current=current>"UTC"</a>
                        <a class="copy" data-zone="" href=in_zone(Some("Etc/UTC"))>"this browser's"</a>
                    </p>
                    <label>"zone"<input name="tz" list="zones" placeholder="Europe/Dublin" value=scope.tz.clone() autocomplete="off"/></label>
                    <datalist id="zones">{offered.into_iter().collect_view()}</datalist>
                    {self.hidden(&hidden)}
                    <button>"Show"</button>
                </form>
            </details></div>
        }
        .into_any()
    }

    /// Two fields for a stretch of time that does not end now.
    fn absolute(&self) -> AnyView {
        let scope = &self.sheet.scope;
        let (from, to) = scope.resolve(self.visit.now_us);
        let field = |at: i64| zone::local(at / 1_000_000 * 1_000_000);
        let (from_label, to_label) = (format!("from ({})", zone::name()), format!("to ({})", zone::name()));
        let name = match scope.range {
            Range::Between(from, to) => between(from, to),
            Range::Last(seconds) if RANGES.iter().any(|(span, _)| *span == seconds) => "from … to".to_owned(),
            Range::Last(seconds) => format!("last {}", range_name(seconds)),
        };
        let known =
            |range: &Range| matches!(range, Range::Last(seconds) if RANGES.iter().any(|(span, _)| span == seconds));
        let current = (!known(&scope.range)).then_some("true");
        let hidden = Scope { range: Range::Last(DEFAULT_RANGE_S), ..scope.clone() };
        view! {
            <details class="absolute">
                <summary aria-current=current data-key="t">{name}</summary>
                <form method="get" action=self.path.clone()>
                    <label>{from_label}<input type="datetime-local" step="1" name="from" value=field(from)/></label>
                    <label>{to_label}<input type="datetime-local" step="1" name="to" value=field(to)/></label>
                    {self.hidden(&hidden)}
                    <button>"Show"</button>
                </form>
            </details>
        }
        .into_any()
    }
}

/// A stretch of time as short as it can be told apart, in the page's zone, which is named once unless clocks change in between.
fn between(from_us: i64, to_us: i64) -> String {
    let (begins, ends) = (zone::abbreviation(from_us), zone::abbreviation(to_us));
    let (from, to) = (short(from_us), short(to_us));
    let to = match (from.split_once(' '), to.split_once(' ')) {
        (Some((day, _)), Some((same, end))) if day == same => end,
        _ => &to,
    };
    if begins == ends { format!("{from} – {to} {ends}") } else { format!("{from} {begins} – {to} {ends}") }
}

/// Day, hours and minutes of an instant, in the page's zone.
fn short(at_us: i64) -> String {
    let text = zone::local(at_us.div_euclid(60_000_000) * 60_000_000);
    text.strip_suffix(":00").unwrap_or(&text).replace('T', " ")
}

/// One filter. A value that is chosen stays in the list even if no row has it.
fn select(dimension: Dimension, chosen: Option<&str>, choices: &Asked) -> AnyView {
    let name = dimension.name();
    let mut values: Vec<String> = match &choices.outcome {
        Ok(answer) => answer.rows().filter_map(|row| row.text(name)).map(str::to_owned).collect(),
        Err(_) => Vec::new(),
    };
    values.extend(chosen.map(str::to_owned));
    values.sort_unstable();
    values.dedup();
    let options: Vec<_> = values
        .into_iter()
        .map(|value| {
            let selected = chosen == Some(value.as_str());
            let name = value.clone();
            view! { <option value=value selected=selected>{name}</option> }
        })
        .collect();
    view! {
        <label class:chosen=chosen.is_some()>
            <span>{name}</span>
            <select name=name>
                <option value="">"all"</option>
                {options}
            </select>
        </label>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_written_once() {
        const NOON: i64 = 1_795_953_600_000_000;
        assert_eq!(between(NOON, NOON + 1_800_000_000), "2026-11-29 12:00 – 12:30 UTC");
        assert_eq!(between(NOON, NOON + 86_400_000_000), "2026-11-29 12:00 – 2026-11-30 12:00 UTC");
    }

    /// Clocks in Ireland go back at 01:00 UTC on 25 October 2026: the hour before and the hour after have one name but for the zone's.
    #[test]
    fn a_stretch_over_a_change_of_the_clock_names_both_times() {
        const BACK: i64 = 1_792_890_000_000_000;
        const HOUR: i64 = 3_600_000_000;
        crate::panel::picture::in_zone(zone::Local::of(&Scope::parse("tz=Europe/Dublin")), || {
            assert_eq!(between(BACK - HOUR, BACK), "2026-10-25 01:00 IST – 01:00 GMT");
            assert_eq!(between(BACK, BACK + HOUR), "2026-10-25 01:00 – 02:00 GMT");
        });
    }
}
