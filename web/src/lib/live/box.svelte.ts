// The page's picture of the box: a snapshot, kept true by events.
import type { Api } from "../api/client";
import { ApiError, asApiError } from "../api/errors";
import type { Fits, ModelInfo, Notice } from "../api/types";
import { text } from "../text";
import type { Clock } from "./clock.svelte";
import { type BoxEvent, RECENT_LIMIT, reduce, type Snapshot } from "./reduce";
import { EventStream } from "./stream";

export type Link = "connecting" | "live" | "offline";

/** A gap shorter than this is not worth a word. */
const OFFLINE_AFTER_MS = 2_000;

export class Box {
  /** null until the first answer. */
  snapshot = $state.raw<Snapshot | null>(null);
  /** What a person should look at. */
  notices = $state.raw<readonly Notice[]>([]);
  /** Whether each model could be loaded now. */
  fits = $state.raw<Fits>({});
  link = $state<Link>("connecting");
  /** When what is shown was last known to be true (our clock). */
  asOf = $state(Date.now());
  /** When each model was seen to start loading (ms, daemon's clock); only if we saw it. */
  loadingSince = $state.raw<{ [id: string]: number }>({});
  /** Errors of Load and Unload, by model. */
  failures = $state.raw<{ [id: string]: ApiError }>({});
  /** The last thing worth telling a screen reader. */
  news = $state("");

  readonly #stream: EventStream;
  /** Events that came while all state is being read. */
  #waiting: BoxEvent[] | null = null;
  /** Asked to read all anew while it was being read. */
  #again = false;
  #offlineTimer: ReturnType<typeof setTimeout> | undefined;
  #noticesTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly api: Api,
    private readonly clock: Clock,
    signedOut: () => void,
  ) {
    this.#stream = new EventStream("/api/events", {
      open: (resumed) => {
        // After a real gap all is read anew, however well the daemon resumed.
        if (!resumed || this.snapshot === null || this.link !== "live") void this.#readAll();
        else this.#connected();
      },
      event: (type, data) => this.#take({ type, data }),
      lost: () => this.#lost(),
      unauthorized: signedOut,
    });
  }

  start(): void {
    this.link = "connecting";
    this.#lost();
    // It may run already: someone signed in who was in.
    this.#stream.restart();
  }

  stop(): void {
    clearTimeout(this.#offlineTimer);
    clearTimeout(this.#noticesTimer);
    this.#stream.stop();
  }

  /** Nobody looks: the connection is given back. What is shown stays. */
  pause(): void {
    this.#stream.stop();
  }

  /** Connects anew at once. */
  wake(): void {
    this.#stream.restart();
  }

  /** Forgets all: someone signed out. */
  clear(): void {
    this.stop();
    this.#stream.forget();
    this.snapshot = null;
    this.notices = [];
    this.fits = {};
    this.failures = {};
    this.loadingSince = {};
  }

  load(id: string): Promise<void> {
    return this.#act(id, () => this.api.load(id));
  }

  unload(id: string): Promise<void> {
    return this.#act(id, () => this.api.unload(id));
  }

  async #act(id: string, call: () => Promise<ModelInfo>): Promise<void> {
    this.#forgive(id);
    try {
      await call();
      // The events tell what comes of it; the answer may be older than they are.
    } catch (thrown) {
      this.failures = { ...this.failures, [id]: asApiError(thrown) };
    }
  }

  #forgive(id: string): void {
    if (!(id in this.failures)) return;
    const { [id]: _, ...others } = this.failures;
    this.failures = others;
  }

  /** Reads all state. Events that arrive meanwhile are newer: they are applied on top. */
  async #readAll(): Promise<void> {
    if (this.#waiting) {
      this.#again = true;
      return;
    }
    this.#waiting = [];
    this.#again = false;
    try {
      const [listed, requests, notices] = await Promise.all([
        this.api.models(),
        this.api.requests(RECENT_LIMIT),
        this.api.notices(),
      ]);
      let next: Snapshot = { models: listed.models, choice: listed.default, ...requests };
      for (const event of this.#waiting) next = reduce(next, event);
      const loading = new Set(next.models.filter((m) => m.state === "loading").map((m) => m.id));
      this.loadingSince = Object.fromEntries(
        Object.entries(this.loadingSince).filter(([id]) => loading.has(id)),
      );
      this.snapshot = next;
      this.notices = notices;
      this.fits = listed.fits;
      this.#connected();
    } catch {
      // A 401 has been told already. Anything else: as good as no connection.
      this.#stream.forget();
      this.#stream.drop();
    } finally {
      this.#waiting = null;
    }
    if (this.#again) void this.#readAll();
  }

  #take(event: BoxEvent): void {
    if (event.type === "reload") {
      void this.#readAll();
      return;
    }
    if (event.type === "model") this.#watchModel(event.data as ModelInfo);
    if (this.#waiting) this.#waiting.push(event);
    else if (this.snapshot) this.snapshot = reduce(this.snapshot, event);
    if (event.type !== "request") this.#refreshNoticesSoon();
  }

  #watchModel(model: ModelInfo): void {
    const before = this.snapshot?.models.find((m) => m.id === model.id)?.state;
    const { [model.id]: since, ...others } = this.loadingSince;
    if (model.state !== "loading") {
      if (since !== undefined) this.loadingSince = others;
    } else if (since === undefined && before !== "loading") {
      this.clock.tick();
      this.loadingSince = { ...others, [model.id]: this.clock.now };
    }
    if (before === model.state) return;
    // An older refusal to load or unload says nothing about the model as it is now.
    this.#forgive(model.id);
    if (model.state === "ready") this.news = text.models.nowReady(model.name);
    if (model.state === "failed") this.news = text.models.nowFailed(model.name);
  }

  /** Notices and what fits have no events: they are read shortly after something happened. */
  #refreshNoticesSoon(): void {
    clearTimeout(this.#noticesTimer);
    this.#noticesTimer = setTimeout(() => {
      this.api.notices().then(
        (notices) => (this.notices = notices),
        () => undefined,
      );
      this.api.models().then(
        (listed) => (this.fits = listed.fits),
        () => undefined,
      );
    }, 1_000);
  }

  #connected(): void {
    clearTimeout(this.#offlineTimer);
    this.#offlineTimer = undefined;
    this.link = "live";
    const kept = Object.entries(this.failures).filter(([, e]) => e.code !== "unreachable");
    this.failures = Object.fromEntries(kept);
  }

  #lost(): void {
    if (this.#stream.heard > 0) this.asOf = this.#stream.heard;
    this.#offlineTimer ??= setTimeout(() => (this.link = "offline"), OFFLINE_AFTER_MS);
  }
}
