//! Samples of the engine: when they are taken, so that windows between them add up exactly.
//!
//! A sample falls on the end of a step, or on an instant at which the engine is idle. Then every
//! token's device time lies between two samples, and so does every idle gap. The last one before
//! a minute's end closes that minute. Steps that leave device time on a sequence which has no
//! token yet (a prompt in chunks) are passed over, since that time rides on a later token: the last
//! step before them closes the window instead, and the next one opens there. Only where there was none
//! for half a minute is device time parted from its token.

use telemetry::step::PowerCurve;

use super::Totals;
use crate::schedule::{Blocks, Load};

/// Time between regular samples. Minutes are whole multiples of it.
const EVERY_NS: i64 = 5_000_000_000;
/// How long a sample may wait for a step without carried device time, before the last such step stands in for it.
const PATIENCE_NS: i64 = 2_500_000_000;
/// Longest window. Readers take two samples more than two minutes apart for two engines.
const WINDOW_NS_MAX: i64 = 30_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;

/// The engine at one instant. Counters run since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    pub(crate) time_ns: i64,
    pub(crate) busy_us: u64,
    pub(crate) padding_us: u64,
    pub(crate) load: Load,
    pub(crate) totals: Totals,
    pub(crate) blocks: Blocks,
    /// Joules of one chip.
    pub(crate) energy_j: Option<f64>,
}

/// A sample to send, with what changed since the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Taken {
    pub(crate) now: Sample,
    /// Share of the time in which a step executed.
    pub(crate) executing: Option<f64>,
    /// Mean watts of one chip.
    pub(crate) power_w: Option<f64>,
}

/// Decides which samples are taken.
pub(crate) struct Sampler {
    /// The last sample that was sent.
    taken: Sample,
    /// The last step end without carried device time.
    clean: Sample,
    due_ns: i64,
}

impl Sampler {
    pub(crate) fn new(start: Sample) -> Self {
        Self { taken: start, clean: start, due_ns: grid_after(start.time_ns) }
    }

    /// When an idle engine is to be looked at next.
    pub(crate) fn due_ns(&self) -> i64 {
        self.due_ns
    }

    /// Looks at the engine at a step end, or while idle. `carried` says that some sequence holds
    /// device time that will ride on a later token. At most two samples are taken.
    pub(crate) fn look(&mut self, now: Sample, carried: bool) -> Vec<Taken> {
        let mut taken = Vec::new();
        let minute_over = now.time_ns.div_euclid(MINUTE_NS) > self.clean.time_ns.div_euclid(MINUTE_NS);
        if minute_over && self.clean.time_ns > self.taken.time_ns {
            taken.push(self.take(self.clean));
        }
        if let Some(sample) = self.regular(now, carried) {
            taken.push(self.take(sample));
            self.due_ns = grid_after(now.time_ns);
        }
        if !carried {
            self.clean = now;
        }
        taken
    }

    /// The sample that is due now, if one is.
    fn regular(&self, now: Sample, carried: bool) -> Option<Sample> {
        if now.time_ns < self.due_ns {
            return None;
        }
        if !carried || now.time_ns >= self.taken.time_ns + WINDOW_NS_MAX {
            return Some(now);
        }
        let is_late = now.time_ns >= self.due_ns + PATIENCE_NS;
        (is_late && self.clean.time_ns > self.taken.time_ns).then_some(self.clean)
    }

    /// Takes a last sample.
    pub(crate) fn finish(&mut self, now: Sample) -> Option<Taken> {
        (now.time_ns > self.taken.time_ns).then(|| self.take(now))
    }

    fn take(&mut self, now: Sample) -> Taken {
        let before = std::mem::replace(&mut self.taken, now);
        let passed_us = (now.time_ns.div_euclid(1_000) - before.time_ns.div_euclid(1_000)) as f64;
        let executed_us = (now.busy_us + now.padding_us - before.busy_us - before.padding_us) as f64;
        let known = passed_us > 0.0;
        let energy = now.energy_j.zip(before.energy_j).map(|(now, before)| now - before);
        Taken {
            now,
            executing: known.then(|| (executed_us / passed_us).clamp(0.0, 1.0)),
            power_w: energy.filter(|_| known).map(|joules| joules / seconds(now.time_ns - before.time_ns)),
        }
    }
}

