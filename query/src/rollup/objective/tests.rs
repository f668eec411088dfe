use super::{Objective, Slo, columns, dated, validate};

fn slo(name: &str) -> Slo {
    Slo {
        name: name.to_owned(),
        indicator: "ttft_s".to_owned(),
        threshold: Some(1.0),
        objective: 0.99,
        window_days: 30,
        measured_at: "server".to_owned(),
        region: None,
        model: None,
        tenant: None,
    }
}

fn row(name: &str, from_us: i64, to_us: Option<i64>) -> Objective {
    Objective { slo: slo(name), from_us, to_us }
}

#[test]
fn an_objective_ends_where_the_next_of_its_name_begins() {
    let rows = vec![row("b", 5, None), row("a", 20, None), row("a", 10, None), row("b", 5, Some(9))];
    assert_eq!(dated(rows), [row("a", 10, Some(20)), row("a", 20, None), row("b", 5, Some(9))]);
}

#[test]
fn every_fault_is_named() {
    let faulty = Slo {
        name: "A b".to_owned(),
        indicator: "speed".to_owned(),
        threshold: Some(-1.0),
        objective: 1.0,
        window_days: 0,
        measured_at: "moon".to_owned(),
        ..slo("x")
    };
    let mut faults = Vec::new();
    validate(&[faulty, slo("x"), slo("x")], &mut faults);
    for part in ["a name is", "`indicator`", "`threshold`", "`objective`", "`window_days`", "`measured_at`", "twice"] {
        assert!(faults.iter().any(|fault| fault.contains(part)), "{part} in {faults:?}");
    }
    faults.clear();
    let open = Slo { indicator: "availability".to_owned(), threshold: None, ..slo("up") };
    validate(&[slo("x"), open], &mut faults);
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn values_are_quoted() {
    let objective =
        Objective { slo: Slo { region: Some("eu'; DROP".to_owned()), ..slo("x") }, from_us: 1, to_us: None };
    assert!(columns(&[objective]).contains("region = 'eu''; DROP'"));
}
