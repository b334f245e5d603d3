// What a key may, in words; and what was typed, as the daemon takes it.
import { count, significant } from "./format";
import type { KeyInfo, KeyLimit, NewKey } from "./api/types";
import { text } from "./text";

const DAY_MS = 86_400_000;

/** What stands in the form. */
export interface KeyForm {
  name: string;
  models: string;
  localOnly: boolean;
  tokensPerDay: number | null;
  moneyPerMonth: number | null;
  /** Days until it ends; 0: never. */
  days: number;
  storePrompts: boolean;
}

export const emptyForm = (): KeyForm => ({
  name: "",
  models: "",
  localOnly: false,
  tokensPerDay: null,
  moneyPerMonth: null,
  days: 0,
  storePrompts: false,
});

/** The key that a form asks for. */
export function wanted(form: KeyForm, now: number): NewKey {
  const limits: NewKey["limits"] = [];
  // An emptied field of numbers is null, or undefined in some browsers.
  if (form.tokensPerDay != null) limits.push({ what: "tokens", per: "day", most: form.tokensPerDay });
  if (form.moneyPerMonth != null) limits.push({ what: "money", per: "month", most: form.moneyPerMonth });
  return {
    name: form.name.trim(),
    models: form.models.split(/[\s,]+/).filter((one) => one !== ""),
    cloud: !form.localOnly,
    limits,
    expires_at: form.days > 0 ? new Date(now + form.days * DAY_MS).toISOString() : null,
    store_prompts: form.storePrompts,
  };
}

/** “all models”, “llamacpp/*, qwen* · local only”. */
export function scope(key: KeyInfo): string {
  const t = text.keys;
  const which = key.models.length > 0 ? key.models.join(", ") : t.allModels;
  return key.cloud ? which : `${which} · ${t.localOnlyShort}`;
}

/** “1,200 of 50,000 tokens a day”. */
export function limitWords(limit: KeyLimit, currency: string): string {
  const figure = limit.what === "money" ? significant : count;
  const unit = limit.what === "money" ? currency : text.keys.what[limit.what];
  return text.keys.limit(figure(limit.spent), figure(limit.most), unit, text.keys.per[limit.per]);
}

/** How much of a limit is used, from 0 to 1. */
export function used(limit: KeyLimit): number {
  return limit.most > 0 ? Math.min(1, limit.spent / limit.most) : 1;
}
