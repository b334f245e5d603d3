// Event ids are `<boot>-<seq>`: seq grows by one within a daemon's life.

export interface EventId {
  boot: string;
  seq: number;
}

export function parseId(id: string): EventId | null {
  const match = /^(.+)-(\d+)$/.exec(id);
  return match ? { boot: match[1] as string, seq: Number(match[2]) } : null;
}

/** Whether `id` is of another life of the daemon than `last`: what was between them is lost. */
export function isNewBoot(id: string, last: string | null): boolean {
  const [a, b] = [parseId(id), last === null ? null : parseId(last)];
  return a !== null && b !== null && a.boot !== b.boot;
}

/** Whether an event with `id` has been seen, when `last` was the newest one so far. */
export function isRepeat(id: string, last: string | null): boolean {
  if (last === null || id === "") return false;
  const [a, b] = [parseId(id), parseId(last)];
  if (!a || !b) return id === last;
  return a.boot === b.boot && a.seq <= b.seq;
}
