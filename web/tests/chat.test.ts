import { beforeAll, describe, expect, it, vi } from "vitest";
import { Answer, type Turn } from "../src/lib/chat/answer.svelte";
import { Chat, conversation } from "../src/lib/chat/chat.svelte";
import { complete } from "../src/lib/chat/completion";
import { statsLine } from "../src/lib/chat/stats";
import { modelNames, outcomeOf } from "../src/lib/outcome";
import type { RequestRecord } from "../src/lib/api/types";

const encoder = new TextEncoder();
const data = (chunk: unknown) => `data: ${JSON.stringify(chunk)}\n\n`;
const delta = (content: string, finish_reason: string | null = null) => data({ choices: [{ delta: { content }, finish_reason }] });
const USAGE = { completion_tokens: 2, cerberus: { ttft_ms: 182, tok_per_sec: 34.23, queue_ms: 300, load_ms: 1200, duration_ms: 4021, energy_j: null } };
const WHOLE = ": loading llamacpp/x\n\n" + delta("Grüße") + delta("!", "stop") + data({ choices: [], usage: USAGE }) + "data: [DONE]\n\n";

/** A response whose body comes in these pieces. */
const streaming = (...pieces: Uint8Array[]): typeof fetch =>
  async () =>
    new Response(
      new ReadableStream({
        start(c) {
          pieces.forEach((p) => c.enqueue(p));
          c.close();
        },
      }),
    );

async function read(fetcher: typeof fetch) {
  const seen = { thoughts: "", text: "", reasons: [] as string[], usage: null as unknown };
  const run = complete("m", [], {
    thinking: (piece) => (seen.thoughts += piece),
    answer: (piece) => (seen.text += piece),
    finish: (reason) => seen.reasons.push(reason),
    usage: (usage) => (seen.usage = usage),
  }, new AbortController().signal, fetcher);
  return run.then(() => ({ ...seen, error: null }), (error: unknown) => ({ ...seen, error }));
}

describe("a completion", () => {
  it("is the same wherever the bytes are cut", async () => {
    const bytes = encoder.encode(WHOLE);
    for (let cut = 0; cut <= bytes.length; cut++) {
      const seen = await read(streaming(bytes.slice(0, cut), bytes.slice(cut)));
      expect(seen).toEqual({ thoughts: "", text: "Grüße!", reasons: ["stop"], usage: USAGE, error: null });
    }
  });
  it("that ends without [DONE] broke off, and keeps what came", async () => {
    const seen = await read(streaming(encoder.encode(delta("half"))));
    expect(seen).toMatchObject({ text: "half", error: { code: "broken_off", hint: expect.any(String) } });
  });
  it("tells an error in mid-stream", async () => {
    const body = delta("half") + data({ error: { message: "The engine ended.", code: "engine_lost", hint: "Ask again." } });
    expect(await read(streaming(encoder.encode(body)))).toMatchObject({ text: "half", error: { message: "The engine ended.", hint: "Ask again." } });
  });
  it("keeps what the model thinks apart, by either name", async () => {
    const body = data({ choices: [{ delta: { reasoning_content: "Hm, " } }] }) + data({ choices: [{ delta: { reasoning: "so." } }] }) + delta("Yes.", "length") + "data: [DONE]\n\n";
    expect(await read(streaming(encoder.encode(body)))).toMatchObject({ thoughts: "Hm, so.", text: "Yes.", reasons: ["length"], error: null });
  });
  it("passes over chunks that make no sense, comments and unknown events", async () => {
    const odd = ["data: {\n\n", "data: null\n\n", "data: 7\n\n", data({}), data({ choices: [] }), data({ choices: [{}] }), data({ choices: [{ delta: { content: null } }] }), ": 42%\n\n", "event: news\ndata: x\n\n"];
    expect(await read(streaming(encoder.encode(odd.join("") + WHOLE)))).toMatchObject({ text: "Grüße!", error: null });
  });
  it("is whole once [DONE] came, even if the connection dies then", async () => {
    const dies: typeof fetch = async () => {
      let told = false;
      return new Response(
        new ReadableStream({
          pull(c) {
            if (told) c.error(new TypeError("reset"));
            else c.enqueue(encoder.encode(WHOLE));
            told = true;
          },
        }),
      );
    };
    expect(await read(dies)).toMatchObject({ text: "Grüße!", error: null });
  });
  it("tells an error before the stream", async () => {
    const fetcher: typeof fetch = async () => Response.json({ error: { message: "no", code: "c", hint: "h" } }, { status: 503 });
    expect(await read(fetcher)).toMatchObject({ error: { status: 503, message: "no", hint: "h" } });
  });
});

