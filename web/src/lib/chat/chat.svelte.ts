// The conversation: one model, turns, at most one answer under way.
import { flushSync } from "svelte";
import type { ApiError } from "../api/errors";
import { text } from "../text";
import { Answer, keep, restore, type Turn } from "./answer.svelte";
import { complete, type Sent, type Usage } from "./completion";
import { Memory } from "./memory";
import { statsLine } from "./stats";
import { FrameThrottle } from "./throttle";

export class Chat {
  turns = $state.raw<readonly Turn[]>([]);
  draft = $state("");
  /** The model that was chosen; null leaves it to the page. */
  picked = $state<string | null>(null);
  /** The last thing worth telling a screen reader. */
  news = $state("");
  #current = $state.raw<Answer | null>(null);
  #abort: AbortController | null = null;
  #next = 1;

  constructor(
    private readonly unauthorized: () => void,
    private readonly fetcher: typeof fetch = (input, init) => fetch(input, init),
    private readonly memory = new Memory(),
  ) {
    const { turns, draft, picked } = memory.load();
    this.turns = turns.map((turn) => restore(turn, this.#next++));
    this.draft = draft;
    this.picked = picked;
  }

  get busy(): boolean {
    return this.#current !== null;
  }

  send(model: string): void {
    const question = this.draft.trim();
    if (question === "" || this.busy) return;
    this.draft = "";
    this.picked = model;
    void this.#ask(model, question);
  }

  /** Asks the last question anew. */
  retry(model: string): void {
    const last = this.turns.at(-1);
    if (!last || this.busy) return;
    this.turns = this.turns.slice(0, -1);
    void this.#ask(model, last.question);
  }

  stop(): void {
    this.#abort?.abort();
  }

  /** Begins anew: nothing of the conversation is kept. What is being written stays. */
  clear(): void {
    this.stop();
    this.turns = [];
    this.keep();
  }

  /** Forgets all: someone signed out. */
  forget(): void {
    this.draft = "";
    this.picked = null;
    this.clear();
    this.memory.clear();
  }

  /** The page goes. The browser would end the answer too, and that would look like a failure. */
  leave(): void {
    this.stop();
    this.keep();
  }

  /** Keeps what there is for a reload. */
  keep(): void {
    this.memory.save({ turns: this.turns.map(keep), draft: this.draft, picked: this.picked });
  }

  async #ask(model: string, question: string): Promise<void> {
    const messages = conversation(this.turns, question);
    const answer = new Answer();
    this.turns = [...this.turns, { id: this.#next++, question, model, answer }];
    this.#current = answer;
    this.news = "";
    this.keep();
    const abort = new AbortController();
    this.#abort = abort;

    let content = "";
    let thinking = "";
    let usage: Usage | null = null;
    const watched = { sentAt: performance.now(), firstAt: null as number | null, pieces: 0 };
    const paint = new FrameThrottle(() => {
      answer.content = content;
      answer.thinking = thinking;
      // Now, so that the throttle sees what it costs.
      flushSync();
    });
    const piece = () => {
      watched.firstAt ??= performance.now();
      watched.pieces += 1;
      answer.state = "streaming";
      paint.request();
    };
    try {
      await complete(
        model,
        messages,
        {
          thinking: (part) => {
            thinking += part;
            piece();
          },
          answer: (part) => {
            content += part;
            piece();
          },
          finish: (reason) => (answer.cutOff = reason === "length"),
          usage: (told) => (usage = told),
        },
        abort.signal,
        this.fetcher,
      );
      paint.flush();
      answer.state = "done";
    } catch (thrown) {
      paint.flush();
      answer.state = abort.signal.aborted ? "stopped" : "failed";
      if (answer.state === "failed") answer.error = thrown as ApiError;
    } finally {
      if (watched.firstAt !== null && answer.state !== "failed") {
        answer.stats = statsLine(usage, { ...watched, endedAt: performance.now() });
      }
      if (this.#current === answer) this.#current = null;
      this.news = answer.state === "done" ? text.chat.answered : "";
      this.keep();
      if (answer.error?.status === 401) this.unauthorized();
    }
  }
}

/** The messages to send: answered turns (a stopped answer counts as far as it came), then the question. */
export function conversation(turns: readonly Turn[], question: string): Sent[] {
  const messages: Sent[] = [];
  for (const turn of turns) {
    if (turn.answer.content === "") continue;
    messages.push({ role: "user", content: turn.question });
    messages.push({ role: "assistant", content: turn.answer.content });
  }
  messages.push({ role: "user", content: question });
  return messages;
}
