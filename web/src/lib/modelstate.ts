// What a model's row says and offers, from what is known of it. Pure.
import type { Fit, ModelInfo } from "./api/types";
import { size } from "./format";
import { text } from "./text";

export type Tone = "ok" | "run" | "wait" | "bad" | "idle" | "far";

export function stateOf(model: ModelInfo): { tone: Tone; word: string } {
  const words = text.models.state;
  if (model.problem) return { tone: "bad", word: words.broken };
  // Simply there: it is neither loaded nor unloaded.
  if (!model.managed && model.state === "ready") return { tone: "far", word: words.endpoint };
  switch (model.state) {
    case "ready":
      return { tone: "ok", word: words.ready };
    case "loading":
      return model.waits_for.length
        ? { tone: "wait", word: words.waiting }
        : { tone: "run", word: words.loading };
    case "draining":
      return { tone: "wait", word: words.draining };
    case "failed":
      return { tone: "bad", word: words.failed };
    default:
      return { tone: "idle", word: words.unloaded };
  }
}

export interface Offer {
  verb: "load" | "unload";
  word: string;
  /** For a screen reader, which hears the button without its row. */
  label: string;
}

/** The one button of a model's row, or null where there is nothing to do. */
export function offerFor(model: ModelInfo): Offer | null {
  const t = text.models;
  if (!model.managed || model.problem) return null;
  switch (model.state) {
    case "ready":
      return { verb: "unload", word: t.unload, label: t.unloadNamed(model.name) };
    case "loading":
      return { verb: "unload", word: t.cancel, label: t.cancelNamed(model.name) };
    case "failed":
      return { verb: "load", word: t.retry, label: t.retryNamed(model.name) };
    case "unloaded":
      return { verb: "load", word: t.load, label: t.loadNamed(model.name) };
    default:
      return null;
  }
}

/** What stands between an unloaded model and this machine's memory; "" where nothing does. */
export function fitOf(model: ModelInfo, fit: Fit | undefined): string {
  const t = text.models.fit;
  if (!fit || model.state === "ready" || model.state === "loading" || model.problem) return "";
  switch (fit.says) {
    case "after":
      return t.after(fit.others.length);
    case "waits":
      return t.waits(fit.others.length);
    case "oversize":
      return t.oversize;
    case "no":
      return fit.short_mib === null ? t.pinned : t.short(size(fit.short_mib));
    default:
      return "";
  }
}

/** Can be talked to, loaded or not. */
export function canChat(model: ModelInfo): boolean {
  return model.problem === null && model.capabilities.includes("chat");
}

/** A question to it waits until it is in memory. */
export function loadsFirst(model: ModelInfo): boolean {
  return model.managed && model.state !== "ready";
}

/** The model to talk to: the one picked before, else the daemon's choice, while they are there.
 * Where neither is, rather one of this machine than one that may cost money elsewhere. */
export function pickModel(
  usable: readonly ModelInfo[],
  before: string | null,
  choice: string | null,
): string | null {
  const there = (id: string | null) => usable.find((m) => m.id === id);
  const fallback = usable.find((m) => m.managed) ?? usable.find((m) => m.local) ?? usable[0];
  return (there(before) ?? there(choice) ?? fallback)?.id ?? null;
}
