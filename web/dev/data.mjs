// Made-up models and records for the mock: each state once, long names, unknown values.
const minutesAgo = (n) => new Date(Date.now() - n * 60_000).toISOString();

const model = (id, change) => ({
  id, backend: id.slice(0, id.indexOf("/")), name: id.slice(id.indexOf("/") + 1), local: true, managed: true,
  size_mib: null, ctx: null, capabilities: ["chat", "completion"], problem: null, detail: null, state: "unloaded",
  failure: null, progress: null, eta_s: null, waits_for: [], queued: 0, loaded_ctx: null, last_used: null, in_flight: 0, host: "local", ...change,
});

export const makeModels = () => [
  model("llamacpp/SmolLM2-135M-Instruct-Q4_1", { size_mib: 94, ctx: 8192, detail: "Q4_1", state: "ready", loaded_ctx: 8192, last_used: minutesAgo(3) }),
  model("llamacpp/Qwen3-8B-Instruct-Q4_K_M", { size_mib: 4796, ctx: 40960, detail: "8B Q4_K_M", last_used: minutesAgo(190) }),
  model("llamacpp/org/a-very-long-model-name-with-slashes-and-quantisation-huge-70B-Instruct-2507-IQ4_XS", { size_mib: 38_211, ctx: 131_072, detail: "70B IQ4_XS" }),
  model("llamacpp/nomic-embed-text-v1.5-Q8_0", { size_mib: 140, ctx: 2048, capabilities: ["embed"], detail: "Q8_0", state: "loading", progress: 0.42 }),
  model("llamacpp/Mistral-7B-v0.3-Q4_0", { size_mib: 3920, ctx: 32_768, detail: "7B Q4_0", state: "failed", failure: "The engine ended with code 1 before it was ready: ggml_backend_alloc: out of memory (needed 4.9 GiB, free 3.1 GiB)" }),
  model("llamacpp/half-downloaded.gguf", { size_mib: 12, problem: "The file ends early: 12 MiB of 4,120 MiB are there. Download it again." }),
  model("openai/gpt-oss-120b", { local: false, managed: false, ctx: 131_072, capabilities: ["chat", "vision"], state: "ready", host: "local" }),
];

export const makeEndpoints = (n) =>
  Array.from({ length: n }, (_, i) => model(`${["acme", "near"][i % 2]}/family-${i % 7}/model-${i}`, { local: i % 2 === 1, managed: false, ctx: 131_072, state: "ready" }));

export const makeNotices = () => [
  { text: "~/.config/cerberus/config.toml:3: unknown key server.prot; did you mean server.port?", hint: "Mend it in ~/.config/cerberus/config.toml and start the daemon anew." },
  { text: "The usage log can't be written (No space left on device); records are kept in memory. Check the disk of ~/.local/share/cerberus/usage.", hint: null },
  { text: "acme: refused the key (401)", hint: "Set ACME_API_KEY in the environment of `cerberus serve`." },
  { text: "The plugin vision could not start: importing it failed: No module named 'libgpu'", hint: "report it to the authors of cerberus-vision 0.1; or block it with blocked_plugins" },
];

const amounts = (change) => ({ requests: 0, tokens: 0, money: 0, joules: 0, ...change });

const key = (id, name, change) => ({
  id, name, created_at: minutesAgo(9000), last_used_at: null, expires_at: null, expired: false, models: [], cloud: true, limits: [],
  max_parallel: null, running: 0, store_prompts: false, day: amounts(), month: amounts(), total: amounts(), ...change,
});

const limit = (what, per, most, spent) => ({ what, per, most, spent, reserved: 0, renews_at: per === "total" ? null : new Date(Date.now() + 9e6).toISOString() });

export const makeKeys = () => [
  key("w8rk3mcz5p", "laptop", { models: ["llamacpp/*", "qwen*"], cloud: false, limits: [limit("tokens", "day", 200_000, 124_312), limit("joules", "month", 90_000, 1234.5)], last_used_at: minutesAgo(3), day: amounts({ requests: 41, tokens: 124_312 }) }),
  key("9xx2h4a7bq", "the-continuous-integration-of-a-project-with-a-long-name", { models: ["acme/small-model-for-reviews"], limits: [limit("money", "month", 20, 20)], expires_at: minutesAgo(-40_000), last_used_at: minutesAgo(1500), store_prompts: true }),
  key("c0ffee1234", "guest", { expires_at: minutesAgo(100), expired: true }),
];

const record = (change) => ({
  id: "", time: minutesAgo(1), model: "llamacpp/SmolLM2-135M-Instruct-Q4_1", backend: "llamacpp", client: "openai-python/2.8", session_id: null,
  local: true, path: "/v1/chat/completions", stream: true, prompt_tokens: 412, cached_tokens: null, completion_tokens: 128, tokens_counted: false,
  asked: null, key_id: null, cost: null, queue_ms: null, load_ms: null, evicted: [], tried: [], prefill_tok_per_sec: null, ttft_ms: 182, duration_ms: 4021, tok_per_sec: 34.23, energy_j: null, energy_gpu_j: null, energy_cpu_j: null, energy: null, tok_per_j: null, status: 200, error: null, host: "local", ...change,
});

export const makeRecords = (n = 22) =>
  Array.from({ length: n }, (_, i) =>
    record({
      id: `old${i}`,
      time: minutesAgo(2 + i * 7),
      ttft_ms: 90 + ((i * 137) % 900),
      completion_tokens: 12 + ((i * 211) % 1900),
      tok_per_sec: 8.2 + ((i * 17.31) % 120),
      duration_ms: 300 + ((i * 3777) % 80_000),
      ...[
        {},
        { status: 499, tokens_counted: true, client: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36" },
        { status: 502, error: "The engine ended in mid-answer (signal 9). The next request loads it anew.", tok_per_sec: null, completion_tokens: null },
        { model: "openai/gpt-oss-120b", client: null, ttft_ms: null, tok_per_sec: null },
        { path: "/v1/embeddings", model: "llamacpp/org/a-very-long-model-name-with-slashes-and-quantisation-huge-70B-Instruct-2507-IQ4_XS", completion_tokens: null, ttft_ms: null, tok_per_sec: null, stream: false },
      ][i % 7],
    }),
  );
