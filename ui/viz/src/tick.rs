//! Where to put grid lines, and what to write beside them.

use crate::zone::Zone;

/// Round numbers from zero up to at least `top`, at most `most` steps of them.
///
/// The last one is the top of the axis: nothing is drawn above it.
pub fn linear(top: f64, most: usize) -> Vec<f64> {
    if !top.is_finite() || top <= 0.0 {
        return vec![0.0, 1.0];
    }
    let steps = most.max(1);
    let raw = top / steps as f64;
    let magnitude = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * magnitude)
        .find(|step| step * steps as f64 >= top * (1.0 - 1e-9))
        .unwrap_or(10.0 * magnitude);
    let count = (top / step - 1e-9).ceil().max(1.0) as usize;
    (0..=count).map(|index| index as f64 * step).collect()
}

/// Powers of ten that enclose `low..=high`; both must be above zero.
pub fn log(low: f64, high: f64) -> Vec<f64> {
    if !(low > 0.0 && high >= low && high.is_finite()) {
        return vec![1.0, 10.0];
    }
    let first = (low.log10() + 1e-9).floor() as i32;
    let last = ((high.log10() - 1e-9).ceil() as i32).max(first + 1);
    (first..=last).map(|power| 10f64.powi(power)).collect()
}

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// Steps between time ticks, in seconds.
const TIME_STEPS: [i64; 23] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 604_800,
    1_209_600, 2_419_200, 4_838_400, 9_676_800,
];

/// Moments between two instants in µs since the epoch that are round on clocks of a zone, at most `most` of them, with their
/// label there. The first tick of a day is the date.
pub fn time((from_us, to_us): (i64, i64), zone: &Zone, most: usize) -> Vec<(i64, String)> {
    let width = to_us.saturating_sub(from_us);
    if width <= 0 || most == 0 {
        return Vec::new();
    }
    let fits = |step: &&i64| width / (**step * SECOND) < most as i64;
    let step = TIME_STEPS.iter().find(fits).unwrap_or(&9_676_800) * SECOND;
    let mut ticks = Vec::with_capacity(most);
    let mut at = from_us;
    while ticks.len() < most {
        at = round(at, step, zone);
        if at > to_us {
            break;
        }
        ticks.push((at, time_label(zone.local_us(at), step)));
        at = at.saturating_add(1);
    }
    ticks
}

/// The first instant from `at_us` on that is a multiple of `step_us` on clocks of the zone.
fn round(mut at_us: i64, step_us: i64, zone: &Zone) -> i64 {
    let is_round = |at_us: i64| zone.local_us(at_us).rem_euclid(step_us) == 0;
    // Clocks are put on or back once in a stretch, or twice; what is left to go is counted anew then.
    for _ in 0..4 {
        let past = zone.local_us(at_us).rem_euclid(step_us);
        if past == 0 {
            break;
        }
        let next = at_us.saturating_add(step_us - past);
        let shift = (zone.local_us(next) - next) - (zone.local_us(at_us) - at_us);
        let moved = next.saturating_sub(shift);
        at_us = if !is_round(next) && moved > at_us && is_round(moved) { moved } else { next };
    }
    at_us
}

