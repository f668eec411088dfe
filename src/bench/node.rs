//! Node: what recording costs it, what its proxy adds to a call, and how fast the `cpu` engine computes here, one sequence alone and
//! several in a step.
//!
//! Recording is measured on a whole node under load, once simulated and paced at 20,000 tokens a second and once with the CPU engine;
//! turns with and without are compared in pairs.
//! With `--llama-cpp`, llama.cpp does the same on the same file and threads, in turns with ours; the best of all rounds counts, of
//! each. The engine is driven by plans of this module's making, without a scheduler and without HTTP. The simulated engine has no speed to
//! measure: its times are made up.

mod pace;
mod clients;
mod receiver;
mod threads;
mod paired;
mod recording;
mod proxying;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use inference_node::engine::{self, Engine, EngineError, EngineKind, Sampling, SeqId, SequenceInput, cpu};
use inference_node::schedule::{Phase, StepPlan, Work};
use serde_json::{Value, json};
use service::error::{Error, Result};

use super::llama_cpp::Peer;
use pace::Paced;
use recording::Load;

/// Flags of `tokenwatt bench node`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one line of JSON: what recording costs, and below `cpu` the figures of each batch.
    #[arg(long)]
    json: bool,
    /// The model of the CPU engine, a GGUF file. Without one only the simulated engine and the proxy are measured.
    #[arg(long, env = "TOKENWATT_MODEL")]
    model: Option<PathBuf>,
    /// Turns with tokens recorded, and as many without; they are compared in pairs, of which six say how sure it is. 0 leaves
    /// recording and proxy out.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(0..=999))]
    turns: u32,
    /// Seconds of each turn.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Tokens a second at which the simulated engine is paced.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pace: u32,
    /// Slots of the simulated engine: at the same pace more of them make longer steps.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    slots: u32,
    /// Sequences in a step, one figure for each.
    #[arg(long, value_delimiter = ',', default_value = "1,8", value_parser = clap::value_parser!(u32).range(1..=64))]
    batch: Vec<u32>,
    /// Tokens of each prompt.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    prompt_tokens: u32,
    /// Tokens that each sequence is asked for after its first.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    tokens: u32,
    /// Rounds, of which the fastest counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Measure llama.cpp beside it: directory of the npm package `@node-llama-cpp/linux-x64`.
    #[arg(long, value_name = "DIR")]
    llama_cpp: Option<PathBuf>,
}

/// Seconds that prompts and answers took.
#[derive(Clone, Copy)]
struct Took {
    prefill_s: f64,
    decode_s: f64,
}

impl Took {
    const NEVER: Took = Took { prefill_s: f64::INFINITY, decode_s: f64::INFINITY };

    fn least(self, other: Took) -> Took {
        Took { prefill_s: self.prefill_s.min(other.prefill_s), decode_s: self.decode_s.min(other.decode_s) }
    }
}

/// The prompt, again and again until it is long enough.
const PROMPT: &str = "A watt is a unit of power, the rate at which energy is converted from one form to another. ";

/// Calls at once to the CPU engine, and tokens of their answers: a turn has dozens of them.
const CPU_CLIENTS: u32 = 8;
const CPU_ANSWER_TOKENS: u32 = 64;
/// Tokens of an answer of the simulated engine.
const ANSWER_TOKENS: u32 = 100;
/// Calls to the simulated engine that wait at any time, one for so many slots, so that no slot waits for a client.
const WAITING_SHARE: u32 = 4;

/// Measures and prints the figures.
///
/// # Errors
/// `Invalid` if the model cannot be loaded.
pub(crate) async fn run(args: &Args) -> Result<()> {
    let length = Duration::from_secs(args.seconds);
    let mut figures = json!({});
    if args.turns > 0 {
        let paced = Paced::new(args.slots, args.pace)?;
        let load = Load {
            engine: &paced.engine,
            clients: args.slots + args.slots.div_ceil(WAITING_SHARE),
            slots: args.slots,
            answer_tokens: ANSWER_TOKENS,
            pace: Some(paced.tokens_per_s),
            length,
            turns: args.turns,
        };
        figures = recording::measure(&load).await?;
        figures["proxy"] = proxying::measure().await?;
    }
    figures["bench"] = json!("node");
    figures["profile"] = json!(if cfg!(debug_assertions) { "dev" } else { "release" });
    figures["cores"] = json!(std::thread::available_parallelism().ok().map(usize::from));
    if let Some(model) = &args.model {
        if args.turns > 0 {
            let cpu = cpu::Config { model_path: model.clone(), slots: CPU_CLIENTS, ..cpu::Config::default() };
            let engine = engine::Config { kind: EngineKind::Cpu, cpu, ..engine::Config::default() };
            let load = Load {
                engine: &engine,
                clients: CPU_CLIENTS,
                slots: CPU_CLIENTS,
                answer_tokens: CPU_ANSWER_TOKENS,
                pace: None,
                length,
                turns: args.turns,
            };
            figures["cpu_recording"] = recording::measure(&load).await?;
        }
        // Nothing else runs meanwhile, so the thread may be kept.
        figures["cpu"] = speed(args, model)?.into();
    }
    super::print(args.json, &figures)
}

