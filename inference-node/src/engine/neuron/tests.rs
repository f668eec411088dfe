//! The engine against a library of libnrt's interface that the tests build: what it computes, what it calls, what it gives back.

use std::path::PathBuf;

use super::*;
use crate::engine::ChatMessage;
use crate::schedule::{self, Work};

#[path = "../../../tests/neuron/stub.rs"]
mod stub;

use stub::{Compiled, LONGEST, Stub, continuation};

fn config(stub: &Stub) -> Config {
    Config { model_dir: stub.model().to_owned(), library: stub.library(), ..Config::default() }
}

fn load(stub: &Stub) -> Result<Neuron, String> {
    Neuron::load(&config(stub)).map_err(|error| error.to_string())
}

fn input(prompt: &[i64]) -> SequenceInput {
    SequenceInput {
        prompt: prompt.iter().map(|id| *id as u32).collect(),
        max_tokens: 1_000,
        sampling: Sampling { temperature: 0.0, seed: 1, ignore_eos: true, ..Sampling::default() },
    }
}

fn prefill(engine: &mut Neuron, seq: u64, slot: u32, prompt: &[i64]) -> Result<StepResult, EngineError> {
    engine.open(SeqId(seq), input(prompt))?;
    let work = work(seq, slot, schedule::Phase::Prefill, 0, prompt.len());
    engine.step(&plan(StepKind::Prefill, vec![work]))
}

fn work(seq: u64, slot: u32, phase: schedule::Phase, start: usize, tokens: usize) -> Work {
    Work {
        seq: SeqId(seq),
        slot,
        phase,
        start: start as u32,
        tokens: tokens as u32,
        yields: true,
        first: start == 0,
        blocks: Arc::default(),
    }
}

fn plan(kind: StepKind, work: Vec<Work>) -> StepPlan {
    let bucket = work.iter().map(|work| work.start + work.tokens).max().unwrap_or(0);
    StepPlan { kind, work, preempted: Vec::new(), compiled: 4, bucket, padding: 0 }
}

/// One decode step of sequences with that many tokens, in their slots.
fn decode(engine: &mut Neuron, rows: &[(u64, u32, usize)]) -> Result<StepResult, EngineError> {
    let works = rows.iter().map(|(seq, slot, length)| work(*seq, *slot, schedule::Phase::Decode, length - 1, 1));
    engine.step(&plan(StepKind::Decode, works.collect()))
}

fn tokens(result: &StepResult) -> Vec<i64> {
    result.tokens.iter().map(|token| i64::from(token.token)).collect()
}

/// A whole generation of one sequence in slot 0.
fn generate(engine: &mut Neuron, seq: u64, prompt: &[i64], count: usize) -> Result<Vec<i64>, EngineError> {
    let mut all = tokens(&prefill(engine, seq, 0, prompt)?);
    for made in 1..count {
        all.extend(tokens(&decode(engine, &[(seq, 0, prompt.len() + made)])?));
    }
    engine.close(SeqId(seq));
    Ok(all)
}

