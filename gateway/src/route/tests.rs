use super::*;

/// A repeatable source of numbers in [0, 1).
fn numbers() -> impl FnMut() -> f64 {
    let mut state = 1_u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn node(region: &str, weight: f64, outstanding: usize) -> Candidate<'_> {
    Candidate { region, weight, outstanding }
}

/// How often each candidate is chosen in `draws` independent choices.
fn counts(candidates: &[Candidate<'_>], policy: Policy, regions: &[(&str, f64)], draws: u64) -> Vec<u64> {
    let regions = regions.iter().map(|(region, weight)| ((*region).to_owned(), *weight)).collect();
    let mut random = numbers();
    let mut counts = vec![0; candidates.len()];
    for turn in 0..draws {
        let rules = Rules { policy, regions: &regions, turn };
        counts[choose(candidates, rules, &mut random).unwrap()] += 1;
    }
    counts
}

fn near(counts: &[u64], expected: &[u64]) {
    for (count, expected) in counts.iter().zip(expected) {
        assert!(count.abs_diff(*expected) <= expected / 10, "{counts:?}, expected about {expected}");
    }
}

/// The least loaded node gets the call, always.
#[test]
fn least_outstanding_wins() {
    let nodes = [node("a", 1.0, 3), node("a", 1.0, 1), node("a", 1.0, 2)];
    assert_eq!(counts(&nodes, Policy::LeastOutstanding, &[], 100), [0, 100, 0]);
}

/// Ties are drawn, so that no node is favoured for standing first.
#[test]
fn ties_are_random() {
    let nodes = [node("a", 1.0, 2), node("a", 1.0, 2), node("a", 1.0, 9), node("a", 1.0, 2)];
    let counts = counts(&nodes, Policy::LeastOutstanding, &[], 9_000);
    near(&counts, &[3_000, 3_000, 0, 3_000]);
}

/// A node of twice the weight carries twice the calls before it counts as loaded the same, and wins two of three ties.
#[test]
fn weight_is_capacity() {
    let nodes = [node("a", 2.0, 3), node("a", 1.0, 2)];
    assert_eq!(counts(&nodes, Policy::LeastOutstanding, &[], 50), [50, 0]);
    let tied = [node("a", 2.0, 2), node("a", 1.0, 1)];
    near(&counts(&tied, Policy::LeastOutstanding, &[], 9_000), &[6_000, 3_000]);
}

/// Regions get their share whatever the load; a region of weight 0 gets nothing; one not named weighs 1.
#[test]
fn regions_get_their_share() {
    let nodes = [node("east", 1.0, 50), node("west", 1.0, 0), node("north", 1.0, 0), node("south", 1.0, 0)];
    let weights = [("east", 3.0), ("west", 1.0), ("north", 0.0)];
    near(&counts(&nodes, Policy::LeastOutstanding, &weights, 10_000), &[6_000, 2_000, 0, 2_000]);
}

/// When only drained regions are left, there is no node to choose.
#[test]
fn drained_regions_are_never_chosen() {
    let regions = BTreeMap::from([("east".to_owned(), 0.0)]);
    let rules = Rules { policy: Policy::LeastOutstanding, regions: &regions, turn: 0 };
    assert_eq!(choose(&[node("east", 1.0, 0)], rules, &mut numbers()), None);
    assert_eq!(choose(&[], rules, &mut numbers()), None);
}

/// Turns go round; random follows weights; two choices avoid the most loaded node.
#[test]
fn other_policies() {
    let nodes = [node("a", 1.0, 9), node("a", 1.0, 5), node("a", 2.0, 0)];
    assert_eq!(counts(&nodes, Policy::RoundRobin, &[], 30), [10, 10, 10]);
    near(&counts(&nodes, Policy::Random, &[], 8_000), &[2_000, 2_000, 4_000]);
    assert_eq!(counts(&nodes, Policy::TwoChoices, &[], 1_000)[0], 0);
    for policy in [Policy::LeastOutstanding, Policy::RoundRobin, Policy::Random, Policy::TwoChoices] {
        let regions = BTreeMap::new();
        let rules = Rules { policy, regions: &regions, turn: 7 };
        assert_eq!(choose(&[], rules, &mut numbers()), None);
        assert_eq!(choose(&nodes[..1], rules, &mut numbers()), Some(0));
    }
}
