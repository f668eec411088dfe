//! `docs/rufus.md`: a published fleet reckoned with the bundled price book, power models and step models, as a worked example.
//!
//! What others published is quoted, what we reckon is called reckoned, and nothing is measured.

use std::fmt::Write;

use crate::grid::{self, Grid};
use crate::power;
use crate::price;
use crate::step::{PowerCurve, StepModel, StepShape, Target};
use crate::unit::UNITS_PER_USD;

/// Chips, as AWS's machine-learning blog has them ("over 80,000").
pub const CHIPS: f64 = 80_000.0;
/// Tokens a minute on average, from the same post.
pub const TOKENS_PER_MINUTE: f64 = 3_000_000.0;
/// Performance per watt over that of the other evaluated solutions, less 1, from the same post.
pub const PERF_PER_WATT_GAIN: f64 = 0.54;
/// Cost of the other evaluated solutions over theirs, from the English post.
pub const COST_FACTOR: f64 = 4.5;

/// The instant at which prices and factors are looked up: 2026-11-30 UTC.
const AT_US: i64 = 1_795_996_800_000_000;
/// The regions are not named: three with prices of both machines.
const REGIONS: [&str; 3] = ["us-east-1", "us-east-2", "us-west-2"];
/// The two machines: type and accelerator.
const MACHINES: [(&str, &str, f64); 2] = [("inf2.48xlarge", "inferentia2", 12.0), ("trn1.32xlarge", "trainium1", 16.0)];
/// The model is not named either: this one is published on both, in INT8 and with the same tensor parallelism.
const STAND_IN: &str = "Llama-3-8B";
/// Slots and context that are published for it.
const SHAPES: [u32; 3] = [1, 4, 8];
const CONTEXT: u32 = 4_096;

/// USD an hour of all hosts of a machine, and their number, if every chip were of that machine.
pub fn fleet_usd_per_hour(host_type: &str, chips_per_host: f64) -> Option<(f64, f64)> {
    let price = price::at(price::bundled(), host_type, REGIONS[0], "on_demand", AT_US)?;
    let hosts = (CHIPS / chips_per_host).ceil();
    Some((hosts, hosts * (price.per_hour.0 as f64 / UNITS_PER_USD as f64)))
}

/// Megawatts of all chips at a load from 0 to 1, chips alone.
pub fn fleet_megawatts(accelerator: &str, load: f64) -> Option<f64> {
    let model = power::at(power::bundled(), accelerator, AT_US)?;
    let curve = PowerCurve { idle_w: model.idle_w?, max_w: model.max_w? };
    Some(CHIPS * curve.watts(load) / 1e6)
}

/// Output tokens a second of one host that decodes with so many slots, by the step model.
pub fn host_tokens_per_second(host_type: &str, slots: u32) -> Option<f64> {
    let target = Target { hardware: host_type, model: STAND_IN, chips: None, weight_type: None };
    let steps = StepModel::table(&target).or_else(|_| StepModel::roofline(&target)).ok()?;
    let time = steps.time(StepShape { decode_slots: slots, context: CONTEXT, ..StepShape::default() });
    Some(f64::from(slots) / (time.total_ns() as f64 / 1e9))
}

/// The text of `docs/rufus.md`.
pub fn markdown() -> String {
    let mut page = String::from(HEAD);
    prices(&mut page);
    rates(&mut page);
    watts(&mut page);
    carbon(&mut page);
    claims(&mut page);
    page
}

const HEAD: &str = "# A worked example: Amazon Rufus on Prime Day\n\n\
Generated from `telemetry::rufus` (`UPDATE_DOCS=1 cargo test -p telemetry rufus`). No figure on this page was measured by Tokenwatt. \
**Quoted** figures are AWS's, from its machine-learning blog; **reckoned** ones come from the bundled price book, power models and step \
models, and say what they assume.\n\n\
## Quoted\n\n\
| what | figure |\n|---|---|\n\
| chips, AWS Inferentia and Trainium | over 80,000 |\n\
| regions | three, not named |\n\
| tokens, on average | 3 million a minute |\n\
| first response | p99 under 1 s |\n\
| cost of the other evaluated solutions | 4.5 times theirs (about a quarter, in the translation) |\n\
| performance per watt | 54 % better than the other evaluated solutions |\n\
| tensor parallelism | 24 on Inf2, 32 on Trn1; INT8 weights |\n";