/// Inf2 with 24 cores and Trn1 with 32: each rank has its own core and its own share of the 8-bit weights, sequences in several
/// slots keep apart, buckets are changed on the way, and everything is given back in the end.
#[test]
fn all_ranks_of_both_families() {
    for (family, ranks, accelerator, chips) in [(4, 24, "inferentia2", 12), (2, 32, "trainium1", 16)] {
        let stub = Stub::new(&format!("family {family}\ncores {ranks}\n"), &Compiled { ranks, ..Compiled::default() });
        let mut engine = load(&stub).unwrap();
        let about = engine.describe().clone();
        assert_eq!((about.accelerator.as_deref(), about.chips), (Some(accelerator), Some(chips)));
        assert_eq!((about.quantization.as_deref(), about.tensor_parallel), (Some("int8"), Some(ranks)));
        assert_eq!((about.slots, about.max_len), (4, LONGEST as u32));
        let memory = engine.devices().unwrap();
        assert_eq!((memory.count, memory.memory_total_bytes), (chips, Some(32 << 30)));

        // Two sequences, the second one across the edge of the smaller bucket.
        let (short, long): (Vec<i64>, Vec<i64>) = ((1..6).collect(), (0..126).map(|id| id % 90).collect());
        let mut seen =
            [tokens(&prefill(&mut engine, 1, 2, &short).unwrap()), tokens(&prefill(&mut engine, 2, 0, &long).unwrap())];
        for made in 1..6 {
            let step = decode(&mut engine, &[(1, 2, short.len() + made), (2, 0, long.len() + made)]).unwrap();
            assert_eq!((step.weights.as_slice(), step.padding_weight), (&[1, 1][..], 2));
            let [one, two] = tokens(&step)[..] else { panic!("two tokens") };
            seen[0].push(one);
            seen[1].push(two);
        }
        assert_eq!(seen, [continuation(&short, 6), continuation(&long, 6)]);
        drop(engine);

        stub.assert_closed();
        let calls = stub.calls();
        assert_eq!(calls[0], "nrt_init 1");
        assert_eq!(calls.last().unwrap(), "nrt_close models=0 tensors=0 sets=0");
        let of = |text: &str| calls.iter().filter(|call| call.starts_with(text)).count();
        assert_eq!(
            (of("nrt_load_collectives "), of("nrt_unload"), of("nrt_load ")),
            (4 * ranks as usize, 4 * ranks as usize, 0)
        );
        for rank in 0..ranks {
            assert_eq!(of(&format!("nrt_load_collectives core={rank} count=-1 rank={rank}/{ranks}")), 4);
            assert_eq!(of(&format!("rank {rank} learned {}", (rank + 1) * 5 * 2)), 1, "{calls:#?}");
        }
        assert_eq!((of("nrt_execute decode rows=4 length=128"), of("nrt_execute decode rows=4 length=256")), (2, 3));
    }
}

/// A prompt that fills its bucket, a slot that is used again, and one core without collectives.
#[test]
fn one_core_is_loaded_without_collectives() {
    let stub = Stub::new("", &Compiled::default());
    let mut engine = load(&stub).unwrap();
    for (seq, length) in [(1, 128), (2, 3), (3, 255), (4, 1)] {
        let prompt: Vec<i64> = (0..length).map(|id| id % 89).collect();
        let count = if length == 255 { 1 } else { 4 };
        assert_eq!(generate(&mut engine, seq, &prompt, count).unwrap(), continuation(&prompt, count), "{length}");
    }
    drop(engine);
    stub.assert_closed();
    assert!(stub.calls().iter().any(|call| call.starts_with("nrt_load core=0 count=-1 rank=0/1")));
}

/// What was not compiled is refused by name, and changes nothing.
#[test]
fn plans_that_no_graph_holds() {
    let stub = Stub::new("", &Compiled::default());
    let mut engine = load(&stub).unwrap();
    assert!(engine.open(SeqId(9), input(&[1; 257])).unwrap_err().to_string().contains("take 1 to 256"));
    assert!(engine.open(SeqId(9), input(&[stub::VOCABULARY])).unwrap_err().to_string().contains("vocabulary"));
    engine.open(SeqId(1), input(&[1, 2, 3])).unwrap();
    let chunk = work(1, 0, schedule::Phase::Prefill, 1, 2);
    let error = engine.step(&plan(StepKind::Prefill, vec![chunk])).unwrap_err();
    assert!(error.to_string().contains("one whole prompt"), "{error}");
    let error = decode(&mut engine, &[(1, 4, 3)]).unwrap_err();
    assert!(error.to_string().contains("does not fit"), "{error}");
    let error = decode(&mut engine, &[(7, 0, 3)]).unwrap_err();
    assert!(error.to_string().contains("not open"), "{error}");
    assert_eq!(generate(&mut engine, 2, &[5], 3).unwrap(), continuation(&[5], 3));
}

