//! No bare number: what a view shows in dollars, joules or grams has what makes it mean something within reach.

use telemetry::contract::AnswerColumn;

use super::world::World;
use crate::views::{self, VIEWS};

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

/// What of the columns lacks something that it must have beside it, in the same answer.
fn faults(view: &str, columns: &[AnswerColumn]) -> (usize, Vec<String>) {
    let (mut numbers, mut faults) = (0, Vec::new());
    for column in columns {
        for (what, is_told) in needed(column.unit.as_deref().unwrap_or_default()) {
            numbers += 1;
            if !columns.iter().any(|column| is_told(&column.name)) {
                faults.push(format!("{view}.{} has no {what}", column.name));
            }
        }
    }
    (numbers, faults)
}

/// Each view's own columns, as a query gets them: what lies in a view below it is in nobody's answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_and_energy_have_basis_method_and_as_of_beside_them() {
    let world = World::new().await;
    let (mut numbers, mut all) = (0, Vec::new());
    for view in VIEWS {
        let columns = world.ask(&format!("SELECT * FROM {} LIMIT 0", view.name)).await.columns;
        let (more, found) = faults(view.name, &columns);
        numbers += more;
        all.extend(found);
        if view.name == "allocated_cost" {
            // a label that is taken away is missed, though views below have one of the same name
            let without: Vec<_> = columns.into_iter().filter(|column| column.name != "basis").collect();
            assert_eq!(faults(view.name, &without).1.len(), 2, "two amounts without a basis");
        }
    }
    assert!(numbers > 100, "{numbers}");
    assert_eq!(all, Vec::<String>::new());
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
