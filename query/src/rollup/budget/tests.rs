use arrow::array::RecordBatch;

use super::{Budget, Dated, changes, read, row, validate};

fn budget(name: &str, usd: &str) -> Budget {
    Budget {
        name: name.to_owned(),
        key: "tenant".to_owned(),
        value: "acme".to_owned(),
        usd: usd.to_owned(),
        period: "month".to_owned(),
        enforcement: "soft".to_owned(),
    }
}

fn open(budget: Budget, from_us: i64) -> Dated {
    Dated { budget, from_us, to_us: None }
}

#[test]
fn only_what_changed_is_dated_anew() {
    let known = [open(budget("a", "100.000000000000"), 10), open(budget("b", "1"), 10), open(budget("c", "1"), 10)];
    let found = changes(&known, &[budget("a", "100"), budget("b", "2")], 50);
    let ended = Dated { to_us: Some(50), ..open(budget("c", "1"), 10) };
    assert_eq!(found, [ended, open(budget("b", "2"), 50)]);
    let back = Dated { to_us: Some(20), ..open(budget("a", "100"), 10) };
    assert_eq!(
        changes(&[back], &[budget("a", "100")], 50),
        [open(budget("a", "100"), 50)],
        "one that ended may come back"
    );
}

#[test]
fn a_budget_goes_through_its_row_and_back() {
    let dated = Dated { to_us: Some(99), ..open(budget("a", "25000.500000000000"), 7) };
    let batch = row(&dated).expect("a row");
    let names = [
        "name",
        "allocation_key",
        "allocation_value",
        "amount",
        "period",
        "enforcement",
        "effective_from",
        "effective_to",
    ];
    let places: Vec<_> = names.iter().map(|name| batch.schema().index_of(name).expect("a column")).collect();
    let asked: RecordBatch = batch.project(&places).expect("columns");
    assert_eq!(read(&[asked]).expect("readable"), [dated]);
}

#[test]
fn what_is_wrong_with_a_budget_is_said() {
    let faults = |change: fn(&mut Budget)| {
        let mut one = budget("a", "1");
        change(&mut one);
        let mut faults = Vec::new();
        validate(&[one], &["team".to_owned()], &mut faults);
        faults.join("; ")
    };
    assert_eq!(faults(|_| ()), "");
    assert_eq!(faults(|budget| budget.period = "30d".to_owned()), "");
    for (change, fault) in [
        ((|budget| budget.name = "A b".to_owned()) as fn(&mut Budget), "a name is"),
        (|budget| budget.key = "host".to_owned(), "`key` is one of"),
        (|budget| budget.value.clear(), "`value` is empty"),
        (|budget| budget.usd = "0".to_owned(), "`usd` is an amount above 0"),
        (|budget| budget.usd = "1e3".to_owned(), "`usd` is an amount above 0"),
        (|budget| budget.period = "year".to_owned(), "`period` is one of"),
        (|budget| budget.period = "0d".to_owned(), "`period` is one of"),
        (|budget| budget.enforcement = "firm".to_owned(), "soft or hard"),
    ] {
        let found = faults(change);
        assert!(found.contains(fault), "{found:?} lacks {fault}");
    }
    let mut faults = Vec::new();
    validate(&[budget("a", "1"), budget("a", "2")], &[], &mut faults);
    assert_eq!(faults, ["budget `a` is there twice"]);
}
