//! Properties, over values from seeds that a failure names.

use super::{Buckets, Exponential, Histogram, Interval, Malformed, Parts, SCALE, SCALE_MIN, grid::Grid};

/// SplitMix64: the same values for a seed on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Above 0, at most 1.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

type Shape = fn(&mut Dice) -> f64;

const SHAPES: [(&str, Shape); 5] = [
    ("uniform", |dice| 0.010 + 60.0 * dice.unit()),
    ("log-normal", |dice| (0.9 * dice.normal() - 1.4).exp()),
    ("bimodal", |dice| if dice.unit() < 0.002 { 5.0 + 55.0 * dice.unit() } else { (0.5 * dice.normal() - 1.4).exp() }),
    ("heavy-tailed", |dice| 0.02 * dice.unit().powf(-1.0 / 0.8)),
    ("mostly zero", |dice| if dice.unit() < 0.7 { 0.0 } else { dice.unit() }),
];

fn of(values: &[f64]) -> Histogram {
    at(SCALE, values)
}

fn at(scale: i32, values: &[f64]) -> Histogram {
    let mut histogram = Histogram::new(scale);
    values.iter().for_each(|value| assert!(histogram.observe(*value)));
    histogram
}

fn sample(shape: Shape, seed: u64, count: usize) -> Vec<f64> {
    let mut dice = Dice(seed);
    (0..count).map(|_| shape(&mut dice)).collect()
}

/// Everything but the sum, which rounds.
fn assert_same(one: &Histogram, other: &Histogram, what: &str) {
    let counted = |h: &Histogram| (h.scale(), h.zero(), h.buckets().to_vec(), h.count(), h.min(), h.max());
    assert_eq!(counted(one), counted(other), "{what}");
    let (one, other) = (one.sum().expect("known"), other.sum().expect("known"));
    assert!((one - other).abs() <= 1e-9 * one.abs().max(1.0), "{what}: {one} and {other}");
}

/// A quantile is within the stated error of the observation of its rank, whatever the distribution.
#[test]
fn quantiles_stay_within_the_stated_error() {
    for (name, shape) in SHAPES {
        for seed in 0..40 {
            let mut values = sample(shape, seed, 1 + (seed as usize * 761) % 20_000);
            let histograms: Vec<_> = [5, 3, 0].map(|scale| at(scale, &values)).into();
            values.sort_by(f64::total_cmp);
            for q in [0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0] {
                let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
                let exact = values[rank - 1];
                for histogram in &histograms {
                    let found = histogram.quantile(q).expect("observed");
                    let bound = histogram.error() * exact * (1.0 + 1e-12);
                    assert!(
                        (found - exact).abs() <= bound,
                        "{name}, seed {seed}, scale {}, q {q}: {found} for {exact}",
                        histogram.scale()
                    );
                }
            }
        }
    }
}

#[test]
fn the_error_is_what_documents_say() {
    for (scale, error) in [(5, 0.010_829), (4, 0.021_656), (3, 0.043_290), (0, 1.0 / 3.0), (SCALE_MIN, 1.0)] {
        let found = Histogram::new(scale).error();
        assert!((found - error).abs() < 1e-5, "scale {scale}: {found}");
    }
}

/// The true share lies where the rank says, and the rank of a quantile is the quantile again.
#[test]
fn ranks_hold_the_true_share() {
    for (name, shape) in SHAPES {
        for seed in 0..20 {
            let values = sample(shape, seed, 3_000);
            let histogram = of(&values);
            for probe in sample(shape, seed + 1_000, 50).into_iter().chain(values[..50].iter().copied()) {
                let exact = values.iter().filter(|value| **value <= probe).count() as f64 / values.len() as f64;
                let found = histogram.rank(probe).expect("observed");
                let Interval { lo, hi } = found.within;
                assert!(lo <= exact && exact <= hi, "{name}, seed {seed}, {probe}: {exact} not in [{lo}, {hi}]");
                let share = found.share.expect("told apart");
                assert!(lo <= share && share <= hi, "{name}, seed {seed}, {probe}: {share} not in [{lo}, {hi}]");
            }
        }
    }
}

#[test]
fn at_a_bound_of_the_grid_the_share_is_exact() {
    let histogram = of(&[0.5, 1.0, 1.01, 2.0, 3.0]);
    assert_eq!(histogram.rank(1.0).map(|rank| rank.within), Some(Interval { lo: 0.4, hi: 0.4 }));
    assert_eq!(histogram.rank(0.4).map(|rank| rank.within), Some(Interval { lo: 0.0, hi: 0.0 }));
    assert_eq!(histogram.rank(3.0).and_then(|rank| rank.share), Some(1.0));
    assert_eq!(histogram.rank(f64::INFINITY).and_then(|rank| rank.share), Some(1.0));
    assert_eq!(histogram.rank(f64::NEG_INFINITY).and_then(|rank| rank.share), Some(0.0));
    assert_eq!(histogram.rank(f64::NAN), None);
    assert_eq!(Histogram::default().rank(1.0), None);
}

