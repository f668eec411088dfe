//! A tiny model with random weights, written as a real GGUF file, against a naive forward pass; and the engine's promises on it.

mod tiny;

use std::path::Path;

use super::*;
use crate::engine::Sampling;
use crate::schedule::{Phase, Preempted, Work};

use self::tiny::Tiny;

fn greedy() -> Sampling {
    Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, seed: 1, ignore_eos: true }
}

fn engine(tiny: &Tiny) -> Box<dyn Engine> {
    build(&Config { model_path: tiny.path().to_owned(), ..Config::default() }).unwrap()
}

fn open(engine: &mut dyn Engine, seq: u64, prompt: &[u32], sampling: Sampling) {
    engine.open(SeqId(seq), SequenceInput { prompt: prompt.into(), max_tokens: 99, sampling }).unwrap();
}

fn work(seq: u64, start: u32, tokens: u32, yields: bool) -> Work {
    let (first, blocks) = (start == 0, Arc::default());
    Work { seq: SeqId(seq), slot: 0, phase: Phase::Prefill, start, tokens, yields, first, blocks }
}

fn plan(work: Vec<Work>) -> StepPlan {
    StepPlan::exact(work, Vec::new())
}

fn step(engine: &mut dyn Engine, work: Vec<Work>) -> Vec<u32> {
    engine.step(&plan(work)).unwrap().tokens.iter().map(|token| token.token).collect()
}

/// Runs one sequence alone: the prompt in one step, then `count` tokens in all.
fn alone(engine: &mut dyn Engine, seq: u64, prompt: &[u32], count: u32) -> Vec<u32> {
    let length = prompt.len() as u32;
    let mut tokens = step(engine, vec![work(seq, 0, length, true)]);
    for done in 0..count - 1 {
        tokens.extend(step(engine, vec![work(seq, length + done, 1, true)]));
    }
    tokens
}

/// The forward pass gives what the formulas give, for every position of a prompt.
#[test]
fn forward_matches_the_formulas() {
    let tiny = Tiny::odd();
    let model = Llama::load(&mut Gguf::open(tiny.path()).unwrap()).unwrap();
    let prompt: Vec<u32> = vec![5, 200, 17, 17, 93, 4];
    let rows: Vec<Row> = prompt.iter().map(|token| Row { token: *token, sequence: 0, sample: true }).collect();
    let mut cache = Kv::new(model.shape());
    let logits = model.forward(&rows, &mut [&mut cache]).unwrap();
    assert_eq!((logits.len(), cache.len()), (prompt.len(), prompt.len()));
    for (position, logits) in logits.iter().enumerate() {
        let expected = tiny.logits(&prompt[..=position]);
        let largest = expected.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        for (value, expected) in logits.iter().zip(&expected) {
            assert!((f64::from(*value) - expected).abs() < 1e-4 * largest, "position {position}: {value} {expected}");
        }
    }
}

/// However a prompt is cut into steps, the same text follows.
#[test]
fn chunks_do_not_matter() {
    let tiny = Tiny::even();
    let mut engine = engine(&tiny);
    let prompt: Vec<u32> = (3..40).collect();
    for seq in 0..3 {
        open(engine.as_mut(), seq, &prompt, greedy());
    }
    let whole = alone(engine.as_mut(), 0, &prompt, 12);
    for (seq, size) in [(1, 1), (2, 16)] {
        let mut start = 0;
        let mut tokens = Vec::new();
        while start < 37 {
            let count = size.min(37 - start);
            tokens = step(engine.as_mut(), vec![work(seq, start, count, start + count == 37)]);
            start += count;
        }
        for done in 0..11 {
            tokens.extend(step(engine.as_mut(), vec![work(seq, 37 + done, 1, true)]));
        }
        assert_eq!(tokens, whole, "chunks of {size}");
    }
}

/// A sequence's text does not depend on its neighbours, greedy or drawn, nor on being a prompt among decoders.
#[test]
fn neighbours_do_not_matter() {
    let tiny = Tiny::even();
    let mut engine = engine(&tiny);
    let prompts: Vec<Vec<u32>> = (0..5).map(|seq| (0..4 + 3 * seq).map(|at| (7 * at + seq) % 250).collect()).collect();
    let rules = |seq: usize| Sampling {
        temperature: if seq.is_multiple_of(2) { 0.0 } else { 1.0 },
        seed: seq as u64,
        ..greedy()
    };
    let mut expected = Vec::new();
    for (seq, prompt) in prompts.iter().enumerate() {
        open(engine.as_mut(), seq as u64, prompt, rules(seq));
        expected.push(alone(engine.as_mut(), seq as u64, prompt, 8));
        engine.close(SeqId(seq as u64));
    }
    let mut tokens: Vec<Vec<u32>> = vec![Vec::new(); prompts.len()];
    for (seq, prompt) in prompts.iter().enumerate() {
        open(engine.as_mut(), seq as u64, prompt, rules(seq));
    }
    // Each round one more prompt joins those that already decode.
    for round in 0..12 {
        let mut items = Vec::new();
        for (seq, prompt) in prompts.iter().enumerate() {
            let (length, done) = (prompt.len() as u32, tokens[seq].len() as u32);
            match done {
                0 if seq <= round => items.push(work(seq as u64, 0, length, true)),
                1..8 => items.push(work(seq as u64, length + done - 1, 1, true)),
                _ => {}
            }
        }
        for new in engine.step(&plan(items)).unwrap().tokens {
            tokens[new.seq.0 as usize].push(new.token);
        }
    }
    assert_eq!(tokens, expected);
}

