// llama.cpp on the same model file, through the prebuilt addon of the npm package `@node-llama-cpp/linux-x64`.
//
//     npm install --ignore-scripts @node-llama-cpp/linux-x64@3.22.1
//     node llama_cpp.mjs answers ADDON_DIR MODEL.gguf                        tokens of texts and greedy answers, as JSON
//     node llama_cpp.mjs speed ADDON_DIR MODEL.gguf BATCH PROMPT TOKENS THREADS   tokens a second, as JSON
//
// ADDON_DIR is the installed package's directory. `answers` makes the fixture of the engine's tests; it prints the same each time on
// one kind of processor. It asks twice: with the file as it is, which llama.cpp multiplies with activations rounded to 8 bit, and with
// the same weights as 32-bit floats, where nothing is rounded (about 550 MB in the directory for temporary files).
import { createRequire } from "node:module";
import { closeSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const [task, packageDir, modelPath, ...rest] = process.argv.slice(2);
const packagePath = resolve(packageDir);
const bins = join(packagePath, "bins", readdirSync(join(packagePath, "bins"))[0]);
const version = JSON.parse(readFileSync(join(packagePath, "package.json"))).version;
const llama = createRequire(import.meta.url)(join(bins, "llama-addon.node"));
llama.setLoggerLogLevel(0);
llama.loadBackends();
llama.loadBackends(bins);
await llama.init();
const model = await loaded(modelPath);

async function loaded(path) {
  const made = new llama.AddonModel(path, { addonExports: llama, gpuLayers: 0, useMmap: true });
  if (!(await made.init())) throw new Error(`${path} was not loaded`);
  return made;
}

/// How llama.cpp computes by itself: it may keep keys and values in 16 bit.
const USUAL = { flashAttention: "auto" };
/// Keys and values as 32-bit floats (ggml's type 0), which its flash attention does not take.
const EXACT = { flashAttention: false, kvCacheKeyType: 0, kvCacheValueType: 0 };

async function context(model, sequences, size, threads, batchSize, way = USUAL) {
  const made = new llama.AddonContext(model, { contextSize: size * sequences, batchSize, sequences, threads, ...way });
  if (!(await made.init())) throw new Error("no context");
  return made;
}

function greedy(model) {
  const sampler = new llama.AddonSampler(model);
  sampler.applyConfig({ temperature: 0 });
  return sampler;
}

/// The first `count` tokens after `prompt` at temperature 0, and the eight highest logits each time as token, logit, token, …
async function answer(model, way, prompt, count) {
  const sampler = greedy(model);
  const made = await context(model, 1, 512, 1, 512, way);
  const ids = Array.from(model.tokenize(prompt, true));
  const tokens = [], logits = [];
  let pending = ids, at = 0;
  while (tokens.length < count) {
    made.initBatch(pending.length);
    const [index] = made.addToBatch(0, at, Uint32Array.from(pending), Uint32Array.from([pending.length - 1]));
    await made.decodeBatch();
    at += pending.length;
    const [token, , , best] = await made.sampleToken(index, sampler, false, false, [[], false, false, true, 8]);
    tokens.push(token);
    logits.push(Array.from(best.slice(0, 16), (value, place) => (place % 2 ? Number(value.toFixed(4)) : value)));
    pending = [token];
  }
  await made.dispose();
  return { prompt, ids, tokens, logits };
}

const PROMPTS = [
  "The capital of France is",
  "Once upon a time, in a small village by the sea,",
  "def fibonacci(n):\n    ",
  "The three laws of thermodynamics are",
  "Q: What is 12 times 12?\nA:",
  "Water boils at",
  "In 1969, humans first",
  "The recipe needs 200 g of flour, 3 eggs and",
  "Dear Sir or Madam,\n\nI am writing to",
  "SELECT name, price FROM products WHERE",
  "Electricity is measured in",
  "The opposite of hot is",
  "A list of fruits: apple, banana,",
  "import numpy as np\n\n",
  "La capital de España es",
  "The quick brown fox",
  "To be, or not to be,",
  "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\nWhat is a watt? Answer in one sentence.<|im_end|>\n<|im_start|>assistant\n",
  "<|im_start|>user\nName three colors.<|im_end|>\n<|im_start|>assistant\n",
  "<|im_start|>user\nWrite one line about the ocean.<|im_end|>\n<|im_start|>assistant\n",
];

const PHRASES = [
  "The cost of a token is what its chip costs for as long as it works on it.", "naïve café, résumé — “quoted” … ‘single’", "Ärger über Öl und Straße",
  "Привет, как дела?", "数据中心的电力使用情况", "日本語のテキストです。", "한국어 문장입니다", "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया", "สวัสดีชาวโลก", "γειά σου κόσμε",
  "🦀🚀 👩‍👩‍👧‍👦 🇫🇷 👍🏽", "it's we're they'll I'd you've I'm DON'T Can't", "3.14159 1,234,567 0x1F 1e-9 ½ ² Ⅷ ٣٤", "fn main() {\n    println!(\"{}\", 1 + 2);\n}",
  "\t\tindented\twith tabs\n\n\n", "a\u00a0b\u2003c\u200bd\u3000e", "e\u0301 n\u0303 combining", "line one\r\nline two\rline three", "https://example.com/a?b=c&d=%20#e", "user@example.org",
  "<|im_start|>user\nhi<|im_end|>\n", "<|endoftext|>", "<|im_start", "{\"key\": [1, 2.5, null, true]}", "$100 €20 £3 ¥400 ₿", "CamelCaseWords snake_case_words kebab-case-words", "!!!???...,,,;;;:::",
  "    four spaces", "trailing spaces   ", " ", "\n", "  \n  \n", "\u0000\u0001\u007f", "𝓯𝓪𝓷𝓬𝔂 ＦＵＬＬＷＩＤＴＨ", "ﬁ ligature ß ẞ İ ı", "x=1;y=22;z=333;w=4444", "SELECT * FROM t WHERE a <> 'b''c';",
];

/// `count` texts, the same on every run: whole phrases, and pieces of them put together at random.
function texts(count) {
  let state = 12345;
  const random = (below) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0, (state >>> 8) % below);
  const letters = Array.from(PHRASES.join(""));
  const made = [...PHRASES];
  while (made.length < count) {
    let text = "";
    for (let part = 1 + random(5); part > 0; part--) {
      const phrase = Array.from(PHRASES[random(PHRASES.length)]);
      const kind = random(4);
      if (kind === 0) for (let i = 1 + random(12); i > 0; i--) text += letters[random(letters.length)];
      else if (kind === 1) text += " ".repeat(random(4)) + random(100000);
      else { const from = random(phrase.length); text += phrase.slice(from, from + 1 + random(24)).join(""); }
    }
    made.push(text);
  }
  return made;
}