/// Merging parts in any order and grouping gives what one pass over all values gives.
#[test]
fn merging_is_associative_and_commutative_and_equals_recomputing() {
    for (name, shape) in SHAPES {
        for seed in 0..30 {
            let values = sample(shape, seed, 2_000);
            let mut dice = Dice(seed);
            let (first, second) = ((dice.next() % 2_000) as usize, (dice.next() % 2_000) as usize);
            let (first, second) = (first.min(second), first.max(second));
            let scales = [5, 5 - (seed % 3) as i32, 5 - (seed % 7) as i32];
            let parts = [&values[..first], &values[first..second], &values[second..]];
            let [a, b, c] = [0, 1, 2].map(|part| at(scales[part], parts[part]));
            let merged = |mut one: Histogram, other: &Histogram| {
                one.merge(other);
                one
            };
            let what = format!("{name}, seed {seed}");
            let left = merged(merged(a.clone(), &b), &c);
            assert_same(&left, &merged(a.clone(), &merged(b.clone(), &c)), &what);
            assert_same(&left, &merged(merged(c, &a), &b), &what);
            assert_same(&left, &at(left.scale(), &values), &what);
        }
    }
}

#[test]
fn a_coarser_histogram_is_the_one_that_was_observed_coarser() {
    for (name, shape) in SHAPES {
        let values = sample(shape, 7, 5_000);
        for scale in SCALE_MIN..SCALE {
            let mut histogram = of(&values);
            histogram.downscale(scale);
            assert_same(&histogram, &at(scale, &values), name);
            histogram.downscale(SCALE);
            assert_eq!(histogram.scale(), scale, "what was merged cannot be told apart again");
        }
    }
}

/// A value lies above the lower bound of its bucket and not above the next, bounds themselves included.
#[test]
fn every_value_lies_in_its_bucket() {
    let grid = Grid::get();
    let check = |value: f64| {
        for scale in 0..=SCALE {
            let index = grid.index(value) >> (SCALE - scale);
            let (lower, upper) = (grid.lower(index, scale), grid.lower(index + 1, scale));
            assert!(lower < value && value <= upper, "{value:e} at scale {scale}: ({lower:e}, {upper:e}]");
        }
    };
    let mut dice = Dice(1);
    for _ in 0..100_000 {
        let value = f64::from_bits(dice.next()).abs();
        if value.is_normal() {
            check(value);
        }
    }
    for index in -3_200..3_200 {
        let bound = grid.lower(index, SCALE);
        assert_eq!(grid.index(bound), index - 1, "a bound belongs to the bucket that it closes");
        check(bound);
        check(bound.next_up());
        check(bound.next_down());
    }
}

#[test]
fn values_that_are_none_are_not_counted_and_extremes_are() {
    let mut histogram = Histogram::default();
    for nothing in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(!histogram.observe(nothing));
    }
    assert_eq!((histogram.count(), histogram.quantile(0.5), histogram.min()), (0, None, None));
    for value in [f64::MAX, f64::MIN_POSITIVE, f64::from_bits(1), 0.0] {
        assert!(histogram.observe(value));
    }
    assert_eq!((histogram.count(), histogram.zero()), (4, 1));
    assert_eq!((histogram.quantile(0.0), histogram.quantile(1.0)), (Some(0.0), Some(f64::MAX)));
    assert!(histogram.quantile(0.75).is_some_and(|value| value < 1e-307));
    for q in [-0.1, 1.1, f64::NAN] {
        assert_eq!(histogram.quantile(q), None);
    }
}

#[test]
fn negative_values_are_counted_and_unknown_where_they_are_not_told_apart() {
    let histogram = of(&[-3.0, -2.0, 0.0, 1.0, 4.0]);
    assert_eq!((histogram.count(), histogram.zero(), histogram.sum()), (5, 3, Some(0.0)));
    assert_eq!((histogram.quantile(0.0), histogram.quantile(0.4), histogram.quantile(0.6)), (Some(-3.0), None, None));
    assert!(histogram.quantile(0.8).is_some_and(|value| (value - 1.0).abs() < 0.011));
    let rank = histogram.rank(-1.0).expect("observed");
    assert_eq!((rank.share, rank.within), (None, Interval { lo: 0.0, hi: 0.6 }));
    assert_eq!(histogram.rank(0.0).and_then(|rank| rank.share), Some(0.6));
}