fn grid_after(time_ns: i64) -> i64 {
    (time_ns.div_euclid(EVERY_NS) + 1) * EVERY_NS
}

/// Adds up the modelled energy of one chip.
pub(crate) struct Meter {
    curve: PowerCurve,
    joules: f64,
    at_ns: i64,
}

impl Meter {
    pub(crate) fn new(curve: PowerCurve, at_ns: i64) -> Self {
        Self { curve, joules: 0.0, at_ns }
    }

    /// A step ran from `start_ns` to `end_ns`; before it the chip was idle.
    pub(crate) fn step(&mut self, start_ns: i64, end_ns: i64, load: f64) {
        self.idle_until(start_ns);
        self.joules += self.curve.watts(load) * seconds(end_ns - self.at_ns);
        self.at_ns = end_ns.max(self.at_ns);
    }

    /// Nothing ran until `at_ns`.
    pub(crate) fn idle_until(&mut self, at_ns: i64) {
        self.joules += self.curve.idle_w * seconds(at_ns - self.at_ns);
        self.at_ns = at_ns.max(self.at_ns);
    }

    pub(crate) fn joules(&self) -> f64 {
        self.joules
    }
}

fn seconds(ns: i64) -> f64 {
    ns.max(0) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Sample {
        Sample { time_ns: (seconds * 1e9) as i64, ..Sample::default() }
    }

    fn times(taken: &[Taken]) -> Vec<f64> {
        taken.iter().map(|taken| taken.now.time_ns as f64 / 1e9).collect()
    }

    /// Regular samples fall on the first step end after each five seconds; the last step end of a minute closes it.
    #[test]
    fn minutes_are_closed_by_their_last_step() {
        let mut sampler = Sampler::new(at(50.0));
        let mut seen = Vec::new();
        for tenth in 1..120 {
            seen.extend(times(&sampler.look(at(50.05 + f64::from(tenth) * 0.1), false)));
        }
        assert_eq!(seen.len(), 3, "{seen:?}");
        for (found, expected) in seen.iter().zip([55.05, 59.95, 60.05]) {
            assert!((found - expected).abs() < 1e-6, "{seen:?}");
        }
    }

    /// A step end with carried device time is passed over: the last one without closes the window, and where there is none the
    /// window waits, but not for ever.
    #[test]
    fn carried_time_stays_in_the_window_of_its_token() {
        let mut sampler = Sampler::new(at(50.0));
        assert!(sampler.look(at(55.1), true).is_empty());
        assert_eq!(times(&sampler.look(at(55.4), false)), [55.4]);
        assert!(sampler.look(at(59.0), false).is_empty());
        assert!(sampler.look(at(59.9), true).is_empty());
        // A prompt that takes seven seconds: the minute is closed before it, and its device time lies behind that.
        assert_eq!(times(&sampler.look(at(60.1), true)), [59.0]);
        for seconds in [62.6, 64.0, 66.9] {
            assert!(sampler.look(at(seconds), true).is_empty(), "{seconds}");
        }
        assert_eq!(times(&sampler.look(at(67.0), false)), [67.0]);
        assert!(sampler.look(at(69.0), false).is_empty());
        assert!(sampler.look(at(70.2), true).is_empty());
        assert_eq!(times(&sampler.look(at(72.6), true)), [69.0]);
        assert!(sampler.look(at(98.9), true).is_empty());
        assert_eq!(times(&sampler.look(at(99.1), true)), [99.1]);
    }

    /// Watts are the energy between samples over their time; utilization is executed time over it.
    #[test]
    fn rates_come_from_counters() {
        let mut sampler = Sampler::new(Sample { energy_j: Some(0.0), ..at(50.0) });
        let now = Sample { energy_j: Some(500.0), busy_us: 1_000_000, padding_us: 1_500_000, ..at(55.0) };
        let taken = sampler.look(now, false)[0];
        assert_eq!((taken.power_w, taken.executing), (Some(100.0), Some(0.5)));
    }

    /// Idle and busy time both draw power.
    #[test]
    fn meter_adds_idle_and_steps() {
        let mut meter = Meter::new(PowerCurve { idle_w: 10.0, max_w: 100.0 }, 0);
        meter.step(1_000_000_000, 2_000_000_000, 1.0);
        meter.idle_until(4_000_000_000);
        assert!((meter.joules() - 130.0).abs() < 1e-9);
    }
}
