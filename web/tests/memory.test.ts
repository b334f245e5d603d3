import { afterEach, describe, expect, it, vi } from "vitest";
import { Chat } from "../src/lib/chat/chat.svelte";
import { type KeptTurn, lastWithin, Memory } from "../src/lib/chat/memory";
import { hashOf, TABS, tabOf } from "../src/lib/tab";
import { codeIn } from "../src/lib/login";

/** Storage for `room` characters. */
class Shelf {
  held = new Map<string, string>();
  constructor(readonly room = Infinity) {}
  getItem = (key: string) => this.held.get(key) ?? null;
  removeItem = (key: string) => void this.held.delete(key);
  setItem(key: string, value: string) {
    if (value.length > this.room) throw new DOMException("full", "QuotaExceededError");
    this.held.set(key, value);
  }
}

const turn = (question: string, change: Partial<KeptTurn> = {}): KeptTurn => ({
  question, model: "m", content: `to ${question}`, thinking: "", state: "done", cutOff: false, stats: ["TTFT 1 s"], error: null, ...change,
});
const kept = (...turns: KeptTurn[]) => ({ turns, draft: "d", picked: "m" });
const questions = (memory: Memory) => memory.load().turns.map((t) => t.question);

describe("what is kept of a chat", () => {
  it("comes back as it was", () => {
    const memory = new Memory(() => shelf);
    const shelf = new Shelf();
    const all = kept(turn("a"), turn("b", { state: "failed", error: { message: "no", status: 503, code: "c", hint: "h" } }));
    memory.save(all);
    expect(memory.load()).toEqual(all);
    memory.clear();
    expect([shelf.held.size, memory.load().turns]).toEqual([0, []]);
  });

  it("is the last turns when there are too many", () => {
    const long = turn("x".repeat(100));
    expect(lastWithin([long, long, turn("c")], JSON.stringify(long).length * 2)).toEqual([long, turn("c")]);
    expect(lastWithin([long], 10)).toEqual([]);
  });

  it("is less where storage is full, and nothing where it is refused", () => {
    const shelf = new Shelf(700);
    const memory = new Memory(() => shelf);
    memory.save(kept(...["a", "b", "c", "d", "e", "f", "g"].map((q) => turn(q))));
    expect(questions(memory).at(-1)).toBe("g");
    expect(questions(memory)).not.toContain("a");

    const full = new Shelf();
    new Memory(() => full).save(kept(turn("old")));
    new Memory(() => Object.assign(full, { room: 1 })).save(kept(turn("new")));
    expect(full.held.size).toBe(0); // no older conversation in place of this one

    const refused = new Memory(() => {
      throw new DOMException("no", "SecurityError");
    });
    refused.save(kept(turn("a")));
    expect(refused.load().turns).toEqual([]);
  });

  it("is nothing where what is stored makes no sense", () => {
    const nonsense = ["{", "7", "null", "[]", '{"turns":7}', '{"turns":[null]}', '{"turns":[{"question":"q"}]}', JSON.stringify(kept({ ...turn("a"), stats: [{}] as never })), JSON.stringify(kept({ ...turn("a"), error: 7 as never }))];
    for (const text of nonsense) {
      const shelf = new Shelf();
      shelf.held.set("cerberus.chat", text);
      expect(new Memory(() => shelf).load(), text).toEqual({ turns: [], draft: "", picked: null });
    }
  });
});

describe("a chat", () => {
  afterEach(() => vi.unstubAllGlobals());
  const hanging: typeof fetch = (_, init) =>
    new Promise((_resolve, reject) => init?.signal?.addEventListener("abort", () => reject(init.signal?.reason)));

  it("goes on after a reload; what was under way is stopped and can be asked anew", () => {
    vi.stubGlobal("requestAnimationFrame", () => 0);
    const memory = new Memory(() => shelf);
    const shelf = new Shelf();
    const before = new Chat(() => undefined, hanging, memory);
    before.draft = "one";
    before.send("up/m");
    before.draft = "half a quest";
    before.keep();
    const after = new Chat(() => undefined, hanging, memory);
    expect([after.draft, after.picked, after.busy]).toEqual(["half a quest", "up/m", false]);
    expect(after.turns).toHaveLength(1);
    expect(after.turns[0]).toMatchObject({ question: "one", model: "up/m", answer: { state: "stopped", busy: false } });
  });

  it("that is cleared or forgotten is gone from storage too", () => {
    const shelf = new Shelf();
    const memory = new Memory(() => shelf);
    memory.save(kept(turn("secret")));
    const chat = new Chat(() => undefined, hanging, memory);
    chat.clear();
    expect(memory.load()).toEqual({ turns: [], draft: "d", picked: "m" });
    chat.forget();
    expect(shelf.held.size).toBe(0);
  });
});

describe("a tab in the address", () => {
  it("is found again, and is no code's", () => {
    expect(TABS.map((tab) => tabOf(hashOf(tab)))).toEqual([...TABS]);
    expect(["", "#", "#code=AB", "#/chat/", "#chat"].map(tabOf)).toEqual(Array(5).fill("models"));
    expect(TABS.map((tab) => codeIn(hashOf(tab)))).toEqual([null, null, null, null]);
  });
});
