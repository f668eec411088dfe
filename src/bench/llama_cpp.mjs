// llama.cpp on the same model file, through the prebuilt addon of the npm package `@node-llama-cpp/linux-x64`.
//
//     npm install --ignore-scripts @node-llama-cpp/linux-x64@3.22.1
//     node llama_cpp.mjs answers ADDON_DIR MODEL.gguf                        tokens of texts and greedy answers, as JSON
//     node llama_cpp.mjs speed ADDON_DIR MODEL.gguf BATCH PROMPT TOKENS THREADS   tokens a second, as JSON
//
// ADDON_DIR is the installed package's directory. `answers` makes the fixture of the engine's tests; it prints the same each time.
import { createRequire } from "node:module";
import { readFileSync, readdirSync } from "node:fs";
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
const model = new llama.AddonModel(modelPath, { addonExports: llama, gpuLayers: 0, useMmap: true });
if (!(await model.init())) throw new Error(`${modelPath} was not loaded`);

async function context(sequences, size, threads, batchSize) {
  const made = new llama.AddonContext(model, { contextSize: size * sequences, batchSize, sequences, threads, flashAttention: "auto" });
  if (!(await made.init())) throw new Error("no context");
  return made;
}

function greedy() {
  const sampler = new llama.AddonSampler(model);
  sampler.applyConfig({ temperature: 0 });
  return sampler;
}

/// The first `count` tokens after `prompt` at temperature 0, and the eight highest logits each time as token, logit, token, …
async function answer(prompt, count) {
  const sampler = greedy();
  const made = await context(1, 512, 1, 512);
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
  const sampler = greedy();
  const made = await context(batch, prompt + tokens + 8, threads, 512);
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

if (task === "answers") {
  const greedyAnswers = [];
  for (const prompt of PROMPTS) greedyAnswers.push(await answer(prompt, 16));
  const tokenized = texts(1000).map((text) => [text, Array.from(model.tokenize(text, true))]);
  const head = JSON.stringify({ made_by: `src/bench/llama_cpp.mjs answers, @node-llama-cpp/linux-x64 ${version}`, model: modelPath.split("/").pop() });
  const lines = (rows) => rows.map((row) => JSON.stringify(row)).join(",\n");
  console.log(`${head.slice(0, -1)},\n"greedy": [\n${lines(greedyAnswers)}\n],\n"texts": [\n${lines(tokenized)}\n]}`);
} else {
  console.log(JSON.stringify(await speed(rest.map(Number))));
}
process.exit(0);