/// Every status that an execution can return: the step fails with its name; where the device is lost the engine starts again,
/// else it goes on as it is.
#[test]
fn every_status_of_an_execution() {
    for (code, name, is_loss) in status::all().chain([(4_711, "unknown status 4711", true)]) {
        let stub = Stub::new(&format!("fail nrt_execute {code} 3\n"), &Compiled::default());
        let mut engine = load(&stub).unwrap();
        let error = generate(&mut engine, 1, &[3, 1, 2], 5).unwrap_err();
        assert!(error.to_string().contains(name), "{code}: {error}");
        assert_eq!(matches!(error, EngineError::Lost { .. }), is_loss, "{code}: {error}");
        if is_loss {
            engine.recover().unwrap();
        }
        assert_eq!(generate(&mut engine, 2, &[4, 4], 4).unwrap(), continuation(&[4, 4], 4), "{code}");
        drop(engine);
        stub.assert_closed();
    }
}

/// One rank of several fails: the others time out in the collective, so that the ranks are out of step and the model is loaded anew
/// whatever the fault was; what is told is the fault, not the waiting.
#[test]
fn one_rank_of_several_fails() {
    for (code, name) in [(1201, "NRT_EXEC_HW_ERR_HBM_UE"), (1003, "NRT_EXEC_COMPLETED_WITH_NUM_ERR")] {
        let stub = Stub::new(
            &format!("cores 24\nfail nrt_execute {code} 2 7\n"),
            &Compiled { ranks: 12, ..Compiled::default() },
        );
        let mut engine = load(&stub).unwrap();
        let error = generate(&mut engine, 1, &[3, 1, 2], 5).unwrap_err();
        assert!(
            matches!(&error, EngineError::Lost { reason } if reason.contains(name) && reason.contains("rank 7")),
            "{error}"
        );
        engine.recover().unwrap();
        assert_eq!(generate(&mut engine, 2, &[4, 4], 4).unwrap(), continuation(&[4, 4], 4));
        drop(engine);
        stub.assert_closed();
    }
}

/// Every call on the way to a loaded model can fail, with every rank or with one: the error names the call and the status, and
/// what was taken is given back.
#[test]
fn every_call_of_loading() {
    for call in [
        "nrt_init",
        "nrt_get_visible_vnc_count",
        "nrt_get_instance_info",
        "nrt_load",
        "nrt_get_model_tensor_info",
        "nrt_allocate_tensor_set",
        "nrt_tensor_allocate",
        "nrt_tensor_memset",
        "nrt_tensor_write",
        "nrt_add_tensor_to_tensor_set",
    ] {
        for nth in [1, 2] {
            let stub = Stub::new(&format!("fail {call} 4 {nth}\n"), &Compiled::default());
            let loaded = load(&stub);
            if nth == 2 && matches!(call, "nrt_init" | "nrt_get_visible_vnc_count" | "nrt_get_instance_info") {
                drop(loaded.unwrap());
            } else {
                let error = loaded.err().unwrap_or_else(|| panic!("{call} {nth}"));
                assert!(error.contains(call) && error.contains("NRT_RESOURCE, 4"), "{call}: {error}");
            }
            stub.assert_closed();
        }
    }
}

/// A second engine on the same library is refused while the first one runs on, and welcome after it.
#[test]
fn a_runtime_is_initialised_once() {
    let stub = Stub::new("", &Compiled::default());
    let mut first = load(&stub).unwrap();
    let error = load(&stub).err().unwrap();
    assert!(error.contains("in use by another engine of this process"), "{error}");
    assert_eq!(generate(&mut first, 1, &[4, 4], 4).unwrap(), continuation(&[4, 4], 4));
    drop(first);
    drop(load(&stub).unwrap());
    stub.assert_closed();
    assert_eq!(stub.calls().iter().filter(|call| call.starts_with("nrt_init")).count(), 2);
}

