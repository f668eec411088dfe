//! SmolLM2 against what llama.cpp made of the same file. `llama_cpp.json` holds its answers; `src/bench/llama_cpp.mjs` says how
//! it was made and makes it anew.
//!
//! The tests are ignored where the model is not at hand; `cargo xtask test` fetches it and runs them. `TOKENWATT_MODEL` names it.

use serde::Deserialize;

use super::*;

/// How far a logit (they are around 20) may lie from llama.cpp's where neither rounds anything: what the order of sums in 32-bit
/// floats leaves after 30 layers.
const NOISE: f32 = 0.001;
/// How far rounding may move a logit of the model, at most and in the mean over the whole vocabulary.
const ROUNDING: (f32, f64) = (2.5, 0.25);
/// Logits as near as this may change places by rounding.
const NEAR: f32 = 0.5;

#[derive(Deserialize)]
struct Fixture {
    /// Of the weights as 32-bit floats, where nothing is rounded.
    exact: Vec<Greedy>,
    /// Of the file as it is, where llama.cpp rounds activations to 8 bit and keys and values to 16 bit.
    rounded: Vec<Greedy>,
    texts: Vec<(String, Vec<u32>)>,
}

#[derive(Deserialize)]
struct Greedy {
    prompt: String,
    ids: Vec<u32>,
    /// The first 16 tokens at temperature 0.
    tokens: Vec<u32>,
    /// Token, logit, token, …: the eight highest each time.
    logits: Vec<Vec<f32>>,
}

impl Greedy {
    /// The eight highest logits before token `at`.
    fn best(&self, at: usize) -> impl Iterator<Item = (usize, f32)> {
        self.logits[at].chunks_exact(2).map(|pair| (pair[0] as usize, pair[1]))
    }
}

fn fixture() -> Fixture {
    serde_json::from_str(include_str!("llama_cpp.json")).unwrap()
}

fn path() -> PathBuf {
    PathBuf::from(std::env::var_os("TOKENWATT_MODEL").expect("TOKENWATT_MODEL is not set"))
}

fn smollm2() -> Box<dyn Engine> {
    build(&Config { model_path: path(), slots: 16, ..Config::default() }).unwrap()
}

/// Logits before each of the answer's tokens, when the sequence is llama.cpp's.
fn forced(model: &Llama, greedy: &Greedy) -> Vec<Vec<f32>> {
    let known = greedy.ids.iter().chain(&greedy.tokens[..greedy.tokens.len() - 1]);
    let row = |(at, token): (usize, &u32)| Row { token: *token, sequence: 0, sample: at + 1 >= greedy.ids.len() };
    let rows: Vec<Row> = known.enumerate().map(row).collect();
    forward(model, &rows).0
}

/// A thousand texts of many scripts, with digits, spaces, code, emoji and special tokens, have llama.cpp's tokens.
#[test]
#[ignore = "needs the model file: TOKENWATT_MODEL=SmolLM2-135M-Instruct.Q4_1.gguf"]
fn tokens_are_llama_cpps() {
    let vocabulary = Vocabulary::load(&Checkpoint::open(&path()).unwrap()).unwrap();
    let texts = fixture().texts;
    assert_eq!(texts.len(), 1_000);
    let wrong: Vec<_> = texts
        .iter()
        .map(|(text, ids)| (text, ids, vocabulary.encode(text).unwrap()))
        .filter(|(_, ids, ours)| *ids != ours)
        .collect();
    assert!(wrong.is_empty(), "{} of 1000: {:?}", wrong.len(), &wrong[..wrong.len().min(3)]);
}

/// The token with the highest logit, and how far the next one is behind.
fn best(logits: &[f32]) -> (usize, f32) {
    let highest = |but: Option<usize>| {
        let all = (0..logits.len()).filter(|id| Some(*id) != but);
        all.max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap()
    };
    let first = highest(None);
    (first, logits[first] - logits[highest(Some(first))])
}

/// Where nothing is rounded, the model is llama.cpp's: the eight highest logits at 320 places are the same but for [`NOISE`], and so
/// are the tokens, unless the two highest logits are within the noise, when either may be picked. After such a tie the sequence is
/// llama.cpp's again, so that it hides nothing.
#[test]
#[ignore = "needs the model file: TOKENWATT_MODEL=SmolLM2-135M-Instruct.Q4_1.gguf"]
fn the_model_is_llama_cpps() {
    let model = Llama::load(&mut Checkpoint::open(&path()).unwrap(), Weights::F32).unwrap();
    let exact = fixture().exact;
    assert_eq!(exact.len(), 20);
    let (mut ties, mut worst) = (0, 0.0_f32);
    for greedy in &exact {
        assert_eq!(greedy.tokens.len(), 16);
        for ((at, logits), theirs) in forced(&model, greedy).iter().enumerate().zip(&greedy.tokens) {
            for (id, theirs) in greedy.best(at) {
                worst = worst.max((logits[id] - theirs).abs());
            }
            let (ours, ahead) = best(logits);
            if ours != *theirs as usize {
                println!("{:?}, token {at}: {theirs} and {ours} are {ahead:.5} apart", greedy.prompt);
                assert!(ahead < 2.0 * NOISE, "{:?}: token {at} is {ours} and not {theirs}", greedy.prompt);
                ties += 1;
            }
        }
    }
    println!("2560 logits are {worst:.5} apart at most; {ties} of 320 tokens were another, after a tie");
    assert!(worst < NOISE && ties <= 1);
}

