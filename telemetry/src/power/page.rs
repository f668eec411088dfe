//! `docs/power.md`: how watts, joules and grams are found, and how far the load curves err.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::curve::{self, FULL_W, Shape, Unseen, median};
use super::list;
use crate::grid;
use crate::list::ListColumn;

/// The text of `docs/power.md`.
pub fn markdown() -> String {
    let mut page = String::from(HEAD);
    curves(&mut page);
    models(&mut page);
    bundled(&mut page);
    own(&mut page);
    page.push_str(GRID);
    own_factors(&mut page);
    page
}

const HEAD: &str = "# Power, energy and carbon\n\n\
Generated from `telemetry::power` (`UPDATE_DOCS=1 cargo test -p telemetry power`). Definitions of the columns: [metrics.md](metrics.md), \
views `host_energy`, `replica_energy`, `perf_per_watt`, `energy_per_token` and `carbon`.\n\n\
## The ladder\n\n\
`method` names the rung on every row; two methods are never one average.\n\n\
| rung | method | what it is |\n|---|---|---|\n\
| 1 | `energy_counter` | rise of the device's own counter of joules; one that fell or started anew says nothing about the time before |\n\
| 2 | `integrated_power` | watts between two samples at most two minutes apart, their mean times the time (trapezoid) |\n\
| 3 | `percent_of_max` | Neuron's percentage of the largest power times the `max_watts` that the operator set: AWS publishes no watts |\n\
| 4 | `load_curve` | a curve of the load: what `sim` and `neuron` nodes say of their chips, and hosts without a meter whose power model has a curve |\n\
| 5 | `tdp` | no meter and no curve: the power model's watts at rest while the engines rested, its full watts while they ran. An upper bound |\n\n\
What `host_energy` takes, in this order:\n\n\
1. **One device is counted once**, whoever reports it, by host, kind, id and boundary: by the highest rung that somebody has for it; on the same \
rung by a counter before power, and by one that did not start anew before one that did. Processes with counters of their own (two nodes that read \
one processor package, dcgm-exporter and Triton on one GPU) are told apart by service and instance, and not added.\n\
2. **What was measured before what was not**: of the boundaries that a host has, those whose devices are all on rung 1 or 2 go first, then \
rung 3, then 4, then 5. Nothing modelled takes the place of something measured, however wide it is and even where it comes as a counter.\n\
3. **The widest boundary** of those: `facility`, `wall`, `node`, `board`, `chip`. They are never added. Boards of H100s draw at most 700 W, the \
same GPUs with their host, network and cooling 1,730 W: name the boundary or the figure says nothing.\n\
4. **A host that nobody meters** in a minute, and whose engines say how long they ran (or, where they count no time, in how many samples requests \
ran), has what the power model of its `host_type` says: an operator's own \
before one that comes with Tokenwatt, a curve before two figures, then the widest boundary. It says so in `method` and `confidence` and is never valid.\n\n\
A host with neither meter nor model has no joules: NULL, never 0.\n\n\
A `sim` or `neuron` node models its chips by their load in each step: positions computed a second as a share of the most that a prompt has reached \
(`sim`: of the published step times; `neuron`: of the steps so far, so that it says too much rather than too little at first). A step that failed counts \
as full load. Chips are called what the Neuron driver calls them, `neuron0` and on from the replica's first core, so that the driver's percentage \
and the node's model are of one device.\n\n\
**Coverage** is the share of the minute between samples that belong together, of the device that was watched least; `largest_gap_s` the longest \
time without one. It is 0 where a device of the host was not metered at all: its only step was the restart of a counter, it was heard of in \
the minute before and no longer is, or a node says that its host has more chips (`nodes.chips`) than were heard of at boundary `chip` or `board`. A minute is \
`valid` with a coverage of at least 0.9, no counter that started anew and no device missing; `flaw` says why it is not. Nothing is filled in: what nobody \
measured is in no sum.\n\n\
**Attribution**: a host's joules are shared over its replicas by chips. Of a replica's, `idle` is the power model's watts at rest times the \
time without a step (where the model has the same boundary; else the share of the time), and the rest follows device time. \
Requests + padding + idle + unattributed + shared are the host's joules.\n";