/// No library, another library, no device, too few cores, a degree that the chips do not have: each says so, and what to do.
#[test]
fn machines_that_cannot_run_it() {
    let stub = Stub::new("", &Compiled::default());
    let error = |config: &Config| Neuron::load(config).err().unwrap().to_string();
    let missing = Config { library: PathBuf::from("/nowhere/libnrt.so.1"), ..config(&stub) };
    let text = error(&missing);
    assert!(text.contains("/nowhere/libnrt.so.1") && text.contains("is the AWS Neuron runtime installed"), "{text}");
    assert!(text.contains("`sim` and `cpu`"), "{text}");
    let other = Config { library: PathBuf::from("libc.so.6"), ..config(&stub) };
    assert!(error(&other).contains("it lacks `nrt_init`"), "{}", error(&other));
    assert_eq!(stub.calls(), [""; 0], "nothing was initialised");

    let stub = Stub::new("fail nrt_init 1 1\n", &Compiled::default());
    let text = load(&stub).err().unwrap();
    assert!(text.contains("NRT_FAILURE") && text.contains("no Neuron device (/dev/neuron0)"), "{text}");
    for (conf, ranks, expected) in [
        ("cores 2\n", 24, "needs 24 NeuronCores from core 0 on, and 2 are visible here"),
        ("family 4\ncores 32\n", 32, "Inf2 has no tensor parallel degree 32"),
        ("family 2\ncores 32\n", 24, "Trn1 has no tensor parallel degree 24"),
    ] {
        let stub = Stub::new(conf, &Compiled { ranks, ..Compiled::default() });
        let text = load(&stub).err().unwrap();
        assert!(text.contains(expected), "{text}");
        stub.assert_closed();
    }
}

/// A graph that is no NEFF, of another version, or other than `neuron.json` says, and weights that do not belong to it.
#[test]
fn wrong_graphs_and_weights() {
    let compiled = Compiled::default();
    let decode = |rows, length| stub::neff(&compiled, "decode", rows, length);
    for (text, expected) in [
        ("ELF".to_owned(), "invalid NEFF or argument (NRT_INVALID, 2)"),
        ("STUBNEFF 9".to_owned(), "NRT_UNSUPPORTED_NEFF_VERSION"),
        (decode(8, 128), "`input_ids` holds 8 values, not 4"),
        (decode(4, 64), "`attention_mask` holds 256 values, not 512"),
        (decode(4, 128).replace("kv_out", "surprise"), "its output `surprise` is unknown"),
        (decode(4, 128).replace("out tokens", "out logits"), "its output `logits` is unknown"),
        (decode(4, 128).replace("input_ids int32", "input_ids bf16"), "`input_ids` is BF16"),
        (decode(4, 128).replace("in layer.weight", "in lost.weight"), "has no weight `lost.weight`"),
        (
            decode(4, 128).replace("layer.scale fp32", "layer.scale int32"),
            "`layer.scale` is another than in the graphs",
        ),
    ] {
        let stub = Stub::new("", &compiled);
        stub.write("decode-128.neff", &text);
        let error = load(&stub).err().unwrap();
        assert!(
            error.contains(expected) && error.contains("decode-128.neff") | error.contains("safetensors"),
            "{error}"
        );
        stub.assert_closed();
    }
    for (compiled, expected) in [
        (
            Compiled { has_int8: false, ..Compiled::default() },
            "the weights are int8, and the graphs take no weights of 8 bits",
        ),
        (
            Compiled { weights: "bfloat16", ..Compiled::default() },
            "the weights are bf16, and the graphs take some weights of 8",
        ),
    ] {
        let stub = Stub::new("", &compiled);
        let error = load(&stub).err().unwrap();
        assert!(error.contains(expected), "{error}");
        stub.assert_closed();
    }
}

/// Folders that are incomplete or damaged say which file, before any core is claimed where that can be known.
#[test]
fn damaged_folders() {
    let outside = |neff: &str| {
        let mut manifest = Stub::new("", &Compiled::default()).manifest(&Compiled::default());
        manifest["graphs"][0]["neff"] = neff.into();
        manifest.to_string()
    };
    for (file, text, expected) in [
        ("neuron.json", "{}", "missing field"),
        ("neuron.json", &outside("/dev/zero"), "`/dev/zero` is no file below the folder"),
        ("neuron.json", &outside("../decode-128.neff"), "is no file below the folder"),
        ("tokenizer.json", "{}", "tokenizer.json"),
        ("tokenizer_config.json", "{\"chat_template\": \"{% if %}\"}", "tokenizer_config.json"),
        ("weights/tp0_sharded_checkpoint.safetensors", "0123", "tp0_sharded_checkpoint.safetensors"),
        (
            "weights/tp0_sharded_checkpoint.safetensors",
            "\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}{}",
            "header cannot be",
        ),
    ] {
        let stub = Stub::new("", &Compiled::default());
        stub.write(file, text);
        let error = load(&stub).err().unwrap();
        assert!(error.contains(expected), "{file}: {error}");
        stub.assert_closed();
    }
}