/// A sequence whose memory was taken away goes on with the same text after it is computed again.
#[test]
fn preemption_does_not_change_the_text() {
    let tiny = Tiny::even();
    let mut engine = engine(&tiny);
    let prompt = [9, 8, 7, 6];
    open(engine.as_mut(), 1, &prompt, greedy());
    let whole = alone(engine.as_mut(), 1, &prompt, 6);
    open(engine.as_mut(), 2, &prompt, greedy());
    open(engine.as_mut(), 3, &prompt, greedy());
    let mut tokens = alone(engine.as_mut(), 2, &prompt, 3);
    let mut taken = plan(vec![work(3, 0, 4, true)]);
    taken.preempted = vec![Preempted { seq: SeqId(2), lost: 4 }];
    engine.step(&taken).unwrap();
    assert!(engine.step(&plan(vec![work(2, 6, 1, true)])).is_err());
    tokens.extend(step(engine.as_mut(), vec![work(2, 0, 7, true)]));
    tokens.extend(step(engine.as_mut(), vec![work(2, 7, 1, true)]));
    tokens.extend(step(engine.as_mut(), vec![work(2, 8, 1, true)]));
    assert_eq!(tokens, whole);
}

/// A step that cannot be is refused, and the sequences of its plan can still be closed and others go on.
#[test]
fn impossible_steps_are_refused() {
    let tiny = Tiny::even();
    let mut engine = engine(&tiny);
    open(engine.as_mut(), 1, &[1, 2, 3], greedy());
    for bad in [work(1, 0, 4, true), work(1, 1, 1, true), work(1, 0, 0, true), work(7, 0, 1, true)] {
        assert!(matches!(engine.step(&plan(vec![bad.clone()])), Err(EngineError::Step { .. })), "{bad:?}");
    }
    engine.close(SeqId(7));
    assert_eq!(step(engine.as_mut(), vec![work(1, 0, 3, true)]).len(), 1);
}

/// Weights count tokens; a step takes time; the end token ends a sequence unless that is switched off.
#[test]
fn step_results_add_up() {
    let tiny = Tiny::even();
    let mut engine = engine(&tiny);
    open(engine.as_mut(), 1, &[1, 2, 3], greedy());
    open(engine.as_mut(), 2, &[1], Sampling { ignore_eos: false, temperature: 5.0, ..greedy() });
    let result = engine.step(&plan(vec![work(1, 0, 2, false), work(2, 0, 1, true)])).unwrap();
    assert_eq!((result.weights, result.padding_weight), (vec![2, 1], 0));
    assert!(matches!(result.time, StepTime::Measured { device } if !device.is_zero()));
    assert_eq!(result.tokens.len(), 1);
    // At this temperature any token may come; the end token comes too, and is told from the others.
    let mut ends = 0;
    for done in 0..2_000 {
        engine.close(SeqId(3));
        open(engine.as_mut(), 3, &[4, 5], Sampling { ignore_eos: false, temperature: 100.0, seed: done, ..greedy() });
        let token = engine.step(&plan(vec![work(3, 0, 2, true)])).unwrap().tokens[0];
        assert_eq!(token.end, token.token == tiny::END);
        ends += u32::from(token.end);
    }
    assert!(ends > 0);
}

/// Prompts that are empty, too long or hold unknown tokens are the client's fault.
#[test]
fn prompts_are_checked() {
    let tiny = Tiny::even();
    let mut engine = engine(&tiny);
    let limit = engine.describe().max_len;
    assert_eq!(limit, 64);
    for prompt in [vec![], vec![1; limit as usize], vec![100_000]] {
        let input = SequenceInput { prompt: prompt.into(), max_tokens: 1, sampling: greedy() };
        assert!(matches!(engine.open(SeqId(1), input), Err(EngineError::Input { .. })));
    }
}