fn own(page: &mut String) {
    page.push_str(
        "\n## Own models\n\n```sh\ntokenwatt import power power.csv                    # the list `default`\n\
         tokenwatt import power --list lab curves.csv        # another one beside it\n```\n\nA list takes the place of the one of its name as a \
         whole, and any list goes before what comes with Tokenwatt. A curve is followed on straight lines between its points, the load \
         being the share of the minute in which the host's engines ran (`load_curve`); without one the watts at rest and at full load are taken \
         by that share (`tdp`). Neither takes the place of a meter.\n\n",
    );
    columns(page, list::COLUMNS);
    page.push_str(
        "\n```csv\ndevice,boundary,load,load_w,effective_from,source\n\
         p5.48xlarge,wall,0 0.1 0.25 0.5 1,3900 6100 7400 8600 10200,2026-11-01,rack meter of 2026-11-03\n```\n",
    );
}

fn columns(page: &mut String, columns: &[ListColumn]) {
    page.push_str("| column | | meaning |\n|---|---|---|\n");
    for column in columns {
        let needed = if column.needed { "needed" } else { "" };
        let _ = writeln!(page, "| `{}` | {needed} | {} |", column.name, column.doc);
    }
}

/// Hosts whose curve comes with Tokenwatt.
fn bundled(page: &mut String) {
    page.push_str(
        "\n## Hosts that nobody meters\n\nThe curves that come with Tokenwatt, by host type (`data/power_models.csv`; Neuron hosts have two figures and `tdp`, \
         since nobody published watts of them under load). Teads stressed whole machines. The GPU hosts of the fit below have its watts times their \
         GPUs, for GPU boards alone; its load is a share of the highest output rate, and here it is the share of the minute in which the engines ran: an engine that always runs, at a \
         small batch, is said to draw more than it does. Where the first point is no GPU at rest, there is no `idle_w`, and idle joules are shared by time.\n\n\
         | host type | boundary | at 0 | at 0.5 | at 1 | confidence | source |\n|---|---|---|---|---|---|---|\n",
    );
    for model in super::bundled().iter().filter(|model| !model.curve.is_empty() && !model.device.contains(' ')) {
        let (load, watts): (Vec<_>, Vec<_>) = model.curve.iter().copied().unzip();
        let at = |share| {
            list::watts_at(&load, &watts, share).map_or_else(|| "—".to_owned(), |watts| format!("{watts:.0} W"))
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} | {} | {} |",
            model.device,
            model.boundary,
            at(0.0),
            at(0.5),
            at(1.0),
            model.confidence,
            model.source
        );
    }
}

fn own_factors(page: &mut String) {
    page.push_str(
        "\n## Own factors\n\n```sh\ntokenwatt import grid grid.csv                  # the list `default`\n\
         tokenwatt import grid --list green supplier.csv     # another one beside it\n```\n\nA list takes the place of the one of its name as a whole, and \
         any list goes before what comes with Tokenwatt: grams of a method before those of the same method, a PUE before every other. A region may have a row of each method, and a PUE in any one of them or in \
         a row of its own.\n\n",
    );
    columns(page, grid::list::COLUMNS);
    page.push_str(
        "\n```csv\nregion,gco2e_per_kwh,method,pue,effective_from,effective_to,source\n\
         eu-west-1,0,market,,2026-01-01,2027-01-01,certificates of 2026\neu-west-1,,,1.07,2026-01-01,,meter of hall 2\n```\n",
    );
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn errors<'a>(all: &'a [Unseen], of: impl Fn(&Unseen) -> bool + 'a) -> Vec<f64> {
    all.iter().filter(|unseen| of(unseen)).map(|unseen| unseen.error.abs()).collect()
}

/// Middle, nine tenths and number of errors.
fn summary(mut errors: Vec<f64>) -> (String, String, usize) {
    errors.sort_by(f64::total_cmp);
    let tenth = errors.get(errors.len() * 9 / 10).copied().unwrap_or(f64::NAN);
    let count = errors.len();
    (median(errors).map_or_else(|| "—".to_owned(), percent), percent(tenth), count)
}

