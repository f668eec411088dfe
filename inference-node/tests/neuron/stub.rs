//! A machine with a stand-in for libnrt, and a folder with a model that it can run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::json;
use tempfile::TempDir;

/// Words of the vocabulary; token 0 ends a text.
pub(crate) const VOCABULARY: i64 = 97;
/// Longest sequence.
pub(crate) const LONGEST: usize = 256;

/// What is compiled.
#[derive(Clone)]
pub(crate) struct Compiled {
    pub(crate) ranks: u32,
    pub(crate) slots: u32,
    pub(crate) has_int8: bool,
    /// As `neuron.json` has it.
    pub(crate) weights: &'static str,
    pub(crate) has_sampling: bool,
}

impl Default for Compiled {
    fn default() -> Self {
        Self { ranks: 1, slots: 4, has_int8: true, weights: "int8", has_sampling: true }
    }
}

/// A library of its own, so that tests in one process have nothing in common, beside its model.
pub(crate) struct Stub {
    folder: TempDir,
}

/// Compiles the library once a process.
fn library() -> &'static Path {
    static BUILT: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("libnrt.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/neuron/libnrt.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-shared", "-fPIC", "-o"]);
        let ran = compiler.arg(&to).args([source, "-lpthread"]).output();
        let Ok(ran) = ran else { panic!("these tests need a C compiler as `cc`; `cargo xtask test` installs gcc") };
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        (folder, to)
    });
    &built.1
}

impl Stub {
    /// A machine of which `conf` says what it is and what fails (see `libnrt.c`).
    pub(crate) fn new(conf: &str, compiled: &Compiled) -> Self {
        let stub = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::copy(library(), stub.library()).unwrap();
        stub.write("stub.conf", conf);
        stub.compile(compiled);
        stub
    }

    pub(crate) fn library(&self) -> PathBuf {
        self.folder.path().join("libnrt.so.1")
    }

    pub(crate) fn model(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn compile(&self, compiled: &Compiled) {
        self.write("neuron.json", &self.manifest(compiled).to_string());
        for (phase, rows, length) in [
            ("prefill", 1, 128),
            ("prefill", 1, LONGEST),
            ("decode", compiled.slots as usize, 128),
            ("decode", compiled.slots as usize, LONGEST),
        ] {
            self.write(&format!("{phase}-{length}.neff"), &neff(compiled, phase, rows, length));
        }
        std::fs::create_dir(self.folder.path().join("weights")).unwrap();
        for rank in 0..compiled.ranks {
            let path = format!("weights/tp{rank}_sharded_checkpoint.safetensors");
            std::fs::write(self.folder.path().join(path), shard(compiled, rank)).unwrap();
        }
        let words: serde_json::Map<_, _> = (0..VOCABULARY).map(|id| (word(id), json!(id))).collect();
        let tokenizer = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
            "model": {"type": "WordLevel", "vocab": words, "unk_token": word(1)},
        });
        self.write("tokenizer.json", &tokenizer.to_string());
        let template = "{% for message in messages %}{{ message.content }} {% endfor %}";
        self.write(
            "tokenizer_config.json",
            &json!({"chat_template": template, "eos_token": {"content": "w0"}}).to_string(),
        );
    }

    pub(crate) fn manifest(&self, compiled: &Compiled) -> serde_json::Value {
        let graph = |phase: &str, length: usize| json!({"phase": phase, "length": length, "neff": format!("{phase}-{length}.neff")});
        json!({
            "name": "counting", "tensor_parallel": compiled.ranks, "slots": compiled.slots, "weights": compiled.weights,
            "end_tokens": [0], "state": [{"input": "kv", "output": "kv_out"}],
            "graphs": [graph("prefill", 128), graph("prefill", LONGEST), graph("decode", 128), graph("decode", LONGEST)],
        })
    }

    /// Every call so far.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("calls.log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// No rule of the interface was broken.
    pub(crate) fn assert_sound(&self) {
        let calls = self.calls();
        let broken: Vec<_> = calls.iter().filter(|call| call.starts_with("VIOLATION")).collect();
        assert!(broken.is_empty(), "{broken:#?}");
    }

    /// And everything was given back.
    pub(crate) fn assert_closed(&self) {
        self.assert_sound();
        let count = |name: &str| self.calls().iter().filter(|call| call.starts_with(name)).count();
        let refused = self.calls().iter().filter(|call| call.starts_with("told nrt_init ")).count();
        assert_eq!(count("nrt_init "), count("nrt_close ") + refused, "{:#?}", self.calls());
    }
}

fn word(id: i64) -> String {
    format!("w{id}")
}

pub(crate) fn neff(compiled: &Compiled, phase: &str, rows: usize, length: usize) -> String {
    let columns = if phase == "prefill" { length } else { 1 };
    let kv = 64 * LONGEST * 4;
    let mut text = format!("STUBNEFF 1 {phase} {rows} {length} {VOCABULARY}\n");
    let mut line = |side: &str, name: &str, dtype: &str, bytes: usize| {
        text.push_str(&format!("{side} {name} {dtype} {bytes}\n"));
    };
    line("in", "input_ids", "int32", rows * columns * 4);
    line("in", "position_ids", "int32", rows * columns * 4);
    line("in", "attention_mask", "int32", rows * length * 4);
    line("in", "seq_ids", "int32", rows * 4);
    if compiled.has_sampling {
        line("in", "sampling_params", "fp32", rows * 12);
    }
    line("in", "kv", "int32", kv);
    if compiled.has_int8 {
        line("in", "layer.weight", "int8", 5);
        line("in", "layer.scale", "fp32", 4);
    }
    line("out", "tokens", "int32", rows * 4);
    line("out", "kv_out", "int32", kv);
    text
}

/// Weights of a rank: five times its number plus one, with a scale of 2.
fn shard(compiled: &Compiled, rank: u32) -> Vec<u8> {
    let header = match compiled.has_int8 {
        true => json!({
            "__metadata__": {"format": "pt"},
            "layer.weight": {"dtype": "I8", "shape": [5], "data_offsets": [0, 5]},
            "layer.scale": {"dtype": "F32", "shape": [1], "data_offsets": [5, 9]},
        }),
        false => json!({}),
    };
    let header = header.to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([u8::try_from(rank).unwrap() + 1; 5]);
    bytes.extend(2f32.to_le_bytes());
    bytes
}

/// What the model says after these tokens, by the same sum that the library computes.
pub(crate) fn next(tokens: &[i64], has_int8: bool) -> i64 {
    let learned = if has_int8 { 5 * 2 } else { 0 };
    let sum: i64 = tokens.iter().zip(1..).map(|(token, place)| (token + 1) * place).sum();
    (sum + learned) % VOCABULARY
}

/// The next `count` tokens.
pub(crate) fn continuation(prompt: &[i64], count: usize) -> Vec<i64> {
    let mut tokens = prompt.to_vec();
    for _ in 0..count {
        tokens.push(next(&tokens, true));
    }
    tokens.split_off(prompt.len())
}

/// Tokens as the model's tokenizer writes them.
pub(crate) fn text(tokens: &[i64]) -> String {
    tokens.iter().map(|id| word(*id)).collect::<Vec<_>>().join(" ")
}
