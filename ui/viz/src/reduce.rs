//! Fewer points, same picture: every extreme survives.

/// One sample: place along the axis, and the value if there is one.
pub type Sample = (f64, Option<f64>);

/// Keeps at most two samples (the smallest and the largest, in their order) in each of `columns`
/// equal parts of `domain`, and one gap where a part holds a gap.
///
/// A series that is already sparse enough is returned as it is.
pub fn extremes(samples: &[Sample], domain: (f64, f64), columns: usize) -> Vec<Sample> {
    let width = domain.1 - domain.0;
    if columns == 0 || samples.len() <= columns * 2 || width <= 0.0 {
        return samples.to_vec();
    }
    let column_of = |x: f64| ((x - domain.0) / width * columns as f64).clamp(0.0, columns as f64 - 1.0) as usize;
    let mut kept = Vec::with_capacity(columns * 2);
    let mut rest = samples;
    while let Some((first, _)) = rest.split_first() {
        let column = column_of(first.0);
        let end = rest.iter().position(|(x, _)| column_of(*x) != column).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end.max(1));
        keep_part(part, &mut kept);
        rest = after;
    }
    kept
}

fn keep_part(part: &[Sample], kept: &mut Vec<Sample>) {
    let mut low: Option<(usize, f64)> = None;
    let mut high: Option<(usize, f64)> = None;
    let mut gap: Option<usize> = None;
    for (index, (_, value)) in part.iter().enumerate() {
        match value {
            None => gap = Some(index),
            Some(value) => {
                if low.is_none_or(|(_, least)| *value < least) {
                    low = Some((index, *value));
                }
                if high.is_none_or(|(_, most)| *value > most) {
                    high = Some((index, *value));
                }
            }
        }
    }
    let mut indices: Vec<usize> =
        [low.map(|(index, _)| index), high.map(|(index, _)| index), gap].into_iter().flatten().collect();
    indices.sort_unstable();
    indices.dedup();
    kept.extend(indices.into_iter().filter_map(|index| part.get(index).copied()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(count: usize) -> Vec<Sample> {
        (0..count).map(|index| (index as f64, Some((index as f64 / 50.0).sin()))).collect()
    }

    #[test]
    fn a_spike_of_one_sample_survives() {
        let mut samples = wave(100_000);
        samples[54_321].1 = Some(99.0);
        samples[77_777].1 = Some(-99.0);
        let kept = extremes(&samples, (0.0, 100_000.0), 500);
        assert!(kept.len() <= 1_500, "{}", kept.len());
        assert!(kept.contains(&(54_321.0, Some(99.0))));
        assert!(kept.contains(&(77_777.0, Some(-99.0))));
        assert!(kept.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn a_gap_survives() {
        let mut samples = wave(10_000);
        samples[5_000].1 = None;
        let kept = extremes(&samples, (0.0, 10_000.0), 100);
        assert!(kept.iter().any(|(_, value)| value.is_none()));
    }

    #[test]
    fn few_samples_are_left_alone() {
        let samples = wave(20);
        assert_eq!(extremes(&samples, (0.0, 20.0), 100), samples);
        assert!(extremes(&[], (0.0, 1.0), 10).is_empty());
    }
}