#[test]
fn a_rank_that_is_whole_is_not_rounded_up() {
    let values: Vec<f64> = (1..=100).map(f64::from).collect();
    let found = of(&values).quantile(0.55).expect("observed");
    assert!((found - 55.0).abs() <= 0.0109 * 55.0, "{found}");
    assert_eq!(super::rank(0.55, 100), Some(55));
    assert_eq!(super::rank(0.99, 1_000), Some(990));
    assert_eq!(super::rank(0.0, 3), Some(1));
}

#[test]
fn counts_that_would_not_fit_a_column_stay_at_the_largest_that_does() {
    let mut histogram = Histogram::default();
    histogram.observe_n(1.0, u64::MAX);
    histogram.observe_n(2.0, 5);
    let again = histogram.clone();
    histogram.merge(&again);
    assert_eq!(histogram.count(), i64::MAX.unsigned_abs());
    assert!(histogram.quantile(0.5).is_some());
}

/// A roll-up's columns hold all of it.
#[test]
fn columns_give_the_histogram_back() {
    for (_, shape) in SHAPES {
        let histogram = of(&sample(shape, 3, 1_000));
        let indexes: Vec<i64> = histogram.buckets().iter().map(|bucket| bucket.index.into()).collect();
        let counts: Vec<i64> = histogram.buckets().iter().map(|bucket| bucket.count as i64).collect();
        let (sum, min, max) = (histogram.sum(), histogram.min(), histogram.max());
        let parts = Parts {
            scale: histogram.scale().into(),
            zero: histogram.zero() as i64,
            indexes: &indexes,
            counts: &counts,
            count: histogram.count() as i64,
            sum,
            min,
            max,
        };
        assert_eq!(Histogram::from_parts(parts).as_ref(), Ok(&histogram));
    }
}

#[test]
fn columns_that_disagree_are_refused() {
    let parts = |scale, zero, indexes, counts, count| Parts {
        scale,
        zero,
        indexes,
        counts,
        count,
        sum: None,
        min: None,
        max: None,
    };
    let refused = |parts| Histogram::from_parts(parts).expect_err("refused");
    assert_eq!(refused(parts(21, 0, &[], &[], 0)), Malformed::Scale(21));
    assert_eq!(refused(parts(-11, 0, &[], &[], 0)), Malformed::Scale(-11));
    assert_eq!(refused(parts(5, 0, &[1], &[], 0)), Malformed::Lengths(0, 1));
    assert_eq!(refused(parts(5, 0, &[1, 2], &[1, -1], 0)), Malformed::Negative(-1));
    assert_eq!(refused(parts(5, 1, &[1], &[1], 3)), Malformed::Total(2, 3));
    assert_eq!(refused(parts(5, 0, &[2, 2], &[1, 1], 2)), Malformed::Index(2));
    assert_eq!(refused(parts(5, 0, &[40_000], &[1], 1)), Malformed::Index(40_000));
    assert_eq!(refused(parts(5, 0, &[i64::MIN], &[1], 1)), Malformed::Index(i64::MIN));
    let none = Histogram::from_parts(parts(5, 0, &[], &[], 0)).expect("nothing observed is a histogram");
    assert_eq!((none.count(), none.sum(), none.quantile(0.5)), (0, Some(0.0), None));
}

fn sent(scale: i64, positive_offset: i64, positive_counts: &[i64]) -> Exponential<'_> {
    Exponential {
        scale,
        zero_count: 0,
        zero_threshold: 0.0,
        positive_offset,
        positive_counts,
        negative_counts: &[],
        sum: None,
        min: None,
        max: None,
    }
}

/// What an SDK observed at its scale merges with ours, and is right to within its own error.
#[test]
fn histograms_of_sdks_join_in() {
    for (scale, shift) in [(3_i64, 2), (8, 0), (20, 0), (-2, 7)] {
        let values = sample(SHAPES[1].1, 11, 400);
        let index = |value: f64| (value.log2() * (scale as f64).exp2()).ceil() as i64 - 1;
        let offset = values.iter().map(|value| index(*value)).min().expect("some");
        let last = values.iter().map(|value| index(*value)).max().expect("some");
        let mut counts = vec![0; (last - offset + 1) as usize];
        values.iter().for_each(|value| counts[(index(*value) - offset) as usize] += 1);
        let theirs = Histogram::from_otel(&sent(scale, offset, &counts)).expect("well formed");
        let mut ours = of(&values);
        ours.downscale(SCALE - shift);
        assert_eq!((theirs.scale(), theirs.buckets()), (ours.scale(), ours.buckets()), "scale {scale}");
        ours.merge(&theirs);
        assert_eq!((ours.count(), ours.sum(), ours.min()), (800, None, None), "what one does not know, both do not");
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        let (found, exact) = (ours.quantile(0.9).expect("observed"), sorted[359]);
        assert!((found - exact).abs() <= ours.error() * exact * (1.0 + 1e-12), "scale {scale}: {found} for {exact}");
    }
}

