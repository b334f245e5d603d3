import { describe, expect, it } from "vitest";
import type { Fit, ModelInfo } from "../src/lib/api/types";
import { grouped, matches } from "../src/lib/modelfilter";
import { fitOf, loadsFirst, offerFor, pickModel, stateOf } from "../src/lib/modelstate";

const model = (change: Partial<ModelInfo>) =>
  ({ id: "a/b", backend: "a", name: "b", managed: true, local: true, size_mib: null, detail: null, capabilities: ["chat"], problem: null, state: "unloaded", ...change }) as ModelInfo;
const endpoint = (id: string, change: Partial<ModelInfo> = {}) =>
  model({ id, backend: id.split("/")[0] as string, managed: false, state: "ready", ...change });

describe("a model's row", () => {
  it("offers what can be done, and nothing else", () => {
    const offers = (change: Partial<ModelInfo>) => offerFor(model(change))?.verb ?? null;
    expect([offers({}), offers({ state: "ready" }), offers({ state: "loading" }), offers({ state: "failed" })]).toEqual(["load", "unload", "unload", "load"]);
    expect([offers({ state: "draining" }), offers({ problem: "torn" }), offers({ managed: false, state: "ready" })]).toEqual([null, null, null]);
  });
  it("a broken file is broken, whatever its state", () => {
    expect(stateOf(model({ problem: "torn" }))).toEqual({ tone: "bad", word: "Broken" });
  });
  it("an endpoint is one, not a loaded model", () => {
    expect(stateOf(endpoint("up/m"))).toEqual({ tone: "far", word: "Endpoint" });
    expect(stateOf(model({ state: "ready" })).word).toBe("Ready");
    expect([loadsFirst(endpoint("up/m")), loadsFirst(model({})), loadsFirst(model({ state: "ready" }))]).toEqual([false, true, false]);
  });
});

describe("what fits", () => {
  const fit = (change: Partial<Fit>) =>
    ({ says: "yes", takes_mib: 1, others: [], short_mib: null, why: null, ...change }) as Fit;
  it("is told of an unloaded model that something stands in the way of", () => {
    expect(fitOf(model({}), fit({ says: "after", others: ["x"] }))).toBe("1\u00a0model leaves for it");
    expect(fitOf(model({}), fit({ says: "waits", others: ["x", "y"] }))).toBe("waits for 2\u00a0models in use");
    expect(fitOf(model({}), fit({ says: "no", short_mib: 900 }))).toBe("900\u00a0MiB short of memory");
    expect(fitOf(model({}), fit({ says: "oversize", short_mib: 9 }))).toBe("larger than the memory");
    expect(fitOf(model({}), fit({ says: "no" }))).toBe("a pinned model is in its way");
  });
  it("of any other model nothing is said", () => {
    const no = fit({ says: "no", short_mib: 900 });
    const told = [fitOf(model({}), undefined), fitOf(model({}), fit({})), fitOf(model({}), fit({ says: "unknown" })),
      fitOf(model({ state: "ready" }), no), fitOf(model({ problem: "torn" }), no)];
    expect(told.join("")).toBe("");
  });
});

describe("the model to talk to", () => {
  const cloud = endpoint("acme/x", { local: false });
  const near = endpoint("near/x");
  const here = model({ id: "x/here", size_mib: 94 });
  const loaded = model({ id: "x/loaded", state: "ready" });

  it("is the picked one, else the daemon's choice, while they are there", () => {
    expect(pickModel([loaded, cloud], "acme/x", "x/loaded")).toBe("acme/x");
    expect(pickModel([loaded, cloud], "gone", "acme/x")).toBe("acme/x");
    expect(pickModel([], null, "x/loaded")).toBeNull();
  });
  it("else rather one of this machine", () => {
    expect(pickModel([cloud, near, here], null, "gone")).toBe("x/here");
    expect(pickModel([cloud, near], null, null)).toBe("near/x");
    expect(pickModel([cloud], null, null)).toBe("acme/x");
  });
});

describe("finding a model", () => {
  it("by words of its name, its backend, its state, what it can do", () => {
    const m = model({ id: "llamacpp/Qwen3-8B-Q4_K_M", detail: "8B Q4_K_M", capabilities: ["chat", "vision"] });
    for (const query of ["", "qwen", "q4_k", "llamacpp 8b", "vision", "UNLOADED"]) expect(matches(m, query), query).toBe(true);
    for (const query of ["qwen mistral", "loading", "embed"]) expect(matches(m, query), query).toBe(false);
  });
  it("in groups: loaded, here, and each endpoint's", () => {
    const models = [endpoint("b/2"), endpoint("a/1"), endpoint("b/1"), model({ id: "x/u" }), model({ id: "x/l", state: "ready" })];
    expect(grouped(models).map((g) => [g.label, ...g.models.map((m) => m.id)])).toEqual([
      ["Loaded", "x/l"], ["On this machine", "x/u"], ["a", "a/1"], ["b", "b/1", "b/2"],
    ]);
  });
});
