//! `docs/calibration.md`: coefficients and errors, row by row.

use std::fmt::Write;
use std::sync::LazyLock;

use super::hardware::{Family, HARDWARE};
use super::roofline::{self, Fit, GPU_PREFILL_SHARE};
use super::rows::{self, BenchmarkRow, GpuRow};
use super::{Calibration, Method, PowerCurve, Roofline, StepModel, StepShape, Target, least, power};

/// Errors of a family's formula over its rows, as shares.
struct Errors {
    /// Of each row's time per output token.
    decode: Vec<f64>,
    /// The same where the row's model was left out of the fit.
    unseen: Vec<f64>,
    /// Of each row's time to first token.
    prefill: Vec<Option<f64>>,
}

static NEURON_ERRORS: LazyLock<Errors> = LazyLock::new(|| {
    let rows = rows::neuron();
    let whole = roofline::of(Family::Neuron);
    let without = |row: &BenchmarkRow| roofline::neuron(rows.iter().filter(|other| !alike(&row.model, &other.model)));
    let unseen = once_a_model(rows, |row| &row.model, without);
    let decode = |row: &BenchmarkRow, fit: Option<&Fit>| {
        let ms = row.decode_terms().zip(fit).map(|(terms, fit)| least::value(&terms, &fit.decode));
        ms.map_or(f64::NAN, |ms| ms / row.tpot_p50_ms - 1.0)
    };
    let prefill = |row: &BenchmarkRow| {
        let ms = row.prefill_terms().zip(whole).map(|(terms, fit)| least::value(&terms, &fit.prefill));
        // A batch of prompts is reckoned as one after another.
        ms.map(|ms| f64::from(row.batch) * ms / row.ttft_p50_ms - 1.0)
    };
    Errors {
        decode: rows.iter().map(|row| decode(row, whole)).collect(),
        unseen: rows.iter().zip(&unseen).map(|(row, fit)| decode(row, fit.as_ref())).collect(),
        prefill: rows.iter().map(prefill).collect(),
    }
});

static GPU_ERRORS: LazyLock<Errors> = LazyLock::new(|| {
    let rows = rows::gpu();
    let whole = roofline::of(Family::Gpu);
    let without = |row: &GpuRow| roofline::gpu(rows.iter().filter(|other| other.model != row.model));
    let unseen = once_a_model(rows, |row| &row.model, without);
    let error = |row: &GpuRow, fit: Option<&Fit>| {
        let ms = row.decode_terms().zip(fit).map(|(terms, fit)| least::value(&terms, &fit.decode));
        ms.map_or(f64::NAN, |ms| ms / row.itl_p50_ms - 1.0)
    };
    Errors {
        decode: rows.iter().map(|row| error(row, whole)).collect(),
        unseen: rows.iter().zip(&unseen).map(|(row, fit)| error(row, fit.as_ref())).collect(),
        prefill: vec![None; rows.len()],
    }
});

/// Two names of one model: the same parameters and layers.
fn alike(one: &str, other: &str) -> bool {
    let shape = |name| super::Architecture::of(name).map(|model| (model.parameters, model.layers));
    one == other || shape(one) == shape(other)
}

/// A fit for each row, made once for each model.
fn once_a_model<T>(rows: &[T], name: impl Fn(&T) -> &str, fit: impl Fn(&T) -> Option<Fit>) -> Vec<Option<Fit>> {
    let mut known: Vec<(&str, Option<Fit>)> = Vec::new();
    let mut fits = Vec::with_capacity(rows.len());
    for row in rows {
        let found = known.iter().find(|(known, _)| *known == name(row)).map(|(_, fit)| fit.clone());
        let found = found.unwrap_or_else(|| {
            let made = fit(row);
            known.push((name(row), made.clone()));
            made
        });
        fits.push(found);
    }
    fits
}

fn errors(family: Family) -> &'static Errors {
    match family {
        Family::Neuron => &NEURON_ERRORS,
        Family::Gpu => &GPU_ERRORS,
    }
}

fn mean_abs(errors: impl IntoIterator<Item = f64>) -> f64 {
    least::mean(errors.into_iter().map(f64::abs))
}

/// What a roofline shows with its numbers: the errors over all rows of its family.
pub(super) fn roofline_calibration(roofline: &Roofline, target: &Target<'_>) -> Calibration {
    let family = roofline.hardware.family;
    let errors = errors(family);
    let single = rows::neuron().iter().zip(&errors.prefill).filter(|(row, _)| row.batch == 1);
    let prefill = single.filter_map(|(_, error)| *error);
    Calibration {
        method: Method::Roofline,
        hardware: target.hardware.to_owned(),
        model: target.model.to_owned(),
        weight_type: roofline.weight_type.clone(),
        chips: roofline.chips,
        tensor_parallel: roofline.degree,
        source: if family == Family::Neuron { "SDK 2.18" } else { "ML.ENERGY" }.to_owned(),
        rows: errors.decode.len(),
        decode_error: mean_abs(errors.decode.iter().copied()),
        unseen_error: Some(mean_abs(errors.unseen.iter().copied())),
        exact: false,
        prefill_error: (family == Family::Neuron).then(|| mean_abs(prefill)),
        batch_max: match family {
            Family::Neuron => rows::neuron().iter().map(|row| row.batch).max().unwrap_or(1),
            Family::Gpu => rows::gpu().iter().map(|row| row.batch.round() as u32).max().unwrap_or(1),
        },
    }
}

