// A stand-in for the daemon, for work on the page: `npm run mock`, then open the printed link.
// Serves the built page with its policy, the API with made-up data, and streams. Loopback only.
//
//   node dev/mock.mjs [--port 7734] [--empty] [--warn] [--many]
//
// In the chat, words in the question choose the answer: "code", "table", "hostile", "long",
// "list", "error", "break"; anything else is a short text. POST /dev/drop?ms=N cuts the events for N ms.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { answerFor } from "./answers.mjs";
import { makeEndpoints, makeKeys, makeModels, makeNotices, makeRecords } from "./data.mjs";

const flag = (name) => process.argv.includes(`--${name}`);
const PORT = Number(process.argv[process.argv.indexOf("--port") + 1]) || 7734;
const DIST = fileURLToPath(new URL("../../cerberus_core/web_dist", import.meta.url));
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".webmanifest": "application/manifest+json",
};

const boot = Date.now().toString(36);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const listed = flag("empty") ? [] : [...makeModels(), ...(flag("many") ? makeEndpoints(150) : [])];
const models = new Map(listed.map((m) => [m.id, m]));
const records = flag("empty") ? [] : makeRecords();
let keys = flag("empty") ? [] : makeKeys();
const live = new Map();
const watchers = new Set();
const events = [];
let sequence = 0;
let cutUntil = 0;

function publish(type, data) {
  const event = { seq: ++sequence, frame: `id: ${boot}-${sequence}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n` };
  events.push(event);
  if (events.length > 200) events.shift();
  for (const response of watchers) response.write(event.frame);
}

function update(id, change) {
  const model = { ...models.get(id), ...change };
  models.set(id, model);
  publish("model", model);
  return model;
}

async function load(id) {
  if (models.get(id).state === "ready") return;
  update(id, { state: "loading", progress: 0, failure: null });
  for (let step = 1; step <= 10; step++) {
    await sleep(300);
    if (models.get(id).state !== "loading") return;
    update(id, { progress: step / 10 });
  }
  update(id, { state: "ready", progress: null, loaded_ctx: 4096 });
}

function send(response, status, body, headers = {}) {
  response.writeHead(status, { "Content-Type": "application/json", ...headers });
  response.end(body === null ? undefined : JSON.stringify(body));
}

const problem = (response, status, title, detail, hint) =>
  send(response, status, { type: "about:blank", title, status, detail, code: title, hint });

async function bodyOf(request) {
  let text = "";
  for await (const part of request) text += part;
  return text === "" ? {} : JSON.parse(text);
}

function watch(request, response) {
  if (Date.now() < cutUntil) return request.socket.destroy();
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  response.write(": hello\n\n");
  const last = request.headers["last-event-id"];
  if (last) {
    const [theirs, seq] = last.split("-");
    const missed = events.filter((event) => event.seq > Number(seq));
    const complete = theirs === boot && (missed[0]?.seq ?? sequence + 1) <= Number(seq) + 1;
    if (complete) for (const event of missed) response.write(event.frame);
    else response.write(`id: ${boot}-${sequence}\nevent: reload\ndata: {}\n\n`);
  }
  watchers.add(response);
  const beat = setInterval(() => response.write(": beat\n\n"), 15_000);
  response.on("close", () => {
    clearInterval(beat);
    watchers.delete(response);
  });
}

