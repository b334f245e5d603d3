// How a finished request ended, in shape, word and colour. Pure.
import type { RequestRecord } from "./api/types";
import type { Tone } from "./modelstate";
import { UNKNOWN } from "./format";
import { text } from "./text";

export const CLIENT_LEFT = 499;

/** The model without its backend: a row has little room, and the name says more. */
export function shortModel({ model, backend }: Pick<RequestRecord, "model" | "backend">): string {
  return backend !== null && model.startsWith(`${backend}/`)
    ? model.slice(backend.length + 1)
    : model;
}

export function outcomeOf(record: RequestRecord): { tone: Tone; word: string } {
  const { status, error } = record;
  if (status === CLIENT_LEFT) return { tone: "idle", word: text.requests.left };
  if (status !== null && status >= 400) return { tone: "bad", word: String(status) };
  if (error !== null) return { tone: "bad", word: text.requests.failed };
  if (status === null) return { tone: "idle", word: UNKNOWN };
  return { tone: "ok", word: text.requests.ok };
}
