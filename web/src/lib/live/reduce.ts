// What the page knows of the box, and how events change it. Pure.
import type { LiveRequest, ModelInfo, RequestRecord } from "../api/types";

export const RECENT_LIMIT = 50;

export interface Snapshot {
  models: readonly ModelInfo[];
  /** The one to talk to where nobody chose, when all was read last. */
  choice: string | null;
  /** Newest first, as the next. */
  live: readonly LiveRequest[];
  recent: readonly RequestRecord[];
}

export interface BoxEvent {
  type: string;
  data: unknown;
}

/** Puts the item in the place of its older self, or first. */
const put = <T extends { id: string }>(list: readonly T[], item: T): T[] =>
  list.some((x) => x.id === item.id)
    ? list.map((x) => (x.id === item.id ? item : x))
    : [item, ...list];

function hasId(data: unknown): data is { id: string } {
  return typeof data === "object" && data !== null && typeof (data as { id?: unknown }).id === "string";
}

/** The models once a request of one of them has ended: its use has no event of its own. */
function used(models: readonly ModelInfo[], { model, time, duration_ms }: RequestRecord) {
  const end = Date.parse(time) + (duration_ms ?? 0);
  if (isNaN(end) || !models.some((m) => m.id === model)) return models;
  const ended = new Date(end).toISOString();
  return models.map((m) => (m.id === model ? { ...m, last_used: ended } : m));
}

/** How many requests a model is answering, or is about to. */
export function inFlight(live: readonly LiveRequest[], id: string): number {
  return live.filter((request) => request.model === id).length;
}

/** The snapshot after an event. Unknown types and shapes change nothing. */
export function reduce(state: Snapshot, event: BoxEvent): Snapshot {
  const { type, data } = event;
  if (!hasId(data)) return state;
  if (type === "model") {
    return { ...state, models: put(state.models, data as ModelInfo) };
  }
  if (type === "request") {
    // A late sign of life of a request that has its record already.
    if (state.recent.some((record) => record.id === data.id)) return state;
    return { ...state, live: put(state.live, data as LiveRequest) };
  }
  if (type === "record") {
    const others = state.recent.filter((record) => record.id !== data.id);
    return {
      ...state,
      models: used(state.models, data as RequestRecord),
      live: state.live.filter((request) => request.id !== data.id),
      recent: [data as RequestRecord, ...others].slice(0, RECENT_LIMIT),
    };
  }
  return state;
}

/** Waiting for attention, then busy, then there, then the rest, then other people's; names within. */
export function sortModels(models: readonly ModelInfo[]): ModelInfo[] {
  const rank = (m: ModelInfo) => {
    if (m.problem) return 4;
    if (!m.managed && m.state === "ready") return 5;
    return { failed: 0, loading: 1, draining: 1, ready: 2, unloaded: 3 }[m.state];
  };
  const order = new Intl.Collator("en", { numeric: true });
  return [...models].sort((a, b) => rank(a) - rank(b) || order.compare(a.name, b.name));
}
