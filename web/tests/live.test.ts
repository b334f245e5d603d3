import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { LiveRequest, ModelInfo, RequestRecord } from "../src/lib/api/types";
import { backoff } from "../src/lib/live/backoff";
import { offsetFrom } from "../src/lib/live/clock.svelte";
import { isNewBoot, isRepeat, parseId } from "../src/lib/live/order";
import { inFlight, RECENT_LIMIT, reduce, type Snapshot, sortModels } from "../src/lib/live/reduce";
import { EventStream, type StreamHandlers } from "../src/lib/live/stream";

const model = (id: string, change: Partial<ModelInfo> = {}) =>
  ({ id, name: id, managed: true, state: "unloaded", problem: null, ...change }) as ModelInfo;
const request = (id: string, pieces = 0) => ({ id, pieces }) as LiveRequest;
const record = (id: string) => ({ id }) as RequestRecord;
const empty: Snapshot = { models: [], choice: null, live: [], recent: [] };

describe("backoff", () => {
  it("is 0, 1, 2 … 30 s and then stays", () => {
    expect([0, 1, 2, 3, 4, 5, 6, 60].map((n) => backoff(n, () => 0) / 1000)).toEqual([
      0, 1, 2, 4, 8, 16, 30, 30,
    ]);
  });
  it("has jitter, but for the first try", () => {
    expect(backoff(0, () => 1)).toBe(0);
    expect(backoff(2, () => 1)).toBe(2500);
  });
});

describe("event ids", () => {
  it("are a boot and a number; the boot may hold dashes", () => {
    expect(parseId("ab-cd-17")).toEqual({ boot: "ab-cd", seq: 17 });
    expect(parseId("nonsense")).toBeNull();
  });
  it("tell another boot", () => {
    expect(isNewBoot("a-5", "a-3")).toBe(false);
    expect(isNewBoot("b-1", "a-3")).toBe(true);
    expect(isNewBoot("a-5", null)).toBe(false);
  });
  it("tell repeats within one boot only", () => {
    expect(isRepeat("a-3", "a-3")).toBe(true);
    expect(isRepeat("a-10", "a-9")).toBe(false);
    expect(isRepeat("b-1", "a-9")).toBe(false);
    expect(isRepeat("a-1", null)).toBe(false);
    expect(isRepeat("", "a-9")).toBe(false);
  });
});

describe("reduce", () => {
  it("replaces a model in its place and puts a new one first", () => {
    let state: Snapshot = { ...empty, models: [model("a"), model("b")] };
    state = reduce(state, { type: "model", data: model("a", { state: "ready" }) });
    state = reduce(state, { type: "model", data: model("c") });
    expect(state.models.map((m) => [m.id, m.state])).toEqual([
      ["c", "unloaded"], ["a", "ready"], ["b", "unloaded"],
    ]);
  });
  it("a record tells when its model was last used", () => {
    const data = { id: "r1", model: "b", time: "2026-01-01T10:00:00Z", duration_ms: 2000 };
    const before: Snapshot = { ...empty, models: [model("a"), model("b")] };
    const after = reduce(before, { type: "record", data });
    expect(after.models.map((m) => m.last_used)).toEqual([undefined, "2026-01-01T10:00:02.000Z"]);
  });
  it("counts what a model is answering", () => {
    const live = [{ id: "1", model: "a" }, { id: "2", model: "b" }, { id: "3", model: "a" }];
    expect(inFlight(live as LiveRequest[], "a")).toBe(2);
  });
  it("a record ends its live request, and a late sign of life doesn't wake it", () => {
    let state = reduce(empty, { type: "request", data: request("r1") });
    state = reduce(state, { type: "request", data: request("r1", 12) });
    expect(state.live).toEqual([request("r1", 12)]);
    state = reduce(state, { type: "record", data: record("r1") });
    state = reduce(state, { type: "request", data: request("r1", 13) });
    expect([state.live, state.recent]).toEqual([[], [record("r1")]]);
  });
  it("a record that comes twice is one, newest first, and the list ends", () => {
    let state = empty;
    for (let i = 0; i < RECENT_LIMIT + 5; i++) {
      state = reduce(state, { type: "record", data: record(`r${i}`) });
      state = reduce(state, { type: "record", data: record(`r${i}`) });
    }
    expect(state.recent).toHaveLength(RECENT_LIMIT);
    expect(state.recent[0]?.id).toBe(`r${RECENT_LIMIT + 4}`);
  });
  it("unknown types and shapes change nothing", () => {
    for (const event of [
      { type: "session", data: { id: "s" } }, { type: "model", data: null }, { type: "model", data: "x" },
    ]) {
      expect(reduce(empty, event)).toBe(empty);
    }
  });
});

it("models: failed, busy, ready, unloaded, broken, endpoints; numbers in names count", () => {
  const models = [
    model("q10"), model("q9"), model("broken", { problem: "torn" }), model("r", { state: "ready" }),
    model("f", { state: "failed" }), model("l", { state: "loading" }),
    model("a", { state: "ready", managed: false }),
  ];
  expect(sortModels(models).map((m) => m.id)).toEqual(["f", "l", "r", "q9", "q10", "broken", "a"]);
});

