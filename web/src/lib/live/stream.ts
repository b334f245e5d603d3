// The one stream of live events: reads it, resumes it, and never gives up on it.
//
// Over fetch instead of EventSource, which can't send `Last-Event-ID` on its first
// request, hides heartbeats, and believes itself open after a phone has slept.
import { createParser } from "eventsource-parser";
import { backoff } from "./backoff";
import { isNewBoot, isRepeat } from "./order";

const STALE_MS = 35_000;
/** A connection that lived this long is worth an immediate new try. */
const HEALTHY_MS = 5_000;

export interface StreamHandlers {
  /** Connected. `resumed` is false when events may have been missed: read all state anew. */
  open(resumed: boolean): void;
  event(type: string, data: unknown): void;
  /** Not connected any more; it tries again by itself. */
  lost(): void;
  /** 401: it has stopped. */
  unauthorized(): void;
}

export class EventStream {
  #last: string | null = null;
  #run: AbortController | null = null;
  #connection: AbortController | null = null;
  #wake: (() => void) | null = null;
  #attempt = 0;
  #heard = 0;

  constructor(
    private readonly url: string,
    private readonly handlers: StreamHandlers,
    private readonly fetcher: typeof fetch = (input, init) => fetch(input, init),
  ) {}

  start(): void {
    if (this.#run) return;
    this.#run = new AbortController();
    void this.#loop(this.#run.signal);
  }

  stop(): void {
    this.#run?.abort();
    this.#connection?.abort();
    this.#wake?.();
    this.#run = null;
  }

  /** Connects anew at once: the page came back, or the network did. */
  restart(): void {
    if (!this.#run) return this.start();
    this.#attempt = 0;
    this.#connection?.abort();
    this.#wake?.();
  }

  /** Gives the connection up; the next one comes after the usual wait. */
  drop(): void {
    this.#connection?.abort();
  }

  /** When the daemon last gave a sign of life (our clock, ms); 0 if it never did. */
  get heard(): number {
    return this.#heard;
  }

  /** The next connection starts without a past, so that all state is read anew. */
  forget(): void {
    this.#last = null;
  }

  async #loop(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      const began = Date.now();
      this.#connection = new AbortController();
      const outcome = await this.#connect(this.#connection);
      if (stopped.aborted) return;
      if (outcome === "unauthorized") {
        this.#run = null;
        this.handlers.unauthorized();
        return;
      }
      this.handlers.lost();
      if (Date.now() - began > HEALTHY_MS) this.#attempt = 0;
      await this.#pause(backoff(this.#attempt++));
    }
  }

  async #connect(connection: AbortController): Promise<"lost" | "unauthorized"> {
    let watchdog = setTimeout(() => connection.abort(), STALE_MS);
    try {
      const resumed = this.#last !== null;
      const headers: { [name: string]: string } = { Accept: "text/event-stream" };
      if (this.#last !== null) headers["Last-Event-ID"] = this.#last;
      const response = await this.fetcher(this.url, {
        headers,
        signal: connection.signal,
        cache: "no-store",
      });
      if (response.status === 401) return "unauthorized";
      if (!response.ok || !response.body) return "lost";
      this.#heard = Date.now();
      this.handlers.open(resumed);
      const parser = createParser({
        onEvent: (event) => this.#deliver(event.id ?? "", event.event ?? "message", event.data),
      });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return "lost";
        this.#heard = Date.now();
        clearTimeout(watchdog);
        watchdog = setTimeout(() => connection.abort(), STALE_MS);
        parser.feed(value);
      }
    } catch {
      return "lost";
    } finally {
      clearTimeout(watchdog);
    }
  }

  #deliver(id: string, type: string, raw: string): void {
    // "reload" carries the id of the newest event, which may be the last one that came.
    if (type !== "reload" && isRepeat(id, this.#last)) return;
    const gap = type !== "reload" && isNewBoot(id, this.#last);
    if (id !== "") this.#last = id;
    if (gap) this.handlers.event("reload", {});
    let data: unknown;
    try {
      data = JSON.parse(raw);
    } catch {
      return;
    }
    this.handlers.event(type, data);
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(done, ms);
      const wake = () => done();
      this.#wake = wake;
      function done() {
        clearTimeout(timer);
        resolve();
      }
    });
  }
}
