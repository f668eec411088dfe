use super::*;
use crate::engine::Sampling;
use crate::schedule::{self, Policy, Scheduler};

fn sampling(seed: u64, ignore_eos: bool) -> Sampling {
    Sampling { seed, ignore_eos, ..Sampling::default() }
}

fn input(prompt: usize, seed: u64) -> SequenceInput {
    SequenceInput { prompt: vec![1; prompt].into(), max_tokens: 64, sampling: sampling(seed, true) }
}

fn sim(change: impl FnOnce(&mut Config)) -> Sim {
    let mut config = Config::default();
    change(&mut config);
    Sim::load(&config).unwrap()
}

/// The engine says what it is calibrated on; what nobody published does not load.
#[test]
fn description_names_the_calibration() {
    let engine = sim(|_| {});
    let about = engine.describe();
    assert_eq!((about.tensor_parallel, about.quantization.as_deref()), (Some(24), Some("int8")));
    assert_eq!((about.accelerator.as_deref(), about.chips), (Some("inferentia2"), Some(12)));
    assert!(about.simulated.as_deref().unwrap().contains("SDK 2.18"));
    let trn1 = sim(|config| config.like = "trn1.32xlarge".to_owned());
    assert_eq!((trn1.describe().tensor_parallel, trn1.describe().chips), (Some(32), Some(16)));
    assert!(Sim::load(&Config { model: "Llama-9".to_owned(), ..Config::default() }).is_err());
}

/// Other hardware keeps its own name, has no made-up memory, and says whose step times it uses.
#[test]
fn unknown_hardware_stays_unknown() {
    let engine = sim(|config| {
        config.accelerator = Some("custom-npu".to_owned());
        config.chips = Some(8);
    });
    let devices = engine.devices().unwrap();
    assert_eq!((devices.model.as_str(), devices.count, devices.memory_total_bytes), ("custom-npu", 8, None));
    assert!(engine.describe().simulated.as_deref().unwrap().contains("inf2.48xlarge"));
}

/// INT8 weights and a compiled cache fit into the chips, and are more than nothing.
#[test]
fn memory_is_plausible() {
    let devices = sim(|_| {}).devices().unwrap();
    let (used, total) = (devices.memory_used_bytes.unwrap(), devices.memory_total_bytes.unwrap());
    assert!(used > 700_000_000 && used < total, "{used}");
}

fn offer(id: u64, prompt: usize) -> schedule::Offer {
    schedule::Offer {
        id: SeqId(id),
        prompt: vec![id as u32; prompt].into(),
        output_max: 64,
        tenant: None,
        priority: 0,
        deadline_ns: None,
    }
}

fn steps(engine: &mut Sim, count: usize) -> Vec<(StepPlan, StepResult)> {
    scheduled(engine, schedule::Config { policy: Some(Policy::NeuronSlots), ..Default::default() }, count)
}

fn scheduled(engine: &mut Sim, config: schedule::Config, count: usize) -> Vec<(StepPlan, StepResult)> {
    let mut scheduler = Scheduler::new(config, 8, 4096);
    for (id, prompt) in [(1, 100), (2, 1000)] {
        engine.open(SeqId(id), input(prompt, id)).unwrap();
        scheduler.offer(offer(id, prompt)).unwrap();
    }
    (0..count)
        .map(|_| {
            let plan = scheduler.plan().unwrap();
            let result = engine.step(&plan).unwrap();
            scheduler.complete(&plan);
            (plan, result)
        })
        .collect()
}

fn device_ms(result: &StepResult) -> f64 {
    match result.time {
        StepTime::Modelled { device, .. } => device.as_secs_f64() * 1e3,
        StepTime::Measured { .. } => panic!("a simulated step is modelled"),
    }
}

/// Prompts take the bucket's time, decoders weigh the same, empty slots are padding.
#[test]
fn steps_are_priced_by_the_rows() {
    let run = steps(&mut sim(|_| {}), 4);
    let (short, long, decode) = (&run[0], &run[1], &run[2]);
    assert_eq!((short.0.kind, decode.0.kind), (StepKind::Prefill, StepKind::Decode));
    assert!((device_ms(&short.1) - 27.0).abs() < 3.0, "{}", device_ms(&short.1));
    assert!(device_ms(&long.1) > 40.0 && device_ms(&long.1) < 80.0, "{}", device_ms(&long.1));
    assert_eq!(short.1.padding_weight, 0);
    assert_eq!(decode.1.weights[0], decode.1.weights[1]);
    assert_eq!(decode.1.padding_weight, 6 * decode.1.weights[0]);
    assert_eq!(decode.1.tokens.len(), 2);
}