/// How fast the CPU engine is: each batch after one that is thrown away.
fn speed(args: &Args, model: &Path) -> Result<Vec<Value>> {
    let slots = args.batch.iter().copied().max().unwrap_or(1);
    let begun = Instant::now();
    let config = cpu::Config { model_path: model.to_owned(), slots, ..cpu::Config::default() };
    let mut engine = cpu::build(&config).map_err(failed)?;
    let load_s = begun.elapsed().as_secs_f64();
    let words = engine.text().tokenize(PROMPT).map_err(failed)?;
    let prompt: Vec<u32> = words.iter().copied().cycle().take(args.prompt_tokens as usize).collect();
    measure(engine.as_mut(), args, &prompt, 1).map_err(failed)?;
    let threads = cpu::threads();
    let (prompt_tokens, tokens) = (args.prompt_tokens, args.tokens);
    let peer = args.llama_cpp.clone().map(|package| Peer { package, prompt_tokens, tokens, threads });
    let mut all = Vec::new();
    for batch in &args.batch {
        let (mut own, mut other, mut version) = (Took::NEVER, Took::NEVER, None);
        for _ in 0..args.rounds {
            own = own.least(measure(engine.as_mut(), args, &prompt, *batch).map_err(failed)?);
            if let Some(peer) = &peer {
                let speed = peer.measure(model, *batch)?;
                other = other.least(Took { prefill_s: speed.prefill_s, decode_s: speed.decode_s });
                version = Some(speed.version);
            }
        }
        let mut figures = figures(args, *batch, own);
        figures["threads"] = json!(threads);
        figures["model"] = json!(engine.describe().model);
        figures["quantization"] = json!(engine.describe().quantization);
        figures["load_s"] = json!(round(load_s));
        if let Some(version) = version {
            figures["llama_cpp"] = json!(version);
            figures["llama_cpp_prefill_tokens_per_s"] =
                json!(round(f64::from(prompt_tokens * batch) / other.prefill_s));
            figures["llama_cpp_decode_tokens_per_s"] = json!(round(f64::from(tokens * batch) / other.decode_s));
        }
        all.push(figures);
    }
    Ok(all)
}

fn failed(error: EngineError) -> Error {
    Error::invalid("the engine cannot run this").with_source(error)
}

/// Prompts one after the other, then steps in which every sequence gets a token.
fn measure(engine: &mut dyn Engine, args: &Args, prompt: &[u32], batch: u32) -> Result<Took, EngineError> {
    let length = args.prompt_tokens;
    let begun = Instant::now();
    for slot in 0..batch {
        let sampling = Sampling { temperature: 0.0, seed: 1, ignore_eos: true, ..Sampling::default() };
        let input = SequenceInput { prompt: prompt.into(), max_tokens: args.tokens + 1, sampling };
        engine.open(SeqId(u64::from(slot)), input)?;
        engine.step(&StepPlan::exact(vec![work(slot, Phase::Prefill, 0, length)], Vec::new()))?;
    }
    let prefill_s = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    for done in 0..args.tokens {
        let works = (0..batch).map(|slot| work(slot, Phase::Decode, length + done, 1));
        engine.step(&StepPlan::exact(works.collect(), Vec::new()))?;
    }
    let decode_s = begun.elapsed().as_secs_f64();
    (0..batch).for_each(|slot| engine.close(SeqId(u64::from(slot))));
    Ok(Took { prefill_s, decode_s })
}

fn figures(args: &Args, batch: u32, took: Took) -> Value {
    let length = args.prompt_tokens;
    json!({
        "batch": batch,
        "prompt_tokens": length,
        "tokens": args.tokens,
        "prefill_tokens_per_s": round(f64::from(length * batch) / took.prefill_s),
        "decode_tokens_per_s": round(f64::from(args.tokens * batch) / took.decode_s),
        "step_ms": round(1e3 * took.decode_s / f64::from(args.tokens)),
    })
}

fn work(slot: u32, phase: Phase, start: u32, tokens: u32) -> Work {
    let seq = SeqId(u64::from(slot));
    Work { seq, slot, phase, start, tokens, yields: true, first: start == 0, blocks: Arc::default() }
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
