//! No bare number: what a view shows in money, joules, grams or seconds has what makes it mean something within reach.

use telemetry::contract::AnswerColumn;

use super::world::World;
use crate::views::{self, VIEWS};

/// Something that a number must have beside it, and whether a column is it.
type Label = (&'static str, fn(&str) -> bool);

const BOUNDARY: Label = ("boundary", |name| name == "boundary");
const ENERGY_METHOD: Label = ("method", |name| name == "method" || name == "energy_method");
const MONEY: &[Label] = &[
    ("basis", |name| name == "basis" || name == "price_basis"),
    // a price times the time that is charged is a method
    ("method", |name| name == "method" || name == "charged_us"),
    ("as-of", |name| name.ends_with("price_as_of")),
];
const CHARGED: &[Label] = &[("currency", |name| name == "currency"), ("as-of", |name| name == "imported_at")];
const ENERGY: &[Label] = &[BOUNDARY, ENERGY_METHOD];
const GRAMS: &[Label] = &[
    BOUNDARY,
    ENERGY_METHOD,
    ("kind of grid factor", |name| name == "grid_method"),
    ("as-of", |name| name == "grid_as_of"),
];
const LATENCY: &[Label] = &[("place of measurement", |name| name == "measured_at")];
/// One text that has basis, method and as-of of all figures of its row, line by line.
const TOLD: &str = "assumes";

/// Counts, times of devices and shares of these say what they are by their name and comment.
const PLAIN: [&str; 15] = [
    "",
    "1",
    "{request}",
    "us",
    "ms",
    "{chip}",
    "{chip/28}",
    "{host}",
    "{token}",
    "{device}",
    "{charge}",
    "h",
    "min",
    "d",
    "By",
];

/// What a number of that name and unit must have beside it; `None` where nobody has thought of its unit yet.
fn needed(name: &str, unit: &str) -> Option<&'static [Label]> {
    let is_latency =
        ["ttft_", "tpot_", "e2e_", "itl_", "queue_", "prefill_", "decode_"].iter().any(|of| name.starts_with(of));
    Some(match unit {
        _ if unit.starts_with("USD") => MONEY,
        "{currency}" => CHARGED,
        "W" | "J" | "{token}/J" | "J/{token}" => ENERGY,
        "g" | "g/h" | "g/kWh" => GRAMS,
        "s" if is_latency => LATENCY,
        "s" => &[],
        _ if PLAIN.contains(&unit) => &[],
        _ => return None,
    })
}

/// How many labels the columns must have beside them in the same answer, and which they lack. `doc` is what is said of all.
fn faults(view: &str, doc: &str, columns: &[AnswerColumn]) -> (usize, Vec<String>) {
    let (mut numbers, mut faults) = (0, Vec::new());
    for column in columns {
        let unit = column.unit.as_deref().unwrap_or_default();
        let Some(labels) = needed(&column.name, unit) else {
            faults.push(format!("{view}.{} is in {unit}: say here what that must have beside it", column.name));
            continue;
        };
        for (what, is_told) in labels {
            numbers += 1;
            let is_beside = columns.iter().any(|column| is_told(&column.name) || column.name == TOLD);
            // a view of one place alone says so once
            let is_said = *what == LATENCY[0].0 && doc.contains("measured at the server");
            if !is_beside && !is_said {
                faults.push(format!("{view}.{} has no {what}", column.name));
            }
        }
    }
    (numbers, faults)
}

/// Each view's own columns, as a query gets them: what lies in a view below it is in nobody's answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_have_what_they_mean_beside_them() {
    let world = World::new().await;
    let (mut numbers, mut all) = (0, Vec::new());
    for view in VIEWS {
        let columns = world.ask(&format!("SELECT * FROM {} LIMIT 0", view.name)).await.columns;
        let (more, found) = faults(view.name, view.doc, &columns);
        numbers += more;
        all.extend(found);
        // a label that is taken away is missed, whatever views below have one of the same name
        for (name, label, missed) in [
            ("allocated_cost", "basis", 5),
            ("calls", "measured_at", 7),
            ("carbon", "grid_as_of", 2),
            ("cost_per_key", "method", 5),
        ] {
            if view.name == name {
                let without: Vec<_> = columns.iter().filter(|column| column.name != label).cloned().collect();
                assert_eq!(faults(name, view.doc, &without).1.len(), missed, "{name} without {label}");
            }
        }
    }
    let reckoned =
        world.ask("SELECT * FROM what_if('inf2.48xlarge', 'us-east-1', 'on_demand', 8) LIMIT 0").await.columns;
    let (more, found) = faults("what_if", "", &reckoned);
    let without: Vec<_> = reckoned.into_iter().filter(|column| column.name != TOLD).collect();
    assert!(more > 20 && faults("what_if", "", &without).1.len() > 15, "{more} labels of what_if");
    all.extend(found);
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
    for name in ["allocated_cost", "cost_per_key", "unit_cost_trend"] {
        assert!(views::by_name(name).expect("a view").column("idle_policy").is_some(), "{name}");
    }
}