describe("the conversation", () => {
  beforeAll(() => {
    vi.stubGlobal("requestAnimationFrame", () => 0);
    vi.stubGlobal("cancelAnimationFrame", () => undefined);
  });
  const turn = (question: string, content: string): Turn => {
    const answer = new Answer();
    answer.content = content;
    return { id: 1, question, model: "m", answer };
  };

  it("sends what was answered, and leaves out what wasn't", () => {
    expect(conversation([turn("a", "A"), turn("lost", "")], "b")).toEqual([
      { role: "user", content: "a" }, { role: "assistant", content: "A" }, { role: "user", content: "b" },
    ]);
  });

  it("sends once, streams, and tells the speed", async () => {
    const fetcher = vi.fn(streaming(encoder.encode(WHOLE)));
    const chat = new Chat(() => undefined, fetcher);
    chat.draft = "  hello ";
    chat.send("m");
    chat.draft = "twice";
    chat.send("m");
    await vi.waitFor(() => expect(chat.busy).toBe(false));
    expect(fetcher).toHaveBeenCalledOnce();
    const body = JSON.parse(String(fetcher.mock.calls[0]?.[1]?.body));
    expect(body).toMatchObject({ model: "m", stream: true, stream_options: { include_usage: true }, messages: [{ role: "user", content: "hello" }] });
    const { answer } = chat.turns[0] as Turn;
    expect([answer.state, answer.content, chat.draft]).toEqual(["done", "Grüße!", "twice"]);
    expect(answer.stats.join(" ").replaceAll("\u00a0", " ")).toBe("TTFT 182 ms 34.2 tok/s 2 tokens 4.02 s waited 300 ms loaded in 1.20 s");
  });

  it("stop is no error, and a 401 signs out", async () => {
    const hanging: typeof fetch = (_, init) =>
      new Promise((_resolve, reject) => init?.signal?.addEventListener("abort", () => reject(init.signal?.reason)));
    const chat = new Chat(() => undefined, hanging);
    chat.draft = "hello";
    chat.send("m");
    chat.stop();
    await vi.waitFor(() => expect(chat.busy).toBe(false));
    expect(chat.turns[0]?.answer).toMatchObject({ state: "stopped", error: null });

    const out = vi.fn();
    const refused = new Chat(out, async () => Response.json({}, { status: 401 }));
    refused.draft = "hello";
    refused.send("m");
    await vi.waitFor(() => expect(out).toHaveBeenCalledOnce());
  });
});

it("without the gateway's numbers the page's own stand in, marked", () => {
  const line = statsLine(null, { sentAt: 0, firstAt: 100, endedAt: 2100, pieces: 41 });
  expect(line.map((s) => s.replaceAll("\u00a0", " "))).toEqual(["TTFT ~100 ms", "~20.0 tok/s", "~41 tokens", "~2.10 s"]);
});

it("the line below an answer tells its energy, and that it is an estimate", () => {
  const usage = { cerberus: { energy_j: 12.34, energy: "estimated", tok_per_j: 3.5 } };
  const line = statsLine(usage, { sentAt: 0, firstAt: 100, endedAt: 2100, pieces: 41 });
  expect(line.slice(-2).map((s) => s.replaceAll("\u00a0", " "))).toEqual(["~12.3 J", "~3.50 tok/J"]);
});

it("a request's end in words", () => {
  const word = (change: Partial<RequestRecord>) => outcomeOf({ status: 200, error: null, ...change } as RequestRecord).word;
  expect([word({}), word({ status: 499 }), word({ status: 502 }), word({ error: "lost" }), word({ status: null })]).toEqual(["ok", "left", "502", "failed", "—"]);
});

it("a row's model goes without its backend, and only without that", () => {
  const name = modelNames([{ id: "llamacpp/org/x", backend: "llamacpp" }], [{ model: "gone/y", backend: "gone" }]);
  expect(["llamacpp/org/x", "gone/y", "org/z", "nope"].map(name)).toEqual(["org/x", "y", "org/z", "nope"]);
});

it("a model whose name two backends have is called by its whole id", () => {
  const models = [{ id: "one/m", backend: "one" }, { id: "two/m", backend: "two" }, { id: "two/n", backend: "two" }];
  const name = modelNames(models, []);
  expect(["one/m", "two/m", "two/n"].map(name)).toEqual(["one/m", "two/m", "n"]);
});

it("a request that failed before it had a backend is called as the others are", () => {
  const models = [{ id: "mine/sad", backend: "mine" }];
  expect(modelNames(models, [{ model: "mine/sad", backend: null }])("mine/sad")).toBe("sad");
});