async function chat(request, response) {
  const body = await bodyOf(request);
  const question = body.messages.at(-1).content;
  if (/error/.test(question)) {
    const error = { message: `The model '${body.model}' could not be loaded: 5.2 GiB are needed, 3.1 GiB are free.`, type: "server_error", code: "out_of_memory", param: null, hint: "Unload another model, or pick a smaller one." };
    return send(response, 503, { error });
  }
  const id = `req_${Math.random().toString(36).slice(2, 10)}`;
  const began = Date.now();
  const request_ = { id, time: new Date().toISOString(), model: body.model, client: "web", stream: true, phase: "waiting", pieces: 0 };
  const tell = (change) => {
    Object.assign(request_, change);
    live.set(id, request_);
    publish("request", request_);
  };
  let left = false;
  response.on("close", () => (left = true));
  tell({});
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  const chunk = (delta, finish_reason = null) =>
    response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
  let load_ms = null;
  if (models.get(body.model).state !== "ready") {
    const beat = setInterval(() => response.write(`: loading ${body.model}\n\n`), 300);
    response.write(`: loading ${body.model}\n\n`);
    await load(body.model);
    clearInterval(beat);
    load_ms = Date.now() - began;
  }
  update(body.model, { in_flight: models.get(body.model).in_flight + 1 });
  tell({ phase: "prefill" });
  await sleep(400);
  const ttft_ms = Date.now() - began;
  let pieces = 0;
  for (const piece of answerFor(question)) {
    if (left) break;
    chunk({ content: piece });
    pieces += 1;
    if (pieces === 1 || pieces % 25 === 0) tell({ phase: "decode", pieces });
    await sleep(/list/.test(question) ? 4 : 25);
  }
  const broke = /break/.test(question);
  const duration_ms = Date.now() - began;
  const tok_per_sec = pieces / ((duration_ms - ttft_ms) / 1000);
  if (!broke && !left) {
    chunk({}, "stop");
    const cerberus = { request_id: id, ttft_ms, tok_per_sec, load_ms, duration_ms, energy_j: null };
    const usage = { prompt_tokens: 24, completion_tokens: pieces, cerberus };
    response.write(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
  }
  response.end();
  live.delete(id);
  const record = { ...makeRecords(1)[0], id, time: new Date(began).toISOString(), model: body.model, client: "web", stream: true, prompt_tokens: 24, completion_tokens: pieces, tokens_counted: left, load_ms, ttft_ms, duration_ms, tok_per_sec, status: left ? 499 : broke ? 502 : 200, error: broke ? "The engine ended in mid-answer." : null };
  records.unshift(record);
  publish("record", record);
  update(body.model, { in_flight: models.get(body.model).in_flight - 1, last_used: new Date().toISOString() });
}

const status = () => ({
  version: "0.1.0", pid: process.pid, url: `http://127.0.0.1:${PORT}`, started_at: new Date().toISOString(), uptime_s: 60,
  models: models.size, models_loaded: [...models.values()].filter((m) => m.state === "ready").length,
  requests_in_flight: live.size, requests_total: records.length, plugins_failed: 0, warnings: [],
});

async function api(request, response, url) {
  const { pathname: path } = url;
  if (path === "/api/events") return watch(request, response);
  if (path === "/api/status") return send(response, 200, status());
  if (path === "/api/notices") return send(response, 200, { notices: flag("warn") ? makeNotices() : [] });
  if (path === "/api/models") return send(response, 200, { models: [...models.values()], default: models.keys().next().value ?? null, problems: [], fits: {} });
  if (path === "/api/requests") return send(response, 200, { live: [...live.values()], recent: records.slice(0, Number(url.searchParams.get("limit"))) });
  if (path === "/api/keys" && request.method === "POST") {
    const { name, models, cloud } = await bodyOf(request);
    const made = { ...makeKeys().at(-1), id: `k${keys.length}`, name, models, cloud, expires_at: null, expired: false, created_at: new Date().toISOString() };
    keys.push(made);
    return send(response, 201, { token: `ck-${made.id}-3q2mZk8vT1bXw9RjY7sLhN4cPfGd6eUa`, key: made });
  }
  if (path === "/api/keys") return send(response, 200, { keys, currency: "EUR" });
  if (path.startsWith("/api/keys/")) {
    keys = keys.filter((one) => one.id !== path.slice("/api/keys/".length));
    return send(response, 204, null);
  }
  const [, verb, tail] = /^\/api\/models\/(load|unload)\/(.+)$/.exec(path) ?? [];
  const id = tail && decodeURIComponent(tail);
  if (!id || !models.has(id)) return problem(response, 404, "not_found", "There is no such thing here.", null);
  if (/huge/.test(id)) return problem(response, 409, "too_large", "This model needs 41.2 GiB, and 9.4 GiB are free.", "Unload another model first.");
  if (verb === "load") void load(id);
  else update(id, { state: "unloaded", progress: null, loaded_ctx: null });
  send(response, 202, models.get(id));
}

async function page(response, path) {
  const file = normalize(join(DIST, path === "/" ? "index.html" : path));
  const body = file.startsWith(DIST) ? await readFile(file).catch(() => null) : null;
  if (body === null) return send(response, 404, null);
  response.writeHead(200, { "Content-Type": TYPES[extname(file)] ?? "application/octet-stream", "Content-Security-Policy": POLICY });
  response.end(body);
}

createServer((request, response) => {
  const url = new URL(request.url, `http://127.0.0.1:${PORT}`);
  const handle = async () => {
    if (url.pathname === "/api/login") {
      const { code } = await bodyOf(request);
      if (!/^TEST/.test(code)) return problem(response, 401, "bad_code", "The code is unknown or was used.", null);
      return send(response, 204, null, { "Set-Cookie": "cerberus=1; HttpOnly; SameSite=Strict; Path=/" });
    }
    if (url.pathname === "/api/logout") return send(response, 204, null, { "Set-Cookie": "cerberus=; Max-Age=0; Path=/" });
    if (url.pathname === "/dev/drop") {
      cutUntil = Date.now() + Number(url.searchParams.get("ms"));
      for (const watcher of watchers) watcher.destroy();
      return send(response, 204, null);
    }
    if (!/^\/(api|v1)\//.test(url.pathname)) return page(response, url.pathname);
    if (!/cerberus=1/.test(request.headers.cookie ?? "")) return problem(response, 401, "unauthorized", "Sign in first.", "Run cerberus url.");
    return url.pathname.startsWith("/v1/") ? chat(request, response) : api(request, response, url);
  };
  handle().catch((error) => {
    console.error(error);
    response.destroy();
  });
}).listen(PORT, "127.0.0.1", () => console.log(`http://127.0.0.1:${PORT}/#code=TEST`));