async function speed([batch, prompt, tokens, threads]) {
  const sampler = greedy(model);
  const made = await context(model, batch, prompt + tokens + 8, threads, 512);
  const words = Array.from(model.tokenize("A watt is a unit of power, the rate at which energy is converted from one form to another. ", false));
  const ids = Uint32Array.from({ length: prompt }, (_, at) => words[at % words.length]);
  const now = () => Number(process.hrtime.bigint()) / 1e9;
  let begun = now();
  const last = [];
  for (let sequence = 0; sequence < batch; sequence++) {
    made.initBatch(prompt);
    const [index] = made.addToBatch(sequence, 0, ids, Uint32Array.from([prompt - 1]));
    await made.decodeBatch();
    last.push(await made.sampleToken(index, sampler));
  }
  const prefill_s = now() - begun;
  begun = now();
  for (let step = 0; step < tokens; step++) {
    made.initBatch(batch);
    const indexes = last.map((token, sequence) => made.addToBatch(sequence, prompt + step, Uint32Array.from([token]), Uint32Array.from([0]))[0]);
    await made.decodeBatch();
    for (let sequence = 0; sequence < batch; sequence++) last[sequence] = await made.sampleToken(indexes[sequence], sampler);
  }
  const decode_s = now() - begun;
  return { version, batch, threads: made.getThreads(), prefill_s, decode_s };
}

/// Bytes of a block of 32 weights by ggml's number of its form: Q4_0, Q4_1, Q8_0.
const BLOCK_BYTES = { 2: 18, 3: 20, 8: 34 };
/// Bytes of a value of metadata by its type; texts and lists have their own lengths.
const VALUE_BYTES = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };

