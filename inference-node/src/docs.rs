//! Pages and figures that the node's own simulation gives: `docs/calibration.md` and `docs/batching.md`.

use std::fmt::Write;

use crate::engine::EngineError;
use crate::engine::sim::{self, Sim, Times};
use crate::schedule::{self, Policy};
use crate::virtual_time::{ClosedLoop, Seen, closed_loop};

/// p99 time to first token of one number of users.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchingPoint {
    /// Users in the closed loop.
    pub users: u32,
    /// With continuous batching (`neuron_slots`), seconds.
    pub continuous_s: f64,
    /// With static batching, seconds.
    pub static_s: f64,
}

/// Compiled slots of the comparison: as many as the most users.
const SLOTS: u32 = 32;
/// Calls of each user that are measured.
const CALLS: u32 = 40;

/// Llama-3-8B with INT8 weights on inf2.48xlarge, 128 prompt and 512 output tokens, 4 to 32 users: the same calls under
/// continuous and under static batching.
///
/// # Errors
/// Those of the engine.
pub fn batching() -> Result<Vec<BatchingPoint>, EngineError> {
    (1..=8).map(|step| point(4 * step, THINK_S)).collect()
}

fn point(users: u32, think_s: f64) -> Result<BatchingPoint, EngineError> {
    let config = sim::Config { slots: SLOTS, max_len: 1024, ..sim::Config::default() };
    let load = ClosedLoop {
        users,
        prompt_tokens: 128..=128,
        output_tokens: 512..=512,
        think_s,
        start_s: 6.0,
        calls: CALLS,
        seed: 1,
    };
    let p99 = |policy| -> Result<f64, EngineError> {
        let schedule = schedule::Config { policy: Some(policy), ..schedule::Config::default() };
        let seen = closed_loop(&mut Sim::load(&config)?, schedule, &load)?;
        Ok(Seen::quantile(&seen.ttft_s, 0.99))
    };
    Ok(BatchingPoint { users, continuous_s: p99(Policy::NeuronSlots)?, static_s: p99(Policy::StaticBatch)? })
}

/// Mean time between an answer and the user's next call, seconds.
const THINK_S: f64 = 1.0;

/// What optimum-neuron measured: Llama-3.1-8B in bfloat16 on four chips of inf2.48xlarge, 32 compiled slots, one compiled
/// prompt length of 4,096 tokens, 32 users without pause, prompts of 1,500 ± 150 tokens and answers of about 250. The users begin
/// within `start_s` seconds.
///
/// # Errors
/// Those of the engine.
pub fn loaded_server(start_s: f64) -> Result<Seen, EngineError> {
    let config = sim::Config {
        model: "Llama-3.1-8B".to_owned(),
        step_model: Times::Roofline,
        weight_type: Some("bf16".to_owned()),
        chips: Some(4),
        slots: 32,
        ..sim::Config::default()
    };
    let load = ClosedLoop {
        users: 32,
        prompt_tokens: 1_350..=1_650,
        output_tokens: 200..=300,
        think_s: 0.0,
        start_s,
        calls: 10,
        seed: 1,
    };
    let schedule = schedule::Config { prompt_bucket_min: 4_096, ..schedule::Config::default() };
    closed_loop(&mut Sim::load(&config)?, schedule, &load)
}

/// Seconds within which the users of the loaded server begin: about as long as a call takes.
pub(crate) const SPREAD_S: f64 = 16.0;

/// Figures that optimum-neuron published of that server: gap between tokens, time to first token, output tokens a second.
const PUBLISHED: (f64, f64, f64) = (0.0591, 2.1, 426.0);