/// The text of `docs/calibration.md`, but for what the node adds.
pub fn calibration_markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    formulas(&mut page);
    summary(&mut page);
    machines(&mut page);
    every_row(&mut page);
    serving(&mut page);
    gpus(&mut page);
    watts(&mut page);
    page
}

const INTRODUCTION: &str = "# Calibration of simulated step times\n\n\
Generated from `telemetry::step`; `cargo xtask docs` prints it again. Errors are shares of the published figure, and a mean is \
a mean of absolute ones. A simulated node sends its note with every span and metric (`tokenwatt.simulated`), shows it on \
`/v1/models` and as the gauge `tokenwatt_node_calibration_error_ratio`.\n\n\
Three step models: `table` takes the rows of one model on one machine; `roofline` takes the figures of machine and model, with \
coefficients that all rows of a family of machines share; `replay` takes records of real steps \
(`[node.engine.sim] step_model`). Rows: `data/neuron_decoder_benchmarks.csv` (AWS Neuron SDK 2.18), \
`data/neuron_serving_benchmarks.csv` (optimum-neuron) and `data/mlenergy_extract.csv` (ML.ENERGY).\n";

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn formulas(page: &mut String) {
    page.push_str("\n## Coefficients of the roofline\n\nA time is the sum of coefficient times term. Terms that are bytes or operations over a rate are milliseconds and come from the machine's figures; \
         those of layers, context, sequences and a prompt as such are the same on every machine of a family.\n");
    for (family, title) in [(Family::Neuron, "Inferentia2 and Trainium1"), (Family::Gpu, "H100 and B200")] {
        let Some(fit) = roofline::of(family) else { continue };
        let parts =
            [("decode step", roofline::decode_terms(family), &fit.decode), ("prompt", roofline::PREFILL, &fit.prefill)];
        for (part, terms, coefficients) in parts {
            let _ = write!(page, "\n{title}, {part}:\n\n| term | coefficient | what it multiplies |\n|---|---|---|\n");
            for (term, coefficient) in terms.iter().zip(coefficients) {
                let _ = writeln!(page, "| {} | {coefficient:.4} | {} |", term.name, term.meaning);
            }
        }
    }
    let _ = write!(
        page,
        "\nA GPU computes prompts at {:.0} % of its peak: assumed, the rows have no prompts. Their contexts are not published and \
         taken as {:.0} tokens.\n",
        100.0 * GPU_PREFILL_SHARE,
        roofline::GPU_CONTEXT,
    );
}

fn summary(page: &mut String) {
    page.push_str("\n## Errors\n\n| rows | figure | step model | mean in sample | mean, the row's model left out | largest |\n|---|---|---|---|---|---|\n");
    let largest = |errors: &[f64]| errors.iter().map(|error| error.abs()).fold(0.0, f64::max);
    for (family, name) in [(Family::Neuron, "Neuron"), (Family::Gpu, "GPU")] {
        let found = errors(family);
        let _ = writeln!(
            page,
            "| {} {name} | time per output token | roofline | {} | {} | {} |",
            found.decode.len(),
            percent(mean_abs(found.decode.iter().copied())),
            percent(mean_abs(found.unseen.iter().copied())),
            percent(largest(&found.decode)),
        );
    }
    let (decode, prefill) = table_errors();
    let _ = writeln!(
        page,
        "| {} Neuron | time per output token | table | {} | — | {} |",
        decode.len(),
        percent(mean_abs(decode.iter().copied())),
        percent(largest(&decode)),
    );
    let single = |errors: &[f64]| -> Vec<f64> {
        rows::neuron().iter().zip(errors).filter(|(row, _)| row.batch == 1).map(|(_, error)| *error).collect()
    };
    let formula: Vec<f64> = NEURON_ERRORS.prefill.iter().map(|error| error.unwrap_or(f64::NAN)).collect();
    for (method, errors) in [("roofline", single(&formula)), ("table", single(&prefill))] {
        let _ = writeln!(
            page,
            "| {} Neuron, batch 1 | time to first token | {method} | {} | — | {} |",
            errors.len(),
            percent(mean_abs(errors.iter().copied())),
            percent(largest(&errors)),
        );
    }
    page.push_str("\nTime per output token on Neuron without one of the formula's terms, the others fitted anew:\n\n| left out | mean in sample |\n|---|---|\n");
    for (name, error) in super::ablation::neuron() {
        let _ = writeln!(page, "| {name} | {} |", percent(error));
    }
    page.push_str(
        "\nCodeLlama-13b is Llama-2-13b by another name and left out with it. Long prompts on Trainium1 (Llama-2-13b and \
         Mistral, 4,096 tokens and more) took three times as long as anything else in the rows suggests, and so did \
         4,096 tokens of Mistral on Inferentia2; no formula follows them.\n",
    );
}

