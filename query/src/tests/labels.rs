//! No bare number: what a view shows in dollars, joules or grams has what makes it mean something within reach.

use crate::views::{self, VIEWS, View};

/// Whether the view, or one that its query names, has a column that is told so.
fn reaches(view: &View, is_told: &dyn Fn(&str) -> bool) -> bool {
    let own = || view.columns.iter().any(|column| is_told(column.name));
    let passed = || {
        let columns = view.passes.iter().flat_map(|table| table.columns());
        columns.filter(|column| names(view).any(|word| word == column.name)).any(|column| is_told(column.name))
    };
    own() || passed() || below(view).iter().any(|view| reaches(view, is_told))
}

fn names(view: &View) -> impl Iterator<Item = &'static str> {
    view.sql.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

/// The views that its query reads.
fn below(view: &View) -> Vec<&'static View> {
    names(view).filter(|word| *word != view.name).filter_map(views::by_name).collect()
}

/// Something that a number must have beside it, and whether a column is it.
type Label = (&'static str, fn(&str) -> bool);

/// What a number of that unit must have beside it.
fn needed(unit: &str) -> &'static [Label] {
    let is_money = unit.starts_with("USD");
    let is_energy = ["W", "J", "{token}/J", "J/{token}", "g", "g/kWh"].contains(&unit);
    match (is_money, is_energy) {
        (true, _) => &[
            ("basis", |name| name == "basis" || name == "price_basis"),
            // a price times the time that is charged is a method
            ("method", |name| name == "method" || name == "charged_us"),
            ("as-of", |name| name.ends_with("price_as_of")),
        ],
        (_, true) => {
            &[("boundary", |name| name == "boundary"), ("method", |name| name == "method" || name == "energy_method")]
        }
        _ => &[],
    }
}

#[test]
fn money_and_energy_have_basis_method_and_as_of_within_reach() {
    let mut faults = Vec::new();
    let mut numbers = 0;
    for view in VIEWS {
        let passed = view
            .passes
            .iter()
            .flat_map(|table| table.columns())
            .filter(|column| names(view).any(|word| word == column.name));
        let passed = passed.map(|column| (column.name, column.unit));
        let columns = view.columns.iter().map(|column| (column.name, column.unit)).chain(passed);
        for (name, unit) in columns {
            for (what, is_told) in needed(unit) {
                numbers += 1;
                if !reaches(view, is_told) {
                    faults.push(format!("{}.{name} in {unit} has no {what}", view.name));
                }
            }
        }
    }
    assert!(numbers > 100, "{numbers}");
    assert_eq!(faults, Vec::<String>::new());
}

/// Grams carry the date and the kind of both factors.
#[test]
fn grams_carry_their_factors() {
    let carbon = views::by_name("carbon").expect("a view");
    for name in ["pue", "pue_as_of", "gco2e_per_kwh", "grid_method", "grid_as_of", "grid_confidence"] {
        assert!(carbon.column(name).is_some(), "{name}");
    }
}

/// A cost that leaves idle out, or shares it, names its policy.
#[test]
fn answers_that_move_idle_name_their_policy() {
    for name in ["allocated_cost", "unit_cost_trend"] {
        assert!(views::by_name(name).expect("a view").column("idle_policy").is_some(), "{name}");
    }
}