/// A 16-bit float.
function half(bits) {
  const exponent = (bits >> 10) & 31, rest = (bits & 1023) / 1024;
  return (bits & 0x8000 ? -1 : 1) * (exponent ? (1 + rest) * 2 ** (exponent - 15) : rest * 2 ** -14);
}

/// `count` weights as 32-bit floats, as bytes.
function widened(form, bytes, count) {
  if (form === 0) return bytes.subarray(0, 4 * count);
  const size = BLOCK_BYTES[form];
  if (!size) throw new Error(`weights in ggml's form ${form} cannot be read here`);
  const values = new Float32Array(count);
  for (let block = 0; 32 * block < count; block++) {
    const raw = bytes.subarray(size * block, size * (block + 1));
    const scale = half(raw.readUInt16LE(0));
    const least = form === 3 ? half(raw.readUInt16LE(2)) : form === 2 ? -8 * scale : 0;
    for (let at = 0; at < 32; at++) {
      const quant = form === 8 ? raw.readInt8(2 + at) : (raw[size - 16 + (at % 16)] >> (at < 16 ? 0 : 4)) & 15;
      values[32 * block + at] = scale * quant + least;
    }
  }
  return Buffer.from(values.buffer);
}

/// Writes the model anew with its weights as 32-bit floats: the same numbers.
function widen(from, to) {
  const file = readFileSync(from);
  let at = 24, alignment = 32;
  const u32 = () => file.readUInt32LE((at += 4) - 4);
  const u64 = () => Number(file.readBigUInt64LE((at += 8) - 8));
  const text = () => { const length = u64(); return file.toString("utf8", at, (at += length)); };
  const pass = (type) => {
    if (type === 8) text();
    else if (type === 9) for (let inner = u32(), left = u64(); left > 0; left--) pass(inner);
    else at += VALUE_BYTES[type];
  };
  for (let pairs = Number(file.readBigUInt64LE(16)); pairs > 0; pairs--) {
    const [key, type] = [text(), u32()];
    if (key === "general.alignment") alignment = file.readUInt32LE(at);
    pass(type);
  }
  const aligned = (bytes) => Math.ceil(bytes / alignment) * alignment;
  const head = [file.subarray(0, at)], tensors = [];
  for (let left = Number(file.readBigUInt64LE(8)), offset = 0; left > 0; left--) {
    const start = at;
    text();
    const dims = Array.from({ length: u32() }, u64);
    head.push(file.subarray(start, at));
    const count = dims.reduce((product, dim) => product * dim, 1);
    tensors.push({ count, form: u32(), offset: u64() });
    const info = Buffer.alloc(12);
    info.writeBigUInt64LE(BigInt(offset), 4);
    head.push(info);
    offset = aligned(offset + 4 * count);
  }
  const data = aligned(at), target = openSync(to, "w");
  const put = (bytes) => {
    const padded = Buffer.alloc(aligned(bytes.length));
    bytes.copy(padded);
    for (let done = 0; done < padded.length; ) done += writeSync(target, padded, done);
  };
  put(Buffer.concat(head));
  for (const { count, form, offset } of tensors) put(widened(form, file.subarray(data + offset), count));
  closeSync(target);
}

/// The answers to all prompts.
async function answers(model, way) {
  const all = [];
  for (const prompt of PROMPTS) all.push(await answer(model, way, prompt, 16));
  return all;
}

if (task === "answers") {
  const directory = mkdtempSync(join(tmpdir(), "tokenwatt-llama-"));
  let exact;
  try {
    const path = join(directory, "f32.gguf");
    widen(modelPath, path);
    exact = await answers(await loaded(path), EXACT);
  } finally {
    rmSync(directory, { recursive: true });
  }
  const usual = await answers(model, USUAL);
  const tokenized = texts(1000).map((text) => [text, Array.from(model.tokenize(text, true))]);
  const head = JSON.stringify({ made_by: `src/bench/llama_cpp.mjs answers, @node-llama-cpp/linux-x64 ${version}`, model: modelPath.split("/").pop() });
  const lines = (rows) => rows.map((row) => JSON.stringify(row)).join(",\n");
  console.log(`${head.slice(0, -1)},\n"exact": [\n${lines(exact)}\n],\n"rounded": [\n${lines(usual)}\n],\n"texts": [\n${lines(tokenized)}\n]}`);
} else {
  console.log(JSON.stringify(await speed(rest.map(Number))));
}
process.exit(0);