fn prices(page: &mut String) {
    page.push_str(
        "\n## What 80,000 chips cost (reckoned)\n\nAssumes: all chips of one kind, whole instances, on-demand list price in us-east-1 (us-east-2 and \
         us-west-2 cost the same), every hour of the day. What AWS pays itself is not published. Dollars a million tokens are all of the \
         fleet's cost over the quoted 3 million tokens a minute: the allocation basis, idle included.\n\n\
         | instance | hosts | USD/h a host | as of | USD/h | USD a million tokens |\n|---|---|---|---|---|---|\n",
    );
    for (host_type, _, chips) in MACHINES {
        let price = price::at(price::bundled(), host_type, REGIONS[0], "on_demand", AT_US);
        let (Some(price), Some((hosts, usd))) = (price, fleet_usd_per_hour(host_type, chips)) else { continue };
        let millions = TOKENS_PER_MINUTE * 60.0 / 1e6;
        let _ = writeln!(
            page,
            "| {host_type} | {hosts:.0} | {:.4} | {} | {usd:.0} | {:.0} |",
            price.per_hour.0 as f64 / UNITS_PER_USD as f64,
            price.as_of,
            usd / millions,
        );
    }
    let _ = write!(
        page,
        "\nThat is {:.3} tokens a second for each chip: a fleet that is sized for its peak, over its average. It says what being ready costs, and \
         **must not be read as what a chip can do**, nor as the price of a token at full load.\n",
        TOKENS_PER_MINUTE / 60.0 / CHIPS,
    );
}

fn rates(page: &mut String) {
    let _ = write!(
        page,
        "\n## What a host can do (reckoned)\n\nAssumes: {STAND_IN} in INT8 stands in for the model, which is not published; decode steps with every slot \
         filled, context bucket {CONTEXT}, prompts left out; step model of [calibration.md](calibration.md). Hosts are those that 3 million tokens a \
         minute would keep busy, dollars the usage basis: no idle, no prompts, no peak.\n\n\
         | instance | slots | tokens/s a host | hosts for 3 M tokens/min | USD a million tokens, usage |\n|---|---|---|---|---|\n",
    );
    for (host_type, _, chips) in MACHINES {
        for slots in SHAPES {
            let Some(rate) = host_tokens_per_second(host_type, slots) else { continue };
            let Some((hosts, usd)) = fleet_usd_per_hour(host_type, chips) else { continue };
            let needed = TOKENS_PER_MINUTE / 60.0 / rate;
            let per_million = usd / hosts / (rate * 3_600.0) * 1e6;
            let _ = writeln!(page, "| {host_type} | {slots} | {rate:.0} | {:.0} | {per_million:.2} |", needed.ceil());
        }
    }
    page.push_str(
        "\nBetween the two tables lies utilization: print the allocation basis and the utilization together, or neither means anything.\n",
    );
}

fn watts(page: &mut String) {
    page.push_str(
        "\n## What the chips draw (reckoned)\n\nAssumes: all chips of one kind; AWS publishes no watts, so the figures are the **assumed** ones of \
         [power.md](power.md) (an unofficial 175 W a chip, 15 % of it at rest); chips alone, without hosts, network and cooling.\n\n\
         | accelerator | at rest | at a tenth of the load | at full load | confidence |\n|---|---|---|---|---|\n",
    );
    for (_, accelerator, _) in MACHINES {
        let at = |load| fleet_megawatts(accelerator, load).map_or_else(|| "—".to_owned(), |mw| format!("{mw:.1} MW"));
        let confidence =
            power::at(power::bundled(), accelerator, AT_US).map_or("—", |model| model.confidence.as_str());
        let _ = writeln!(page, "| {accelerator} | {} | {} | {} | {confidence} |", at(0.0), at(0.1), at(1.0));
    }
}

fn carbon(page: &mut String) {
    page.push_str(
        "\n## What that emits (reckoned)\n\nAssumes: a third of the Inferentia2 chips in each of three regions, at full load; PUE and grid of each \
         region, location based average; chips alone.\n\n\
         | region | MW of chips | PUE | MW with the facility | g CO2e/kWh | as of | t CO2e an hour |\n|---|---|---|---|---|---|---|\n",
    );
    for region in REGIONS {
        let third = fleet_megawatts(MACHINES[0].1, 1.0).map(|mw| mw / 3.0);
        let factor: Option<&Grid> = grid::at(grid::bundled(), region, AT_US);
        let (Some(mw), Some(factor)) = (third, factor) else { continue };
        let (Some(pue), Some(grams)) = (factor.pue, factor.gco2e_per_kwh) else { continue };
        let tonnes = mw * pue * 1e3 * grams / 1e6;
        let _ = writeln!(
            page,
            "| {region} | {mw:.2} | {pue} | {:.2} | {grams} | {} | {tonnes:.2} |",
            mw * pue,
            factor.as_of
        );
    }
    page.push_str("\nThe same chips emit more than three times as much in us-east-1 as in us-west-2: the region matters more than the chip.\n");
}

