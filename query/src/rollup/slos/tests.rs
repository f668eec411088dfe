use super::{changes, row};
use crate::rollup::objective::{Objective, Slo};

fn slo(name: &str, threshold: f64) -> Slo {
    Slo {
        name: name.to_owned(),
        indicator: "ttft_s".to_owned(),
        threshold: Some(threshold),
        objective: 0.99,
        window_days: 30,
        measured_at: "server".to_owned(),
        region: Some("eu-west-1".to_owned()),
        model: None,
        tenant: None,
    }
}

fn open(slo: Slo, from_us: i64) -> Objective {
    Objective { slo, from_us, to_us: None }
}

#[test]
fn only_what_changed_is_dated_anew() {
    let known = [open(slo("a", 1.0), 10), open(slo("b", 1.0), 10), open(slo("c", 1.0), 10)];
    let found = changes(&known, &[slo("a", 1.0), slo("b", 2.0)], 50);
    let ended = Objective { to_us: Some(50), ..open(slo("c", 1.0), 10) };
    assert_eq!(found, [ended, open(slo("b", 2.0), 50)]);
    assert_eq!(changes(&known, &[slo("a", 1.0), slo("b", 1.0), slo("c", 1.0)], 50), []);
}

#[test]
fn an_objective_goes_through_its_row_and_back() {
    let objective = Objective { to_us: Some(99), ..open(slo("a", 1.5), 7) };
    let batch = row(&objective).expect("a row");
    let names = [
        "name",
        "indicator",
        "measured_at",
        "threshold",
        "objective",
        "window",
        "region",
        "model",
        "tenant",
        "effective_from",
        "effective_to",
    ];
    let places: Vec<_> = names.iter().map(|name| batch.schema().index_of(name).expect("a column")).collect();
    let asked = batch.project(&places).expect("columns");
    assert_eq!(super::objectives(&[asked]).expect("readable"), [objective]);
}
