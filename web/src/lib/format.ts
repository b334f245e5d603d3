// Numbers for people: three significant digits, the unit after a no-break space,
// "—" for what is unknown, never a false zero.
import { locale } from "./text";

export const UNKNOWN = "—";
export const NBSP = "\u00a0";

type Maybe = number | null | undefined;

const three = new Intl.NumberFormat(locale, {
  minimumSignificantDigits: 3,
  maximumSignificantDigits: 3,
});
const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat(locale, {
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});
const clockSeconds = new Intl.DateTimeFormat(locale, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const day = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short" });
const ago = new Intl.RelativeTimeFormat(locale, { style: "short", numeric: "always" });

const known = (value: Maybe): value is number => typeof value === "number" && isFinite(value);

/** 34.2, 0.512, 1,230: three significant digits, whole from a hundred on. */
export function significant(value: Maybe): string {
  if (!known(value)) return UNKNOWN;
  if (value === 0) return "0";
  return Math.abs(value) >= 99.95 ? whole.format(value) : three.format(value);
}

export function withUnit(value: Maybe, unit: string, estimate = false): string {
  if (!known(value)) return UNKNOWN;
  return `${estimate ? "~" : ""}${significant(value)}${NBSP}${unit}`;
}

/** A count, exact. `estimate` marks one that was counted on the way, not told by the engine. */
export function count(value: Maybe, estimate = false): string {
  return known(value) ? `${estimate ? "~" : ""}${whole.format(value)}` : UNKNOWN;
}

/** 42 %, rounded down: 100 % is the end. */
export function percent(fraction: Maybe): string {
  return known(fraction) ? `${whole.format(Math.floor(fraction * 100))}${NBSP}%` : UNKNOWN;
}

export function size(mib: Maybe): string {
  if (!known(mib)) return UNKNOWN;
  if (mib < 1) return `<1${NBSP}MiB`;
  return mib >= 1024 ? withUnit(mib / 1024, "GiB") : `${whole.format(mib)}${NBSP}MiB`;
}

/** A context length in tokens: 8k for 8192, as the field writes it. */
export function context(tokens: Maybe): string {
  if (!known(tokens)) return UNKNOWN;
  return tokens >= 1024 && tokens % 1024 === 0
    ? `${whole.format(tokens / 1024)}k`
    : whole.format(tokens);
}

/** 182 ms, 4.02 s, 1 min 05 s, 2 h 03 min. */
export function duration(ms: Maybe, estimate = false): string {
  if (!known(ms)) return UNKNOWN;
  const mark = estimate ? "~" : "";
  if (ms < 999.5) return `${mark}${whole.format(ms)}${NBSP}ms`;
  if (ms < 59_950) return `${mark}${three.format(ms / 1000)}${NBSP}s`;
  return mark + minutes(ms);
}

/** Time that is still running, in whole seconds: 4 s, 1 min 05 s. */
export function elapsed(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  return seconds < 60 ? `${seconds}${NBSP}s` : minutes(seconds * 1000);
}

function minutes(ms: number): string {
  const seconds = Math.round(ms / 1000);
  const two = (n: number) => String(n).padStart(2, "0");
  if (seconds < 3600) {
    return `${Math.floor(seconds / 60)}${NBSP}min${NBSP}${two(seconds % 60)}${NBSP}s`;
  }
  const total = Math.round(seconds / 60);
  return `${whole.format(Math.floor(total / 60))}${NBSP}h${NBSP}${two(total % 60)}${NBSP}min`;
}

export function energy(joules: Maybe, estimate = false): string {
  if (!known(joules)) return UNKNOWN;
  return joules > 3600 ? withUnit(joules / 3600, "Wh", estimate) : withUnit(joules, "J", estimate);
}

const dateOf = (when: string | number | Date | null | undefined): Date | null => {
  if (when === null || when === undefined) return null;
  const date = new Date(when);
  return isNaN(date.getTime()) ? null : date;
};

/** 14:03 */
export function time(when: string | number | Date | null | undefined): string {
  const date = dateOf(when);
  return date ? clock.format(date) : UNKNOWN;
}

/** 14:03:27, and the day before it if it isn't today's. */
export function moment(when: string | null | undefined, now: number): string {
  const date = dateOf(when);
  if (!date) return UNKNOWN;
  const today = new Date(now).toDateString() === date.toDateString();
  return today ? clockSeconds.format(date) : `${day.format(date)}, ${clock.format(date)}`;
}

/** "5 min ago"; in the first minute "now". */
export function since(when: string | null | undefined, now: number): string {
  const date = dateOf(when);
  if (!date) return UNKNOWN;
  const s = (now - date.getTime()) / 1000;
  if (s < 60) return new Intl.RelativeTimeFormat(locale, { numeric: "auto" }).format(0, "second");
  if (s < 3600) return ago.format(-Math.floor(s / 60), "minute");
  if (s < 86_400) return ago.format(-Math.floor(s / 3600), "hour");
  return ago.format(-Math.floor(s / 86_400), "day");
}

/** What called, in a word or two: "Chrome", "curl/8.5"; a browser's own line is a riddle. */
export function clientName(agent: string): string {
  if (!/^Mozilla\//.test(agent)) return agent.split(" ")[0] ?? agent;
  return BROWSERS.find(([product]) => agent.includes(`${product}/`))?.[1] ?? agent;
}

/** By product, those first that call themselves Chrome or Safari too. */
const BROWSERS: [product: string, name: string][] = [
  ["Edg", "Edge"],
  ["OPR", "Opera"],
  ["SamsungBrowser", "Samsung Internet"],
  ["CriOS", "Chrome"],
  ["Chrome", "Chrome"],
  ["FxiOS", "Firefox"],
  ["Firefox", "Firefox"],
  ["Safari", "Safari"],
];

/** A reason and, below its first line, what a log said about it. */
export function splitReason(reason: string): [what: string, log: string] {
  const [what = "", ...log] = reason.split("\n");
  return [what.trim().replace(/; its last words:$/, ""), log.join("\n").trim()];
}

/** Where a long name may be cut: its end says most (quantisation, tag). */
export function splitName(name: string, keep = 12): [head: string, tail: string] {
  return name.length <= keep * 2 ? [name, ""] : [name.slice(0, -keep), name.slice(-keep)];
}

/** A sentence with its `commands` apart, as the daemon writes its hints. */
export function spans(sentence: string): { code: boolean; words: string }[] {
  const first = sentence.charAt(0).toUpperCase() + sentence.slice(1);
  const parts = first.split("`");
  // A lone backtick is no pair.
  if (parts.length % 2 === 0) return [{ code: false, words: first }];
  return parts
    .map((words, i) => ({ code: i % 2 === 1, words }))
    .filter(({ words }) => words !== "");
}