/// Errors of each row's own table: decode, prefill.
pub(super) fn table_errors() -> (Vec<f64>, Vec<f64>) {
    let mut tables: Vec<(&str, &str, Option<super::Table>)> = Vec::new();
    for row in rows::neuron() {
        if !tables.iter().any(|(machine, model, _)| (*machine, *model) == (&row.instance_type, &row.model)) {
            let target = Target { hardware: &row.instance_type, model: &row.model, chips: None, weight_type: None };
            tables.push((&row.instance_type, &row.model, super::table::of(&target).map(|(table, ..)| table)));
        }
    }
    let of = |row: &BenchmarkRow| {
        tables.iter().find(|(machine, model, _)| (*machine, *model) == (&row.instance_type, &row.model))?.2.as_ref()
    };
    let decode = rows::neuron().iter().map(|row| of(row).map_or(f64::NAN, |table| table.decode_error(row)));
    let prefill = rows::neuron().iter().map(|row| {
        let one = of(row).map_or(f64::NAN, |table| table.prefill_error(row) + 1.0);
        f64::from(row.batch) * one - 1.0
    });
    (decode.collect(), prefill.collect())
}

/// Pairs of rows that differ in the machine alone: (Inf2, Trn1, their indices).
fn pairs() -> Vec<(usize, usize)> {
    let rows = rows::neuron();
    let key = |row: &BenchmarkRow| (row.model.clone(), row.batch, row.sequence_length, row.input_tokens);
    let on = |machine: &'static str| rows.iter().enumerate().filter(move |(_, row)| row.instance_type == machine);
    let mut pairs = Vec::new();
    for (inf2, row) in on("inf2.48xlarge") {
        pairs.extend(on("trn1.32xlarge").filter(|(_, other)| key(other) == key(row)).map(|(trn1, _)| (inf2, trn1)));
    }
    pairs
}

/// Published and reckoned time on Trn1 over that on Inf2, for every pair of rows.
pub(super) fn machine_ratios() -> Vec<(&'static BenchmarkRow, f64, f64)> {
    let (rows, errors) = (rows::neuron(), &NEURON_ERRORS.decode);
    let ratio = |(inf2, trn1): (usize, usize)| {
        let published = rows[trn1].tpot_p50_ms / rows[inf2].tpot_p50_ms;
        (&rows[inf2], published, published * (1.0 + errors[trn1]) / (1.0 + errors[inf2]))
    };
    pairs().into_iter().map(ratio).collect()
}

fn machines(page: &mut String) {
    page.push_str("\n## Machines\n\n| machine | chips | memory bandwidth of a chip | peak of a chip | link of a chip | figures from |\n|---|---|---|---|---|---|\n");
    for machine in HARDWARE {
        let _ = writeln!(
            page,
            "| {} | {} | {:.0} GB/s | {:.0} TFLOP/s | {:.0} GB/s | {} |",
            machine.name,
            machine.chips,
            machine.memory_rate / 1e9,
            machine.compute_rate / 1e12,
            machine.link_rate / 1e9,
            machine.source,
        );
    }
    let ratios = machine_ratios();
    let error = mean_abs(ratios.iter().map(|(_, published, reckoned)| reckoned / published - 1.0));
    let alike = mean_abs(ratios.iter().map(|(_, published, _)| 1.0 / published - 1.0));
    let _ = write!(
        page,
        "\nNothing in the coefficients knows Trn1 from Inf2. Time per output token on trn1.32xlarge over that on inf2.48xlarge, for \
         the {} pairs of rows that differ in the machine alone; mean error {}, and {} if the two were taken to be alike:\n\n| model | batch | sequence | published | reckoned |\n|---|---|---|---|---|\n",
        ratios.len(),
        percent(error),
        percent(alike),
    );
    for (row, published, reckoned) in ratios {
        let _ = writeln!(
            page,
            "| {} | {} | {} | {published:.2} | {reckoned:.2} |",
            row.model, row.batch, row.sequence_length
        );
    }
}