/// What rounding to 8 bit does to the model: every logit stays near, and a token is another only where the two highest are nearer
/// to each other than rounding moves them. llama.cpp's own rounding of the same file moves them no less.
#[test]
#[ignore = "needs the model file: TOKENWATT_MODEL=SmolLM2-135M-Instruct.Q4_1.gguf"]
fn rounding_is_bounded() {
    let load = |form| Llama::load(&mut Checkpoint::open(&path()).unwrap(), form).unwrap();
    let (plain, packed) = (load(Weights::F32), load(Weights::Packed));
    assert_eq!((plain.form(), packed.form()), ("f32", "q4_1"));
    let (mut moved, mut others, mut widest) = (Apart::default(), 0, 0.0_f32);
    let (mut ours, mut theirs) = (Apart::default(), Apart::default());
    for greedy in &fixture().rounded {
        for (at, (exact, rounded)) in forced(&plain, greedy).iter().zip(&forced(&packed, greedy)).enumerate() {
            exact.iter().zip(rounded).for_each(|(exact, rounded)| moved.add(exact - rounded));
            let (token, ahead) = best(exact);
            if best(rounded).0 != token {
                (others, widest) = (others + 1, widest.max(ahead));
            }
            for (id, logit) in greedy.best(at) {
                ours.add(rounded[id] - exact[id]);
                theirs.add(logit - exact[id]);
            }
        }
    }
    println!("rounding moves {moved:?}; {others} of 320 tokens are others, which were {widest:.3} behind at most");
    println!("of the 8 highest at each place ours moves {ours:?}, llama.cpp's {theirs:?}");
    assert!(widest < NEAR && others <= 16);
    assert!(moved.most < ROUNDING.0 && moved.mean() < ROUNDING.1);
    assert!(ours.mean() < 1.1 * theirs.mean());
}

/// How far numbers are apart.
#[derive(Default)]
struct Apart {
    most: f32,
    sum: f64,
    count: u32,
}

impl Apart {
    fn add(&mut self, difference: f32) {
        self.most = self.most.max(difference.abs());
        self.sum += f64::from(difference.abs());
        self.count += 1;
    }

    fn mean(&self) -> f64 {
        self.sum / f64::from(self.count)
    }
}

impl std::fmt::Debug for Apart {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} logits by {:.4} in the mean, {:.3} at most", self.count, self.mean(), self.most)
    }
}

/// Sixteen sequences side by side, prompts joining decoders, have the very tokens that each has alone.
#[test]
#[ignore = "needs the model file: TOKENWATT_MODEL=SmolLM2-135M-Instruct.Q4_1.gguf"]
fn sixteen_side_by_side_are_as_alone() {
    const COUNT: u32 = 12;
    let mut engine = smollm2();
    let prompts: Vec<Vec<u32>> = fixture().exact.into_iter().take(16).map(|greedy| greedy.ids).collect();
    let mut expected = Vec::new();
    for (seq, prompt) in (0..).zip(&prompts) {
        open(engine.as_mut(), seq, prompt, greedy());
        expected.push(alone(engine.as_mut(), seq, prompt, COUNT));
        engine.close(SeqId(seq));
    }
    for (seq, prompt) in (0..).zip(&prompts) {
        open(engine.as_mut(), seq, prompt, greedy());
    }
    let mut tokens: Vec<Vec<u32>> = vec![Vec::new(); prompts.len()];
    for round in 0.. {
        let mut items = Vec::new();
        for (seq, prompt) in prompts.iter().enumerate() {
            let (length, done) = (prompt.len() as u32, tokens[seq].len() as u32);
            match done {
                // Two more prompts join in each round.
                0 if seq <= 2 * round => items.push(work(seq as u64, 0, length, true)),
                1..COUNT => items.push(work(seq as u64, length + done - 1, 1, true)),
                _ => {}
            }
        }
        if items.is_empty() {
            break;
        }
        for new in engine.step(&plan(items)).unwrap().tokens {
            tokens[new.seq.0 as usize].push(new.token);
        }
    }
    assert_eq!(tokens, expected);
}

/// The file's chat template makes the prompt that llama.cpp was given.
#[test]
#[ignore = "needs the model file: TOKENWATT_MODEL=SmolLM2-135M-Instruct.Q4_1.gguf"]
fn the_chat_template_is_the_files() {
    let template = Template::load(&Checkpoint::open(&path()).unwrap()).unwrap();
    let watt = ChatMessage { role: "user".to_owned(), content: "What is a watt? Answer in one sentence.".to_owned() };
    assert_eq!(template.render(&[watt]).unwrap(), fixture().exact[17].prompt);
}