it("the daemon's clock counts only when it is really off", () => {
  const now = Date.parse("2026-11-30T14:00:00Z");
  expect(offsetFrom("Mon, 30 Nov 2026 14:00:01 GMT", now)).toBe(0);
  expect(offsetFrom("Mon, 30 Nov 2026 14:05:00 GMT", now)).toBe(300_000);
  expect(offsetFrom(null, now)).toBe(0);
});

describe("the stream", () => {
  const encoder = new TextEncoder();
  const frame = (id: string, data = "{}", type = "model") => `id: ${id}\nevent: ${type}\ndata: ${data}\n\n`;

  /** One fake connection per entry: its chunks, then the end (or silence). */
  class Daemon {
    calls: (string | null)[] = [];
    constructor(private script: (string[] | number | "silent" | "refuse")[]) {}
    fetch = async (_: unknown, init?: RequestInit): Promise<Response> => {
      this.calls.push(new Headers(init?.headers).get("Last-Event-ID"));
      const next = this.script.shift() ?? "silent";
      if (next === "refuse") throw new TypeError("refused");
      if (typeof next === "number") return new Response(null, { status: next });
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          init?.signal?.addEventListener("abort", () => controller.error(init.signal?.reason));
          if (next === "silent") return;
          for (const chunk of next) controller.enqueue(encoder.encode(chunk));
          controller.close();
        },
      });
      return new Response(body);
    };
  }

  const watch = (daemon: Daemon) => {
    const seen: string[] = [];
    const handlers: StreamHandlers = {
      open: (resumed) => seen.push(resumed ? "resumed" : "open"),
      event: (type, data) => seen.push(`${type} ${JSON.stringify(data)}`),
      lost: () => seen.push("lost"),
      unauthorized: () => seen.push("unauthorized"),
    };
    const stream = new EventStream("/api/events", handlers, daemon.fetch as typeof fetch);
    stream.start();
    return { stream, seen };
  };

  beforeEach(() => {
    vi.useFakeTimers();
    vi.spyOn(Math, "random").mockReturnValue(0);
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  it("U07: resumes after the last event, and what comes twice is told once", async () => {
    const daemon = new Daemon([
      [frame("a-1", '{"n":1}'), frame("a-2", '{"n":2}')],
      [frame("a-2", '{"n":2}'), frame("a-3", '{"n":3}')],
    ]);
    const { stream, seen } = watch(daemon);
    await vi.advanceTimersByTimeAsync(1_500);
    expect(daemon.calls).toEqual([null, "a-2", "a-3"]);
    expect(seen.filter((s) => s.startsWith("model"))).toEqual([
      'model {"n":1}', 'model {"n":2}', 'model {"n":3}',
    ]);
    expect(seen.slice(0, 1)).toEqual(["open"]);
    stream.stop();
  });

  it("reads frames however they are cut", async () => {
    const whole = ": beat\r\n\r\n" + frame("a-1", '{"n":"ü"}') + frame("a-2");
    const { stream, seen } = watch(new Daemon([[...whole]]));
    await vi.advanceTimersByTimeAsync(10);
    expect(seen).toContain('model {"n":"ü"}');
    expect(seen.filter((s) => s.startsWith("model"))).toHaveLength(2);
    stream.stop();
  });

  it("a new life of the daemon starts a new count", async () => {
    const { stream, seen } = watch(new Daemon([[frame("a-9")], [frame("b-1")]]));
    await vi.advanceTimersByTimeAsync(10);
    expect(seen).toEqual(expect.arrayContaining(["model {}", "resumed", "reload {}"]));
    stream.stop();
  });

  it("U07: is told to reload even by an id that it has seen", async () => {
    const { stream, seen } = watch(new Daemon([[frame("a-9"), frame("a-9", "{}", "reload")]]));
    await vi.advanceTimersByTimeAsync(10);
    expect(seen).toContain("reload {}");
    stream.stop();
  });

  it("connects anew after 35 s of silence, and waits longer while nothing answers", async () => {
    const daemon = new Daemon(["silent", "refuse", "refuse", "refuse", "silent"]);
    const { stream, seen } = watch(daemon);
    await vi.advanceTimersByTimeAsync(34_900);
    expect(daemon.calls).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(200);
    expect([seen.at(-1), daemon.calls.length]).toEqual(["lost", 2]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(daemon.calls).toHaveLength(3);
    await vi.advanceTimersByTimeAsync(1_900);
    expect(daemon.calls).toHaveLength(3);
    await vi.advanceTimersByTimeAsync(200);
    expect(daemon.calls).toHaveLength(4);
    stream.restart();
    await vi.advanceTimersByTimeAsync(1);
    expect(daemon.calls).toHaveLength(5);
    stream.stop();
  });

  it("a 401 ends it; a start begins again", async () => {
    const daemon = new Daemon([401, "silent"]);
    const { stream, seen } = watch(daemon);
    await vi.advanceTimersByTimeAsync(60_000);
    expect([seen, daemon.calls.length]).toEqual([["unauthorized"], 1]);
    stream.start();
    await vi.advanceTimersByTimeAsync(1);
    expect(daemon.calls).toHaveLength(2);
    stream.stop();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(daemon.calls).toHaveLength(2);
  });
});