/// Text comes back from its tokens unchanged, whatever it holds; digits stand alone and special tokens are themselves.
#[test]
fn text_survives_tokens() {
    let tiny = Tiny::even();
    let engine = engine(&tiny);
    let text = engine.text();
    for sample in ["", "a b", "  two  spaces\n\ttab", "naïve €5 🦀 日本語", "it's 1234!"] {
        let mut decoder = text.decoder();
        let mut back = String::new();
        for token in text.tokenize(sample).unwrap() {
            decoder.push(token, &mut back);
        }
        decoder.finish(&mut back);
        assert_eq!(back, sample);
    }
    let digit = |digit: char| text.tokenize(&digit.to_string()).unwrap()[0];
    assert_eq!(text.tokenize("12").unwrap(), [digit('1'), digit('2')]);
    assert_eq!(text.tokenize("<|im_end|>").unwrap(), [tiny::END]);
    let mut shown = String::new();
    text.decoder().push(tiny::END, &mut shown);
    assert_eq!(shown, "");
    let prompt = text.chat_prompt(&[ChatMessage { role: "user".to_owned(), content: "hi".to_owned() }]).unwrap();
    assert_eq!(prompt, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

/// Files that are missing, no GGUF, cut short or of another kind are named with what is wrong.
#[test]
fn wrong_files_are_named() {
    let reason = |path: &Path| match build(&Config { model_path: path.to_owned(), ..Config::default() }) {
        Err(EngineError::Load { reason }) => reason,
        _ => panic!("{} was taken", path.display()),
    };
    assert!(reason(Path::new("/no/such.gguf")).contains("/no/such.gguf cannot be opened"));
    let tiny = Tiny::even();
    let bytes = std::fs::read(tiny.path()).unwrap();
    let broken = tiny.path().with_extension("broken");
    for length in [0, 3, 100, bytes.len() / 2, bytes.len() - 100] {
        std::fs::write(&broken, &bytes[..length]).unwrap();
        assert!(reason(&broken).contains("broken"), "{length} bytes");
    }
    let other = String::from_utf8_lossy(&bytes).find("llama").unwrap();
    let mut changed = bytes;
    changed[other..other + 5].copy_from_slice(b"mamba");
    std::fs::write(&broken, &changed).unwrap();
    assert!(!reason(&broken).is_empty());
}

/// What llama.cpp (build of node-llama-cpp 3.22.0) answers with the same file at temperature 0.
const LLAMA_CPP: [(&str, &[u32], &str); 2] = [
    (
        "The capital of France is",
        &[504, 3575, 282, 4649, 314],
        " Paris.\n\nThe United States has a population of approximately 3",
    ),
    (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n\
         <|im_start|>user\nWhat is a watt? Answer in one sentence.<|im_end|>\n<|im_start|>assistant\n",
        &[
            1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182,
            2, 198, 1, 4093, 198, 1780, 314, 253, 31821, 47, 19842, 281, 582, 6330, 30, 2, 198, 1, 520, 9531, 198,
        ],
        "A watt is a unit of power, representing the rate at which energy is converted from one form to another.",
    ),
];

/// SmolLM2's tokens are those of llama.cpp, and every token of llama.cpp's greedy answers is our first choice or all but tied with
/// it. Exact equality cannot be asked: both round activations to 8 bits, in blocks of different size. `TOKENWATT_MODEL` names the file.
#[test]
#[ignore = "needs the model file: TOKENWATT_MODEL=SmolLM2-135M-Instruct.Q4_1.gguf"]
fn smollm2_answers_as_llama_cpp_does() {
    let path = PathBuf::from(std::env::var_os("TOKENWATT_MODEL").expect("TOKENWATT_MODEL is not set"));
    let mut file = Gguf::open(&path).unwrap();
    let (vocabulary, template) = (Vocabulary::load(&file).unwrap(), Template::load(&file).unwrap());
    let model = Llama::load(&mut file).unwrap();
    let special = "In 1234 there were 56 cats and it's  fine\n\n  def f(x): return x\u{e9} \u{1f980}";
    let expected = [
        788, 216, 33, 34, 35, 36, 665, 592, 216, 37, 38, 7680, 284, 357, 506, 216, 4979, 8866, 753, 275, 24, 104, 727,
        1003, 1792, 2756, 15107, 116, 218,
    ];
    assert_eq!(vocabulary.encode(special).unwrap(), expected);
    let watt = ChatMessage { role: "user".to_owned(), content: "What is a watt? Answer in one sentence.".to_owned() };
    assert_eq!(template.render(&[watt]).unwrap(), LLAMA_CPP[1].0);
    for (prompt, ids, answer) in LLAMA_CPP {
        let mut tokens = vocabulary.encode(prompt).unwrap();
        assert_eq!(tokens, ids);
        tokens.extend(vocabulary.encode(answer).unwrap());
        let rows: Vec<Row> = tokens.iter().map(|token| Row { token: *token, sequence: 0, sample: true }).collect();
        let logits = model.forward(&rows, &mut [&mut Kv::new(model.shape())]).unwrap();
        let (mut first, mut worst) = (0, 0.0_f32);
        for (logits, next) in logits[ids.len() - 1..].iter().zip(&tokens[ids.len()..]) {
            let gap = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max) - logits[*next as usize];
            first += u32::from(gap == 0.0);
            worst = worst.max(gap);
        }
        let count = tokens.len() - ids.len();
        println!("{first} of {count} tokens are the first choice, the worst is {worst:.2} behind");
        assert!(first as usize * 10 >= count * 8 && worst < 1.0);
    }
}