fn curves(page: &mut String) {
    let all = curve::unseen();
    page.push_str(
        "\n## Load curves\n\nWatts of a GPU board are `TDP · (idle + (full - idle) · load ^ exponent)`, the load being the output rate as a share of \
         the deployment's highest. Fitted to the least median error on the runs of `data/mlenergy_extract.csv` (ML.ENERGY, H100 and B200, boards \
         only). The runs were all under load, so `idle` is where the curve begins and not a GPU at rest. Errors are of runs whose model the \
         fit had not seen (one model left out at a time), shares of the measured watts.\n\n\
         | GPU | TDP | idle | full | exponent | runs | median error, unseen | nine tenths within |\n|---|---|---|---|---|---|---|---|\n",
    );
    for (gpu, full_w) in FULL_W {
        let Some(fit) = curve::fitted(gpu) else { continue };
        let (middle, tenth, runs) = summary(errors(&all, |unseen| unseen.run.gpu == gpu));
        let _ = writeln!(
            page,
            "| {gpu} | {full_w:.0} W | {:.2} | {:.2} | {:.2} | {runs} | {middle} | {tenth} |",
            fit.idle_share, fit.full_share, fit.exponent
        );
    }
    let (middle, tenth, runs) = summary(errors(&all, |_| true));
    let _ = writeln!(page, "| both | | | | | {runs} | **{middle}** | {tenth} |");
    simpler(page);
}

/// What the load is worth: the same runs by simpler shapes.
fn simpler(page: &mut String) {
    page.push_str(
        "\nThe same runs, left out in the same way, by what is simpler: a straight line with any beginning and end, and the same watts whatever the load.\n\n\
         | GPU | curve | straight line | constant watts |\n|---|---|---|---|\n",
    );
    for (gpu, _) in FULL_W {
        let [curve, line, constant] = [Shape::Curve, Shape::Line, Shape::Constant].map(|shape| {
            let errors = curve::unseen_by(shape, gpu).iter().map(|unseen| unseen.error.abs()).collect();
            let (middle, tenth, _) = summary(errors);
            format!("{middle}, nine tenths within {tenth}")
        });
        let _ = writeln!(page, "| {gpu} | {curve} | {line} | {constant} |");
    }
    page.push_str(
        "\nSo on these runs the load tells little that a constant does not: on the H100 the curve is as good as a straight line that begins high, and on the B200 a \
         constant is as good in the middle, the curve in the tail. Which model is served decides more than the load does, and is in none of the three. What \
         is ruled out is the usual line from a machine at rest to its full watts, which errs more than twice as much.\n",
    );
}

fn models(page: &mut String) {
    let all = curve::unseen();
    let models: BTreeSet<&str> = all.iter().map(|unseen| unseen.run.model.as_str()).collect();
    page.push_str("\n| model left out | runs | median error | nine tenths within |\n|---|---|---|---|\n");
    for model in models {
        let (middle, tenth, runs) = summary(errors(&all, |unseen| unseen.run.model == model));
        let _ = writeln!(page, "| {model} | {runs} | {middle} | {tenth} |");
    }
    page.push_str(
        "\nThe middle is good and the tail is long. On the B200 the curve reports too much at low load (a fifth too much in the middle between 5 and \
         10 % of the rate), and single models are off by a third: where a figure matters, meter it.\n\n\
         Simulated nodes use one exponent for all chips ([calibration.md](calibration.md)); it is carried over to Inferentia2 and \
         Trainium1, of which nobody published watts under load, and sent as `assumed`.\n",
    );
}

const GRID: &str = "\n## From joules to grams\n\n\
View `carbon` multiplies step by step, and each factor stands beside the result with its date and source: joules as measured, times PUE \
(facility energy over that of the machines; left out where the boundary is `facility` already), times grams of CO2e a kilowatt hour. The \
factors are looked up by time and each by itself: PUE and grid may be of different years.\n\n\
`grid_method` says which grams: `location based, average` (what the region's grid emits), `location based, marginal` (what one more \
kilowatt hour would) or, where an operator imported it, `market based`. One row for each: name one, they are never added. Market \
based figures of many AWS regions are 0 by certificates, so the pages show location based averages.\n\n\
A region without PUE or without grams has no result: NULL.\n";

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    #[test]
    fn docs_power_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/power.md");
        let wanted = super::markdown();
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, &wanted).expect("docs/ is writable");
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == wanted, "docs/power.md is stale: UPDATE_DOCS=1 cargo test -p telemetry power");
    }
}