#[test]
fn zero_buckets_and_negative_ones_count_and_hostile_parts_are_refused() {
    let zeros = Histogram::from_otel(&Exponential { zero_count: 9, ..sent(3, 0, &[1]) }).expect("well formed");
    assert_eq!((zeros.count(), zeros.min(), zeros.quantile(0.5)), (10, Some(0.0), Some(0.0)));
    let negative = Exponential { negative_counts: &[2, 7], ..sent(3, 0, &[1]) };
    let negative = Histogram::from_otel(&negative).expect("well formed");
    assert_eq!((negative.count(), negative.min(), negative.quantile(0.5)), (10, None, None));
    let refused = |sent: Exponential<'_>| Histogram::from_otel(&sent).expect_err("refused");
    assert_eq!(
        refused(Exponential { zero_count: 1, zero_threshold: 0.5, ..sent(3, 0, &[]) }),
        Malformed::Threshold(0.5)
    );
    assert!(Histogram::from_otel(&Exponential { zero_threshold: 0.5, ..sent(3, 0, &[1]) }).is_ok());
    let nan = Exponential { zero_count: 1, zero_threshold: f64::NAN, ..sent(3, 0, &[]) };
    assert!(matches!(refused(nan), Malformed::Threshold(_)));
    assert_eq!(refused(sent(3, i64::MAX, &[0, 0, 1])), Malformed::Index(i64::MAX));
    assert_eq!(refused(sent(99, 0, &[])), Malformed::Scale(99));
    assert_eq!(refused(sent(3, 0, &[-4])), Malformed::Negative(-4));
    let empty = Histogram::from_otel(&Exponential { min: Some(1.0), ..sent(3, 0, &[0, 0]) }).expect("well formed");
    assert_eq!((empty.count(), empty.min()), (0, None));
}

#[test]
fn classic_buckets_say_an_interval() {
    let buckets = Buckets::try_new(&[0.1, 0.5, 1.0], &[10, 80, 9, 1]).expect("well formed");
    assert_eq!(buckets.quantile(0.5), Some(Interval { lo: 0.1, hi: 0.5 }));
    assert_eq!(buckets.quantile(0.1), Some(Interval { lo: f64::NEG_INFINITY, hi: 0.1 }));
    assert_eq!(buckets.quantile(1.0), Some(Interval { lo: 1.0, hi: f64::INFINITY }));
    assert_eq!(buckets.quantile(2.0), None);
    assert_eq!(Buckets::try_new(&[1.0], &[0, 0]).expect("well formed").quantile(0.5), None);
    assert_eq!(Buckets::try_new(&[1.0], &[1]), Err(Malformed::Lengths(1, 2)));
    assert_eq!(Buckets::try_new(&[1.0, 1.0], &[1, 1, 1]), Err(Malformed::Bounds));
    assert_eq!(Buckets::try_new(&[f64::NAN], &[1, 1]), Err(Malformed::Bounds));
    assert_eq!(Buckets::try_new(&[1.0], &[1, -1]), Err(Malformed::Negative(-1)));
}

/// The interval holds the observation, and buckets with other bounds merge to those that both have, in any order.
#[test]
fn classic_buckets_merge_to_what_both_tell_apart() {
    let fill = |bounds: &[f64], values: &[f64]| {
        let mut counts = vec![0; bounds.len() + 1];
        values.iter().for_each(|value| counts[bounds.partition_point(|bound| bound < value)] += 1);
        Buckets::try_new(bounds, &counts).expect("well formed")
    };
    let sets: [&[f64]; 3] = [&[0.05, 0.1, 0.5, 1.0, 5.0], &[0.1, 0.25, 1.0], &[0.01, 0.1, 1.0, 2.0]];
    for seed in 0..30 {
        let values = sample(SHAPES[1].1, seed, 900);
        let parts = [0, 1, 2].map(|part| fill(sets[part], &values[part * 300..(part + 1) * 300]));
        let merged = |order: [usize; 3]| {
            let mut all = parts[order[0]].clone();
            order[1..].iter().for_each(|part| all.merge(&parts[*part]));
            all
        };
        let all = merged([0, 1, 2]);
        assert_eq!(all, merged([2, 0, 1]), "seed {seed}");
        assert_eq!(all, fill(&[0.1, 1.0], &values), "seed {seed}");
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        for (q, at) in [(0.1, 89), (0.5, 449), (0.9, 809), (1.0, 899)] {
            let Interval { lo, hi } = all.quantile(q).expect("observed");
            assert!(lo < sorted[at] && sorted[at] <= hi, "seed {seed}, q {q}");
        }
    }
}