/// `local_us` is what clocks show.
fn time_label(local_us: i64, step_us: i64) -> String {
    let within = local_us.rem_euclid(DAY) / SECOND;
    if within == 0 {
        return day_label(local_us);
    }
    let (hour, minute, second) = (within / 3_600, within / 60 % 60, within % 60);
    if step_us < 60 * SECOND { format!("{hour:02}:{minute:02}:{second:02}") } else { format!("{hour:02}:{minute:02}") }
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Day and month in the civil calendar.
fn day_label(local_us: i64) -> String {
    // Days are counted from 0000-03-01, so that the leap day is the last of its year.
    let days = local_us.div_euclid(DAY) + 719_468;
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    format!("{day} {}", MONTHS[month as usize])
}

/// Round offsets in seconds from zero to `width_s`, at most `most` steps.
pub fn offsets(width_s: f64, most: usize) -> Vec<f64> {
    linear(width_s, most).into_iter().filter(|tick| *tick <= width_s * (1.0 + 1e-9)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Change;

    fn check_linear(top: f64, most: usize, expected: &[f64]) {
        let found = linear(top, most);
        assert_eq!(found.len(), expected.len(), "{top}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < expected.abs() * 1e-9 + 1e-12, "{found} for {expected}");
        }
    }

    #[test]
    fn linear_ticks_are_round_and_enclose_the_top() {
        check_linear(1.0, 4, &[0.0, 0.25, 0.5, 0.75, 1.0]);
        check_linear(0.93, 4, &[0.0, 0.25, 0.5, 0.75, 1.0]);
        check_linear(1234.0, 4, &[0.0, 500.0, 1000.0, 1500.0]);
        check_linear(0.0, 4, &[0.0, 1.0]);
        check_linear(f64::NAN, 4, &[0.0, 1.0]);
        for top in [0.0003, 0.7, 3.0, 19.9, 20.0, 20.1, 7.3e9] {
            let ticks = linear(top, 4);
            assert!(ticks.last().unwrap() >= &(top * (1.0 - 1e-9)), "{top}: {ticks:?}");
            assert!(ticks.len() <= 5, "{top}: {ticks:?}");
        }
    }

    #[test]
    fn log_ticks_are_powers_of_ten_around_the_data() {
        assert_eq!(log(0.002, 0.4), vec![0.001, 0.01, 0.1, 1.0]);
        assert_eq!(log(1.0, 1.0).len(), 2);
        assert_eq!(log(0.0, 5.0), vec![1.0, 10.0]);
    }

    #[test]
    fn time_ticks_fall_on_round_moments() {
        // 2026-11-29T17:00:07Z, fifteen minutes.
        let from = 1_795_971_607 * SECOND;
        let ticks = time((from, from + 900 * SECOND), &Zone::default(), 6);
        assert!(ticks.len() >= 3 && ticks.len() <= 6, "{ticks:?}");
        assert!(ticks.iter().all(|(at, _)| at % (300 * SECOND) == 0 && *at >= from), "{ticks:?}");
        assert_eq!(ticks[0].1, "17:05");
    }

    #[test]
    fn midnight_is_written_as_the_date() {
        let midnight = 1_795_996_800 * SECOND;
        assert_eq!(midnight % DAY, 0);
        assert_eq!(time_label(midnight, 3_600 * SECOND), "30 Nov");
        assert_eq!(day_label(0), "1 Jan");
        assert_eq!(day_label(951_782_400 * SECOND), "29 Feb");
    }

    #[test]
    fn an_empty_span_of_time_has_no_ticks() {
        let utc = Zone::default();
        assert!(time((5, 5), &utc, 6).is_empty());
        assert!(time((9, 5), &utc, 6).is_empty());
        assert!(time((i64::MIN, i64::MAX), &utc, 6).len() <= 6);
    }

    /// Clocks in Ireland go from 01:00 to 02:00 on 29 March 2026 and back from 02:00 to 01:00 on 25 October, both at 01:00 UTC.
    #[test]
    fn ticks_are_round_on_clocks_that_are_put_on_and_back() {
        const HOUR: i64 = 3_600 * SECOND;
        let (on, back) = (1_774_746_000 * SECOND, 1_792_890_000 * SECOND);
        let change = |from_us, ahead_s| Change { from_us, ahead_s, name: String::new() };
        let dublin = Zone::new(vec![change(0, 0), change(on, 3_600), change(back, 0)]);
        let labels = |from, hours| -> Vec<String> {
            time((from, from + hours * HOUR), &dublin, 8).into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(labels(on - HOUR, 4), ["29 Mar", "02:00", "03:00", "04:00", "05:00"], "no 01:00");
        assert_eq!(labels(back - 2 * HOUR, 5), ["25 Oct", "01:00", "01:00", "02:00", "03:00", "04:00"]);
        for (from, days) in
            [(on - 30 * HOUR, ["29 Mar", "30 Mar", "31 Mar"]), (back - 30 * HOUR, ["25 Oct", "26 Oct", "27 Oct"])]
        {
            let ticks = time((from, from + 96 * HOUR), &dublin, 5);
            let found: Vec<&str> = ticks.iter().map(|(_, label)| label.as_str()).collect();
            assert_eq!(found[found.len() - 3..], days, "{ticks:?}");
            assert!(ticks.iter().all(|(at, _)| dublin.local_us(*at).rem_euclid(DAY) == 0), "midnights: {ticks:?}");
        }
    }
}