/// A core that never answers is a lost device after its time; it keeps the runtime, so the engine does not come back.
#[test]
fn a_core_that_hangs() {
    let stub = Stub::new("hang 2\n", &Compiled::default());
    let short = Config { step_timeout: Duration::from_millis(200), ..config(&stub) };
    let mut engine = Neuron::load(&short).unwrap();
    let error = generate(&mut engine, 1, &[3, 1, 2], 5).unwrap_err();
    assert!(
        matches!(&error, EngineError::Lost { reason } if reason.contains("did not answer within 200ms")),
        "{error}"
    );
    let error = engine.recover().unwrap_err();
    assert!(error.to_string().contains("still holds the runtime"), "{error}");
}

/// A greedy request picks the likeliest token on the device whatever the graph could do; a graph without settings is greedy, and
/// refuses what it cannot do.
#[test]
fn sampling_is_handed_to_the_device() {
    let sampling = Sampling { temperature: 0.5, top_p: 0.9, top_k: 7, ignore_eos: true, ..Sampling::default() };
    let mut feed = Feed::empty(2, 1, 4);
    feed.sample(1, &sampling);
    assert_eq!(feed.sampling, [1.0, 1.0, 1.0, 7.0, 0.9, 0.5]);
    let stub = Stub::new("", &Compiled { has_sampling: false, ..Compiled::default() });
    let mut engine = load(&stub).unwrap();
    let error = engine.open(SeqId(1), SequenceInput { sampling, ..input(&[1]) }).unwrap_err();
    assert!(error.to_string().contains("greedy"), "{error}");
    let penalised = Sampling { temperature: 0.0, presence_penalty: 1.0, ..Sampling::default() };
    let error = engine.open(SeqId(1), SequenceInput { sampling: penalised, ..input(&[1]) }).unwrap_err();
    assert!(error.to_string().contains("top_p and top_k alone"), "{error}");
    assert_eq!(generate(&mut engine, 1, &[2], 3).unwrap(), continuation(&[2], 3));
}

/// Words come out one by one, as the tokeniser joins them.
#[test]
fn text_comes_out_as_it_is_made() {
    let stub = Stub::new("", &Compiled::default());
    let language = Language::load(stub.model(), vec![0]).unwrap();
    assert_eq!(language.tokenize("w3 w5 w96").unwrap(), [3, 5, 96]);
    let mut decoder = language.decoder();
    let mut pieces = Vec::new();
    for token in [3, 5, 0, 96] {
        let mut text = String::new();
        decoder.push(token, &mut text);
        pieces.push(text);
    }
    assert_eq!(pieces, ["w3", " w5", " w0", " w96"]);
    assert_eq!(pieces.concat(), stub::text(&[3, 5, 0, 96]));
    let message = ChatMessage { role: "user".to_owned(), content: "w1".to_owned() };
    assert_eq!(language.chat_prompt(&[message]).unwrap(), "w1 ");
}

/// A prompt of a bucket of 128 in 10 ms is 12,800 positions a second, all that is known; four slots in 10 ms are 400, a 32nd part.
/// A faster prompt is all there is from then on, and a step without a time says nothing.
#[test]
fn load_is_a_share_of_the_highest_rate() {
    let mut pace = Pace::default();
    let step = Duration::from_millis(10);
    assert_eq!(pace.load(4, Duration::ZERO), None);
    assert_eq!([pace.load(128, step), pace.load(4, step)], [Some(1.0), Some(1.0 / 32.0)]);
    assert_eq!([pace.load(256, step), pace.load(4, step)], [Some(1.0), Some(1.0 / 64.0)]);
}