/// The same seed gives the same times and tokens.
#[test]
fn runs_repeat() {
    let run = |seed| steps(&mut sim(|config| config.seed = seed), 30);
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

/// The fault slows prefill only.
#[test]
fn slowdown_hits_prefill_only() {
    let (good, bad) = (steps(&mut sim(|_| {}), 3), steps(&mut sim(|config| config.prefill_slowdown = 20.0), 3));
    let ratio = |at: usize| device_ms(&bad[at].1) / device_ms(&good[at].1);
    assert!((ratio(0) - 20.0).abs() < 0.1 && (ratio(2) - 1.0).abs() < 0.01);
}

/// Sentences begin with a capital, end with a stop, and the sequence ends by itself.
#[test]
fn text_reads_like_text() {
    let mut engine = sim(|config| config.output_tokens_median = 40);
    let words = engine.text();
    let mut prompt = input(5, 3);
    prompt.sampling.ignore_eos = false;
    engine.open(SeqId(9), prompt).unwrap();
    let (mut decoder, mut text, mut tokens) = (words.decoder(), String::new(), 0);
    loop {
        let next = engine.next_token(SeqId(9)).unwrap();
        tokens += 1;
        if next.end {
            break;
        }
        decoder.push(next.token, &mut text);
    }
    assert!((2..400).contains(&tokens));
    assert!(text.chars().next().unwrap().is_uppercase(), "{text}");
    assert!(text.contains(". ") && !text.contains(" ."), "{text}");
}

/// Prompt length in tokens grows with the text; nothing is one token.
#[test]
fn tokens_of_a_prompt() {
    assert_eq!(text::Words.tokenize("").unwrap().len(), 1);
    assert_eq!(text::Words.tokenize("hello big world").unwrap().len(), 5);
}

/// Where nothing is compiled there is no padding, and a prompt in chunks costs its tokens once.
#[test]
fn token_budget_has_no_padding() {
    let config = schedule::Config { policy: Some(Policy::TokenBudget), step_tokens_max: 400, ..Default::default() };
    let run = scheduled(&mut sim(|_| {}), config, 8);
    assert!(run.iter().any(|(plan, _)| plan.kind == StepKind::Mixed));
    assert!(run.iter().all(|(_, result)| result.padding_weight == 0));
    for (plan, _) in &run {
        let tokens = plan.work.iter().filter(|work| work.phase == Phase::Prefill).map(|work| work.tokens).sum::<u32>();
        assert_eq!(Sim::shape(plan).prefill_tokens, tokens);
    }
}

/// A GPU steps by a token budget, at the published gap between tokens; parts of a machine have the roofline's times.
#[test]
fn other_machines_and_step_models() {
    let mut gpu = sim(|config| {
        config.like = "h100".to_owned();
        config.model = "meta-llama/Llama-3.1-8B-Instruct".to_owned();
    });
    assert_eq!((gpu.describe().policy, gpu.describe().chips), (Policy::TokenBudget, Some(1)));
    let run = scheduled(&mut gpu, schedule::Config { policy: Some(Policy::TokenBudget), ..Default::default() }, 4);
    let decode = run.iter().find(|(plan, _)| plan.kind == StepKind::Decode).unwrap();
    assert!((device_ms(&decode.1) - 7.3).abs() < 1.0, "{}", device_ms(&decode.1));
    let part = sim(|config| {
        config.model = "Llama-3.1-8B".to_owned();
        config.step_model = Times::Roofline;
        config.chips = Some(4);
    });
    assert_eq!((part.describe().tensor_parallel, part.describe().chips), (Some(8), Some(4)));
    assert!(part.describe().simulated.as_deref().unwrap().contains("roofline"));
    assert!(part.describe().calibration_error.unwrap() > 0.0);
    assert!(Sim::load(&Config { chips: Some(4), ..Config::default() }).is_err(), "a table of other chips");
}

/// Records of real steps give step times; without a file there is no replay.
#[test]
fn steps_are_replayed_from_a_file() {
    let path = std::env::temp_dir().join(format!("tokenwatt-steps-{}.csv", std::process::id()));
    let mut lines = String::from("prefill_tokens,decode_slots,context,device_us\n");
    for at in 1..60 {
        lines.push_str(&format!(
            "{},{},256,{}\n",
            at % 3 * 64,
            at % 5 + 1,
            4_000 + at % 3 * 64 * 20 + (at % 5 + 1) * 500
        ));
    }
    std::fs::write(&path, lines).unwrap();
    let mut engine = sim(|config| {
        config.step_model = Times::Replay;
        config.step_records = Some(path.clone());
    });
    std::fs::remove_file(&path).unwrap();
    let run = steps(&mut engine, 3);
    assert!((device_ms(&run[2].1) - 8.0).abs() < 0.5, "{}", device_ms(&run[2].1));
    let config = Config { step_model: Times::Replay, ..Config::default() };
    let mut faults = Vec::new();
    config.validate(&mut faults);
    assert_eq!(faults.len(), 1);
    assert!(Sim::load(&config).is_err());
}
