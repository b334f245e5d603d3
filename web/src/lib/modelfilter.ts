// Finding a model among many. Pure.
import type { ModelInfo } from "./api/types";
import { loadsFirst, stateOf } from "./modelstate";
import { text } from "./text";

/** Every word of the query is somewhere in what is known of the model. */
export function matches(model: ModelInfo, query: string): boolean {
  const { word } = stateOf(model);
  const known = [model.id, model.detail ?? "", word, ...model.capabilities].join(" ").toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((part) => known.includes(part));
}

export interface Group {
  label: string;
  models: ModelInfo[];
}

/** For the picker: what answers at once, what loads first, then each endpoint's. */
export function grouped(models: readonly ModelInfo[]): Group[] {
  const label = (m: ModelInfo) => {
    if (!m.managed) return m.backend;
    return loadsFirst(m) ? text.chat.groups.here : text.chat.groups.loaded;
  };
  const groups = new Map<string, ModelInfo[]>([
    [text.chat.groups.loaded, []],
    [text.chat.groups.here, []],
  ]);
  for (const model of [...models].sort((a, b) => a.id.localeCompare(b.id))) {
    groups.set(label(model), [...(groups.get(label(model)) ?? []), model]);
  }
  return [...groups]
    .map(([label, models]) => ({ label, models }))
    .filter((group) => group.models.length > 0);
}