/// The text of `docs/calibration.md`.
///
/// # Errors
/// Those of the simulated engine.
pub fn calibration_markdown() -> Result<String, EngineError> {
    let mut page = telemetry::step::calibration_markdown();
    let seen = loaded_server(SPREAD_S)?;
    page.push_str(
        "\n## A loaded server\n\nStep times of an idle server, put through the scheduler in virtual time, give what a loaded one shows: 32 users without pause on \
         32 compiled slots of optimum-neuron's server (Llama-3.1-8B, bfloat16, four chips of inf2.48xlarge, prompts of 1,500 ± 150 tokens in one compiled length \
         of 4,096, answers of 200 to 300 tokens, 320 calls, seed 1). Every admission stalls every decoder, which is most of the gap.\n\n\
         | figure | published | simulated | error |\n|---|---|---|---|\n",
    );
    let figures = [
        ("mean gap between tokens", PUBLISHED.0, Seen::mean(&seen.itl_s), " s"),
        ("mean time to first token", PUBLISHED.1, Seen::mean(&seen.ttft_s), " s"),
        ("output tokens a second", PUBLISHED.2, seen.tokens_per_s, ""),
    ];
    for (name, published, simulated, unit) in figures {
        let error = 100.0 * (simulated / published - 1.0);
        let _ = writeln!(page, "| {name} | {published}{unit} | {simulated:.3}{unit} | {error:+.0} % |");
    }
    let at_once = loaded_server(0.0)?;
    let (first, later) = (Seen::mean(&at_once.first_ttft_s), Seen::mean(&at_once.ttft_s));
    let share = 100.0 * (PUBLISHED.1 - later) / (first - later);
    let _ = write!(
        page,
        "\nThe time to first token is not met. Most of the published one is waiting, and how those users were let loose is not published; \
         here they begin at random within 16 s, and a call comes only when another one has ended, so hardly any two wait for each other. \
         Let loose all at once, they wait {first:.1} s on average for the first token of their first call and {later:.2} s for those of later ones, \
         in the simulation; the published mean would be that of a run in which {share:.0} % of the calls were first ones. Whether it was one is not known, \
         and nothing here is fitted to it.\n",
    );
    page.push_str(REPLAY);
    Ok(page)
}

const REPLAY: &str = "\n## Replay of your own steps\n\nA node with `record.step_sampling` above 0 sends spans named `step`. From them comes the file for \
`step_model = \"replay\"`:\n\n```sh\ntokenwatt sql --server http://127.0.0.1:8080 --format csv \"SELECT \\\n  attributes['tokenwatt.step.prefill_tokens'] AS prefill_tokens, \
attributes['tokenwatt.step.decode_slots'] AS decode_slots, \\\n  attributes['tokenwatt.step.context'] AS context, attributes['tokenwatt.step.device_us'] AS device_us \\\n  \
FROM spans WHERE name = 'step'\" > steps.csv\n```\n";

/// The text of `docs/batching.md`.
///
/// # Errors
/// Those of the simulated engine.
pub fn batching_markdown(points: &[BatchingPoint]) -> Result<String, EngineError> {
    let mut page = String::from(
        "# Continuous and static batching\n\nGenerated from `inference_node::docs`; `cargo xtask docs` prints it again.\n\n\
         The difference below is that of users who think between their calls. Users who call again at once, with answers of equal length, \
         fall into step, and then it is small: the last paragraph has the figures.\n\n\
         ![p99 time to first token by users: continuous batching stays near the time of a prompt, static batching waits for whole batches](images/batching.svg)\n\n",
    );
    let _ = write!(
        page,
        "p99 time to first token in virtual time. Llama-3-8B with INT8 weights on inf2.48xlarge, step times of the published rows (`docs/calibration.md`; 32 slots \
         are four times their largest batch, an extrapolation), {SLOTS} compiled slots, prompts of 128 and answers of 512 tokens, users in a closed loop who think \
         {THINK_S} s on average before they call again, {CALLS} calls of each user after a first one, seed 1.\n\n\
         | users | continuous (`neuron_slots`) | static (`static_batch`) | ratio |\n|---|---|---|---|\n"
    );
    for point in points {
        let _ = writeln!(
            page,
            "| {} | {:.1} ms | {:.0} ms | {:.0} |",
            point.users,
            1e3 * point.continuous_s,
            1e3 * point.static_s,
            point.static_s / point.continuous_s,
        );
    }
    if let (Some(few), Some(many)) = (points.first(), points.last()) {
        let tireless = point(many.users, 0.0)?;
        let _ = write!(
            page,
            "\nFrom {} to {} users it grows {:.2} times under continuous batching. {} users who never think and whose answers are all equally long march in \
             step: those who end together call together, for ever, and wait for each other's prompts; a static batch then takes all of them at once. \
             They see {:.1} ms under continuous and {:.0} ms under static batching: that load shows little of the difference.\n",
            few.users,
            many.users,
            many.continuous_s / few.continuous_s,
            many.users,
            1e3 * tireless.continuous_s,
            1e3 * tireless.static_s,
        );
    }
    Ok(page)
}
