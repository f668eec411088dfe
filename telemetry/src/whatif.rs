//! What the same traffic would cost and draw elsewhere: on another machine, in another region, bought otherwise, with another batch limit.
//!
//! ```text
//! recorded traffic ─► mean call ─► step model ─► device time ─► replicas ─► hosts ─► dollars, watts, grams
//! ```
//!
//! Everything that comes out is reckoned, nothing measured. [`Outcome::assumes`] says on what it stands, line by line, and
//! whoever shows a number of it shows that too.

mod quote;

use crate::grid::{self, Grid};
use crate::power::{self, PowerModel, curve};
use crate::step::{Calibration, Hardware, NoTimes, PowerCurve, StepModel, StepShape, Target, bucket, hardware};
use crate::unit::Usd;

pub use quote::{Piece, Quote, quote};

/// Share of its device time up to which a replica is filled: assumed, room for arrivals that do not come evenly.
pub const UTILIZATION_MAX: f64 = 0.8;
/// Longest context that is looked up, tokens.
const CONTEXT_MAX: u32 = 16_384;

/// What was served, and in how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic<'a> {
    /// Model, by a name that the step models know.
    pub model: &'a str,
    /// Calls.
    pub requests: f64,
    /// Prompt tokens of all calls.
    pub input_tokens: f64,
    /// Generated tokens of all calls.
    pub output_tokens: f64,
    /// Length of the hours that are paid for, seconds: those that the hosts which served were paid for.
    pub seconds: f64,
    /// Calls a second in the busiest of those hours.
    pub busiest_per_s: f64,
}

/// Where it would be served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario<'a> {
    /// Instance type: `inf2.48xlarge`, `trn1.32xlarge`, `p5.48xlarge` or `p6-b200.48xlarge`.
    pub host_type: &'a str,
    /// Cloud region, for the grid.
    pub region: &'a str,
    /// Most sequences that a replica decodes at once.
    pub batch: u32,
    /// Chips of a replica; `None` takes what the step model's machine has.
    pub chips: Option<u32>,
    /// The instant at which power and grid are looked up, µs since the epoch.
    pub at_us: i64,
}