fn claims(page: &mut String) {
    let _ = write!(
        page,
        "\n## What the two claims would mean (reckoned from quoted ratios)\n\n\
         **54 % more tokens a joule**: the other solutions would need {:.2} J where theirs need 1. Assumes the ratio holds at the boundary of the \
         chips and at full load, neither of which the post says:",
        1.0 + PERF_PER_WATT_GAIN,
    );
    if let Some(mw) = fleet_megawatts(MACHINES[0].1, 1.0) {
        let other = mw * (1.0 + PERF_PER_WATT_GAIN);
        let _ = writeln!(page, " {other:.1} MW instead of {mw:.1} MW, {:.1} MW more for the same tokens.", other - mw);
    }
    let _ = write!(
        page,
        "\n**A quarter of the cost** (4.5 times lower): the same tokens elsewhere would cost {COST_FACTOR} times as much. Assumes the ratio holds for the \
         whole fleet at list price, which the post does not say:",
    );
    if let Some((_, usd)) = fleet_usd_per_hour(MACHINES[0].0, MACHINES[0].2) {
        let _ = writeln!(page, " {:.0} USD an hour instead of {usd:.0}.", usd * COST_FACTOR);
    }
    page.push_str(
        "\nBoth compare with systems that are not named, on a day that is not ours. In a fleet that Tokenwatt watches the same questions have \
         measured answers: `perf_per_watt` by `host_type`, `cost_per_million_tokens` by model and `host_type`, `carbon` by region, `unit_cost_trend` for how they go.\n",
    );
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::*;

    #[test]
    fn docs_rufus_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/rufus.md");
        let wanted = markdown();
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, &wanted).expect("docs/ is writable");
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == wanted, "docs/rufus.md is stale: UPDATE_DOCS=1 cargo test -p telemetry rufus");
    }

    /// By hand: 80,000 ÷ 12 = 6,666.7, so 6,667 hosts × 12.98127 = 86,546 USD an hour, over 180 million tokens an hour 480.8 USD a million.
    /// 80,000 × 175 W = 14 MW; a third of it × 1.15 × 396.25 g = 2.13 t an hour in us-east-1.
    #[test]
    fn the_figures_are_those_worked_out_by_hand() {
        let (hosts, usd) = fleet_usd_per_hour("inf2.48xlarge", 12.0).expect("priced");
        assert_eq!(hosts, 6_667.0);
        assert!((usd - 86_546.127).abs() < 0.01, "{usd}");
        assert!((usd / 180.0 - 480.8).abs() < 0.1);
        let (hosts, usd) = fleet_usd_per_hour("trn1.32xlarge", 16.0).expect("priced");
        assert_eq!((hosts, usd), (5_000.0, 107_500.0));
        assert_eq!(fleet_megawatts("inferentia2", 1.0), Some(14.0));
        assert_eq!(fleet_megawatts("inferentia2", 0.0), Some(2.1));
        let page = markdown();
        for figure in [
            "| 6667 |",
            "| 86546 | 481 |",
            "| 107500 |",
            "0.625 tokens a second",
            "| 2.13 |",
            "21.6 MW",
            "389458 USD an hour",
        ] {
            assert!(page.contains(figure), "{figure} in {page}");
        }
    }

    /// Every reckoned section names its assumption, and the page never claims a measurement.
    #[test]
    fn nothing_reckoned_is_shown_as_measured() {
        let page = markdown();
        let reckoned: Vec<&str> = page.split("\n## ").filter(|section| section.contains("(reckoned")).collect();
        assert_eq!(reckoned.len(), 5);
        assert!(reckoned.iter().all(|section| section.contains("Assumes")), "{page}");
        assert!(page.contains("No figure on this page was measured by Tokenwatt"));
        for (host_type, ..) in MACHINES {
            assert!(host_tokens_per_second(host_type, 1).expect("rows") > 10.0);
        }
    }
}
