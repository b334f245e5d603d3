// How a finished request ended, in shape, word and colour. Pure.
import type { ModelInfo, RequestRecord } from "./api/types";
import type { Tone } from "./modelstate";
import { UNKNOWN } from "./format";
import { text } from "./text";

export const CLIENT_LEFT = 499;

/**
 * How rows call a model: without its backend, since a row has little room and the name says more,
 * but whole where another backend has a model of that name. A request that failed before it had a
 * backend is called as the others are.
 */
export function modelNames(
  models: readonly Pick<ModelInfo, "id" | "backend">[],
  records: readonly Pick<RequestRecord, "model" | "backend">[],
): (model: string) => string {
  const backends = new Set([...models, ...records].map((one) => one.backend));
  const bare = (id: string): string => {
    const slash = id.indexOf("/");
    return slash > 0 && backends.has(id.slice(0, slash)) ? id.slice(slash + 1) : id;
  };
  const ids = new Map<string, Set<string>>();
  for (const id of [...models.map((one) => one.id), ...records.map((one) => one.model)]) {
    ids.set(bare(id), (ids.get(bare(id)) ?? new Set()).add(id));
  }
  return (model) => ((ids.get(bare(model))?.size ?? 0) > 1 ? model : bare(model));
}

export function outcomeOf(record: RequestRecord): { tone: Tone; word: string } {
  const { status, error } = record;
  if (status === CLIENT_LEFT) return { tone: "idle", word: text.requests.left };
  if (status !== null && status >= 400) return { tone: "bad", word: String(status) };
  if (error !== null) return { tone: "bad", word: text.requests.failed };
  if (status === null) return { tone: "idle", word: UNKNOWN };
  return { tone: "ok", word: text.requests.ok };
}