fn every_row(page: &mut String) {
    let (decode, prefill) = table_errors();
    page.push_str(
        "\n## Every row\n\nTime per output token (TPOT) and time to first token (TTFT), published medians in milliseconds and the error of \
         each step model; `left out` is the roofline that has not seen the model. A batch of prompts is reckoned as one after another, as a \
         node computes them, while the published server computed them together: those errors say how far the two differ.\n\n\
         | machine | model | weights | batch | sequence | prompt | TPOT | roofline | left out | table | TTFT | roofline | table |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (at, row) in rows::neuron().iter().enumerate() {
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {:.2} | {:+.1} % | {:+.1} % | {:+.1} % | {:.1} | {:+.0} % | {:+.0} % |",
            row.instance_type,
            row.model,
            row.weight_type,
            row.batch,
            row.sequence_length,
            row.input_tokens,
            row.tpot_p50_ms,
            100.0 * NEURON_ERRORS.decode[at],
            100.0 * NEURON_ERRORS.unseen[at],
            100.0 * decode[at],
            row.ttft_p50_ms,
            100.0 * NEURON_ERRORS.prefill[at].unwrap_or(f64::NAN),
            100.0 * prefill[at],
        );
    }
}

fn serving(page: &mut String) {
    page.push_str(
        "\n## Rows that no coefficient has seen\n\noptimum-neuron on inf2.48xlarge, four chips (24 months younger software): the gap between tokens by compiled \
         slots, published as a range from short to long contexts, against the roofline at contexts of 512 and 4,096 tokens. Its prompts all took \
         one compiled length of 4,096 tokens; the roofline takes their published time where just this deployment is simulated.\n\n\
         | slots | published ITL | roofline ITL | published time of a prompt | formula |\n|---|---|---|---|---|\n",
    );
    for row in rows::serving() {
        let target = Target {
            hardware: &row.instance_type,
            model: &row.model,
            chips: Some(row.tensor_parallel.div_ceil(2)),
            weight_type: Some(&row.weight_type),
        };
        let Ok(model) = StepModel::roofline(&target) else { continue };
        let ms = |context| {
            let shape = StepShape { prefill_tokens: 0, decode_slots: row.slots, context };
            model.time(shape).decode_ns as f64 / 1e6
        };
        let super::Times::Roofline(roofline) = &model.times else { continue };
        let terms = roofline.deployment().prefill(f64::from(row.prompt_bucket));
        let _ = writeln!(
            page,
            "| {} | {:.0} to {:.0} ms | {:.1} to {:.1} ms | {:.0} ms | {:.0} ms |",
            row.slots,
            row.itl_low_ms,
            row.itl_high_ms,
            ms(512),
            ms(4_096),
            row.prompt_ms(),
            least::value(&terms, &roofline.fit.prefill),
        );
    }
}

fn gpus(page: &mut String) {
    page.push_str(
        "\n## GPU rows by deployment\n\nMedian gap between tokens of chat rows in bfloat16, by the mean number of sequences in a step. The `table` of a GPU goes \
         through every row; a node shows its error on rows left out.\n\n| GPU | GPUs | model | batches | rows | roofline | left out | largest |\n|---|---|---|---|---|---|---|---|\n",
    );
    let rows = rows::gpu();
    let mut groups: Vec<(&str, u32, &str)> = rows.iter().map(|row| (&*row.gpu, row.gpus, &*row.model)).collect();
    groups.sort_unstable();
    groups.dedup();
    for group in groups {
        let members: Vec<usize> =
            (0..rows.len()).filter(|at| (&*rows[*at].gpu, rows[*at].gpus, &*rows[*at].model) == group).collect();
        let batches = || members.iter().map(|at| rows[*at].batch);
        let found = |errors: &'static [f64]| members.iter().map(move |at| errors[*at]);
        let _ = writeln!(
            page,
            "| {} | {} | {} | {:.0} to {:.0} | {} | {} | {} | {} |",
            group.0,
            group.1,
            group.2,
            batches().fold(f64::INFINITY, f64::min),
            batches().fold(0.0, f64::max),
            members.len(),
            percent(mean_abs(found(&GPU_ERRORS.decode))),
            percent(mean_abs(found(&GPU_ERRORS.unseen))),
            percent(found(&GPU_ERRORS.decode).map(f64::abs).fold(0.0, f64::max)),
        );
    }
}

fn watts(page: &mut String) {
    let _ = write!(
        page,
        "\n## Power\n\nA chip at load draws `idle + (full - idle) · load ^ {}`: concave, since the first sequence wakes most of a chip. The exponent is the one \
         that repeats the {} GPU rows best, their load being output tokens a second as a share of the deployment's most, idle 15 % of \
         full; mean error {}. It is carried over to Inferentia2 and Trainium1, of which AWS publishes no watts: assumed, and sent so.\n",
        PowerCurve::EXPONENT,
        rows::gpu().len(),
        percent(power::error(PowerCurve::EXPONENT)),
    );
}