/// What it would take.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Replicas of the model.
    pub replicas: u64,
    /// Hosts that hold them.
    pub hosts: u64,
    /// Share of their device time that is used.
    pub utilization: f64,
    /// Time per output token with a full batch, milliseconds.
    pub tpot_ms: f64,
    /// Time of the mean prompt, without waiting, milliseconds.
    pub prompt_ms: f64,
    /// Price of all hosts in the book, the mean of the hours paid for; `None` without a price.
    pub usd_per_hour: Option<Usd>,
    /// What of it is paid: at the negotiated discounts in force in each of them, else the price.
    pub effective_usd_per_hour: Option<Usd>,
    /// All hosts' price over the output tokens, idle included.
    pub usd_per_million_output_tokens: Option<f64>,
    /// The same of what is paid.
    pub effective_usd_per_million_output_tokens: Option<f64>,
    /// Mean draw of all replicas, within `boundary`; `None` where nobody published watts.
    pub watts: Option<f64>,
    /// What the watts cover.
    pub boundary: Option<String>,
    /// Joules over output tokens, idle included.
    pub joules_per_output_token: Option<f64>,
    /// Grams of CO₂ equivalent an hour, location based average; `None` without watts, PUE or grid factor.
    pub gco2e_per_hour: Option<f64>,
    /// What the figures stand on.
    pub assumes: Vec<String>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoAnswer {
    /// Nobody published how fast that is.
    #[error("{0}")]
    Times(#[from] NoTimes),
    /// No such machine.
    #[error("no step model for {0}: take inf2.48xlarge, trn1.32xlarge, p5.48xlarge or p6-b200.48xlarge")]
    Machine(String),
    /// Nothing was served.
    #[error("no calls of {0} with output tokens in that stretch")]
    NoTraffic(String),
    /// A batch of nothing.
    #[error("a batch limit is at least 1")]
    Batch,
}

/// Instance types that can be asked for.
pub const HOST_TYPES: [&str; 4] = ["inf2.48xlarge", "trn1.32xlarge", "p5.48xlarge", "p6-b200.48xlarge"];

/// An instance type as the step models know it: the machine, and how many of its chips the host has.
struct Machine {
    hardware: &'static Hardware,
    chips: u32,
    /// Rows of `power_models` that may tell its chips' watts.
    device: &'static str,
}

/// Hosts of GPUs: type, machine of the step models, GPUs.
const GPU_HOSTS: [(&str, &str, u32); 2] = [("p5.48xlarge", "h100", 8), ("p6-b200.48xlarge", "b200", 8)];

fn machine(host_type: &str) -> Option<Machine> {
    let (name, chips) = match GPU_HOSTS.iter().find(|(host, ..)| *host == host_type) {
        Some((_, gpu, gpus)) => (*gpu, Some(*gpus)),
        None => (host_type, None),
    };
    let hardware = hardware(name)?;
    Some(Machine { hardware, chips: chips.unwrap_or(hardware.chips), device: hardware.accelerator })
}

/// Reckons the traffic in the scenario. `quote` is what one host costs in the hours paid for, with its sources; no price stays none.
///
/// # Errors
/// [`NoAnswer`], with what can be asked instead.
pub fn reckon(
    traffic: &Traffic<'_>,
    scenario: &Scenario<'_>,
    quote: &Quote,
    (models, factors): (&[PowerModel], &[Grid]),
) -> Result<Outcome, NoAnswer> {
    let machine = machine(scenario.host_type).ok_or_else(|| NoAnswer::Machine(scenario.host_type.to_owned()))?;
    let is_served = traffic.requests > 0.0 && traffic.output_tokens > 0.0 && traffic.seconds > 0.0;
    if !is_served {
        return Err(NoAnswer::NoTraffic(traffic.model.to_owned()));
    }
    if scenario.batch == 0 {
        return Err(NoAnswer::Batch);
    }
    let steps = step_model(traffic, scenario, &machine)?;
    let times = Times::of(traffic, scenario, &steps);
    let mut assumes = assumptions(traffic, scenario, &steps, &times);
    let busy_s = traffic.requests * times.call_s;
    // enough for the busiest hour, and paid for all hours, as those that served were
    let mean_per_s = traffic.requests / traffic.seconds;
    let replicas = (traffic.busiest_per_s.max(mean_per_s) * times.call_s / UTILIZATION_MAX).ceil().max(1.0);
    let utilization = busy_s / (traffic.seconds * replicas);
    let chips = steps.calibration().chips;
    let per_host = (machine.chips / chips.max(1)).max(1);
    let hosts = (replicas / f64::from(per_host)).ceil().max(f64::from(chips.div_ceil(machine.chips.max(1))));
    let hours = traffic.seconds / 3_600.0;
    let of_all = |price: Option<Usd>| price.map(|price| Usd(price.0.saturating_mul(hosts as i128)));
    let [usd_per_hour, effective_usd_per_hour] = [quote.usd_per_hour, quote.effective_usd_per_hour].map(of_all);
    let per_million = |usd: Usd| usd.0 as f64 / 1e12 * hours / traffic.output_tokens * 1e6;
    assumes.extend(quote::assumptions(scenario, quote));
    let draw = draw(&machine, scenario, &steps, (&times, utilization), models);
    let watts = draw.as_ref().map(|draw| draw.replica_w * replicas);
    assumes.push(draw.as_ref().map_or_else(
        || format!("no watts of {} are published: power and carbon are unknown", machine.device),
        |draw| draw.assumes.clone(),
    ));
    let factor = grid::at(factors, scenario.region, scenario.at_us);
    let kilowatts = watts.zip(factor.and_then(|factor| factor.pue)).map(|(watts, pue)| watts * pue / 1_000.0);
    assumes.push(gridded(scenario, factor));
    Ok(Outcome {
        replicas: replicas as u64,
        hosts: hosts as u64,
        utilization,
        tpot_ms: times.step_ms,
        prompt_ms: times.prompt_ms,
        usd_per_hour,
        effective_usd_per_hour,
        usd_per_million_output_tokens: usd_per_hour.map(per_million),
        effective_usd_per_million_output_tokens: effective_usd_per_hour.map(per_million),
        watts,
        boundary: draw.map(|draw| draw.boundary),
        joules_per_output_token: watts.map(|watts| watts * traffic.seconds / traffic.output_tokens),
        gco2e_per_hour: kilowatts.zip(factor.and_then(|factor| factor.gco2e_per_kwh)).map(|(kw, grams)| kw * grams),
        assumes,
    })
}

/// The rows of this model on this machine, else the roofline of its family.
fn step_model(traffic: &Traffic<'_>, scenario: &Scenario<'_>, machine: &Machine) -> Result<StepModel, NoAnswer> {
    let target =
        Target { hardware: machine.hardware.name, model: traffic.model, chips: scenario.chips, weight_type: None };
    Ok(StepModel::table(&target).or_else(|_| StepModel::roofline(&target))?)
}

/// Times of the mean call.
struct Times {
    prompt_ms: f64,
    /// Of one decode step with a full batch.
    step_ms: f64,
    /// Device time of a call: its prompt, and its share of the steps.
    call_s: f64,
    context: u32,
}

impl Times {
    fn of(traffic: &Traffic<'_>, scenario: &Scenario<'_>, steps: &StepModel) -> Times {
        let prompt = (traffic.input_tokens / traffic.requests).round().max(1.0) as u32;
        let output = traffic.output_tokens / traffic.requests;
        let context = bucket(prompt.saturating_add(output.round() as u32), CONTEXT_MAX);
        let ms = |shape: StepShape| steps.time(shape).total_ns() as f64 / 1e6;
        let prompt_ms = ms(StepShape { prefill_tokens: prompt, ..StepShape::default() });
        let step_ms = ms(StepShape { decode_slots: scenario.batch, context, ..StepShape::default() });
        let call_s = (prompt_ms + output * step_ms / f64::from(scenario.batch)) / 1e3;
        Times { prompt_ms, step_ms, call_s, context }
    }
}

fn assumptions(traffic: &Traffic<'_>, scenario: &Scenario<'_>, steps: &StepModel, times: &Times) -> Vec<String> {
    let Calibration { batch_max, chips, weight_type, .. } = steps.calibration();
    let mut assumes = vec![
        format!("reckoned, not measured: {}", steps.calibration().note()),
        format!(
            "every call is the mean one: {:.0} prompt and {:.0} output tokens, context bucket {}",
            traffic.input_tokens / traffic.requests,
            traffic.output_tokens / traffic.requests,
            times.context,
        ),
        format!("replicas of {chips} chips, weights in {weight_type}, always {} sequences at once", scenario.batch),
        format!(
            "there are replicas for the busiest hour, of {:.2} calls a second that come evenly and fill them to at most {:.0} % of their device \
             time; peaks within an hour need more",
            traffic.busiest_per_s,
            100.0 * UTILIZATION_MAX
        ),
        format!(
            "these hosts are paid for {:.2} h, as were those that served: from the first hour in which the model had calls or cost to the end of \
             the last, idle hours included",
            traffic.seconds / 3_600.0
        ),
    ];
    if scenario.batch > *batch_max {
        assumes.push(format!("a batch of {} is beyond the published {batch_max}: extrapolated", scenario.batch));
    }
    assumes
}

fn gridded(scenario: &Scenario<'_>, factor: Option<&Grid>) -> String {
    let Some(factor) = factor else {
        return format!("no PUE or grid factor of {}: carbon is unknown", scenario.region);
    };
    let text = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    format!(
        "PUE {} and {} g CO2e a kWh in {} ({}, as of {}, {})",
        text(factor.pue),
        text(factor.gco2e_per_kwh),
        scenario.region,
        factor.method,
        factor.as_of,
        factor.confidence
    )
}

/// What one replica draws.
struct Draw {
    replica_w: f64,
    boundary: String,
    assumes: String,
}

fn draw(
    machine: &Machine,
    scenario: &Scenario<'_>,
    steps: &StepModel,
    (times, utilization): (&Times, f64),
    models: &[PowerModel],
) -> Option<Draw> {
    let chips = f64::from(steps.calibration().chips);
    let shape = |slots: u32| StepShape { decode_slots: slots, context: times.context, ..StepShape::default() };
    if let (Some(fit), Some(full_w)) = (curve::fitted(machine.hardware.name), curve::full_w(machine.hardware.name)) {
        // As in the fit: the output rate as a share of the deployment's highest.
        let rate = |slots: u32| f64::from(slots) / steps.time(shape(slots)).total_ns().max(1) as f64;
        let most = steps.calibration().batch_max.max(scenario.batch);
        let busy_w = fit.watts(full_w, rate(scenario.batch) / rate(most));
        let rest_w = fit.watts(full_w, 0.0);
        return Some(Draw {
            replica_w: chips * (utilization * busy_w + (1.0 - utilization) * rest_w),
            boundary: "board".to_owned(),
            assumes: format!(
                "GPU boards alone, by the load curve of ML.ENERGY's runs: {busy_w:.0} W busy; at rest {rest_w:.0} W, where the curve begins"
            ),
        });
    }
    let model = power::at(models, machine.device, scenario.at_us)?;
    let curve = PowerCurve { idle_w: model.idle_w?, max_w: model.max_w? };
    let busy_w = curve.watts(steps.load(shape(scenario.batch)));
    Some(Draw {
        replica_w: chips * (utilization * busy_w + (1.0 - utilization) * curve.idle_w),
        boundary: model.boundary.clone(),
        assumes: format!(
            "{} of {} alone, {} W at rest and {} W full, {} ({}); exponent of the load carried over from GPUs",
            model.boundary, model.device, curve.idle_w, curve.max_w, model.confidence, model.source
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::price;

    const LATE_2026: i64 = 1_796_000_000_000_000;

    fn traffic() -> Traffic<'static> {
        // 1,000 calls a second of 128 prompt and 128 output tokens, for an hour
        let calls = 3_600_000.0;
        Traffic {
            model: "Llama-3-8B",
            requests: calls,
            input_tokens: 128.0 * calls,
            output_tokens: 128.0 * calls,
            seconds: 3_600.0,
            busiest_per_s: calls / 3_600.0,
        }
    }

    fn scenario(host_type: &'static str, batch: u32) -> Scenario<'static> {
        Scenario { host_type, region: "us-east-1", batch, chips: None, at_us: LATE_2026 }
    }

    fn ask(host_type: &'static str, batch: u32) -> Outcome {
        let scenario = scenario(host_type, batch);
        let price = price::at(price::bundled(), host_type, scenario.region, "on_demand", scenario.at_us);
        let quote = price.map(Quote::from).unwrap_or_default();
        reckon(&traffic(), &scenario, &quote, (power::bundled(), grid::bundled())).expect(host_type)
    }

    /// Dollars, joules and grams follow from hosts and watts by the arithmetic that the fields' names promise.
    #[test]
    fn the_figures_hang_together() {
        let found = ask("inf2.48xlarge", 4);
        let busy = 3_600_000.0 * (found.prompt_ms + 128.0 * found.tpot_ms / 4.0) / 1e3;
        assert!((busy / (3_600.0 * found.replicas as f64) - found.utilization).abs() < 1e-9, "{found:?}");
        assert!(found.utilization <= UTILIZATION_MAX && found.utilization > 0.7, "{found:?}");
        assert_eq!(found.hosts, found.replicas, "a replica takes all twelve chips");
        let per_hour = 12_981_270_000_000 * i128::from(found.hosts);
        assert_eq!(found.usd_per_hour, Some(Usd(per_hour)));
        let per_million = per_hour as f64 / 1e12 / (3_600_000.0 * 128.0) * 1e6;
        assert!((found.usd_per_million_output_tokens.expect("priced") / per_million - 1.0).abs() < 1e-12);
        let watts = found.watts.expect("a model");
        let grams = watts * 1.15 / 1_000.0 * 396.25;
        assert!((found.gco2e_per_hour.expect("a grid") / grams - 1.0).abs() < 1e-12, "{found:?}");
        let per_chip = watts / (12.0 * found.replicas as f64);
        assert!(per_chip > 26.25 && per_chip < 175.0, "{per_chip}");
    }

    /// The same calls on a larger batch need fewer hosts and wait longer for each token.
    #[test]
    fn a_larger_batch_is_cheaper_and_slower() {
        let (small, large) = (ask("inf2.48xlarge", 1), ask("inf2.48xlarge", 8));
        assert!(large.hosts < small.hosts && large.tpot_ms > small.tpot_ms, "{small:?} {large:?}");
        assert!(large.usd_per_million_output_tokens < small.usd_per_million_output_tokens);
    }

    /// Nothing is said without what it stands on.
    #[test]
    fn every_answer_says_what_it_assumes() {
        let told = |found: &Outcome, words: &[&str]| {
            let all = found.assumes.join("\n");
            words.iter().for_each(|word| assert!(all.contains(word), "{word} in {all}"));
        };
        told(
            &ask("inf2.48xlarge", 4),
            &[
                "not measured",
                "mean error",
                "80 %",
                "as of 2026-07-20",
                "assumed",
                "PUE 1.15",
                "location based, average",
            ],
        );
        told(&ask("inf2.48xlarge", 500), &["beyond the published"]);
        let unpriced = reckon(&traffic(), &scenario("trn1.32xlarge", 4), &Quote::default(), (&[], &[])).expect("times");
        assert_eq!((unpriced.usd_per_hour, unpriced.watts, unpriced.gco2e_per_hour), (None, None, None));
        told(&unpriced, &["cost is unknown", "power and carbon are unknown", "carbon is unknown"]);
    }

    #[test]
    fn what_nobody_published_has_no_answer() {
        let no = |model, host_type, batch| {
            let traffic = Traffic { model, ..traffic() };
            reckon(&traffic, &scenario(host_type, batch), &Quote::default(), (&[], &[]))
                .expect_err("no answer")
                .to_string()
        };
        assert!(no("Llama-9", "inf2.48xlarge", 1).contains("no published step times"));
        let others = no("Llama-3-8B", "custom-npu.8x", 1);
        for host_type in HOST_TYPES {
            assert!(others.contains(host_type) && machine(host_type).is_some(), "{host_type}");
        }
        assert!(no("Llama-3-8B", "inf2.48xlarge", 0).contains("at least 1"));
        let nothing = Traffic { output_tokens: 0.0, ..traffic() };
        let refused = reckon(&nothing, &scenario("inf2.48xlarge", 1), &Quote::default(), (&[], &[]));
        assert_eq!(refused, Err(NoAnswer::NoTraffic("Llama-3-8B".to_owned())));
    }

    /// Calls of one hour of a day: hosts for that hour, paid for all day, so 24 times the dollars and joules at rest in the others.
    #[test]
    fn hosts_for_the_busiest_hour_are_paid_for_all_hours() {
        let scenario = scenario("inf2.48xlarge", 4);
        let price = price::at(price::bundled(), scenario.host_type, scenario.region, "on_demand", scenario.at_us);
        let quote = price.map(Quote::from).unwrap_or_default();
        let of = |seconds| {
            let traffic = Traffic { seconds, ..traffic() };
            reckon(&traffic, &scenario, &quote, (power::bundled(), grid::bundled())).expect("rows")
        };
        let (hour, day) = (of(3_600.0), of(24.0 * 3_600.0));
        assert_eq!(day.hosts, hour.hosts);
        let ratio = |of: fn(&Outcome) -> Option<f64>| of(&day).expect("known") / of(&hour).expect("known");
        assert!((ratio(|found| found.usd_per_million_output_tokens) - 24.0).abs() < 1e-9);
        assert!((hour.utilization / day.utilization - 24.0).abs() < 1e-9);
        assert!(ratio(|found| found.joules_per_output_token) > 3.0, "{day:?}");
        assert!(day.assumes.iter().any(|line| line.contains("paid for 24.00 h")), "{:?}", day.assumes);
    }

    /// GPUs are packed eight to a host, by the curve that their runs gave.
    #[test]
    fn replicas_of_one_gpu_share_a_host() {
        let traffic = Traffic { model: "meta-llama/Llama-3.1-8B-Instruct", ..traffic() };
        let scenario = Scenario { chips: Some(1), ..scenario("p5.48xlarge", 64) };
        let found = reckon(&traffic, &scenario, &Quote::default(), (&[], grid::bundled())).expect("rows");
        assert_eq!(found.hosts, found.replicas.div_ceil(8));
        assert_eq!(found.boundary.as_deref(), Some("board"));
        let per_gpu = found.watts.expect("a curve") / found.replicas as f64;
        assert!(per_gpu > 100.0 && per_gpu < 700.0, "{per_gpu}");
    }
}
