// The line below an answer: what it cost.
import { count, duration, energy, UNKNOWN, withUnit } from "../format";
import { text } from "../text";
import type { Usage } from "./completion";

/** What the page saw itself; it stands in, marked "~", where the gateway told nothing. */
export interface Watched {
  sentAt: number;
  firstAt: number | null;
  endedAt: number;
  pieces: number;
}

export function statsLine(usage: Usage | null, watched: Watched): string[] {
  const receipt = usage?.cerberus ?? null;
  const parts: string[] = [];
  parts.push(text.chat.ttft(ttft(receipt?.ttft_ms, watched)));
  parts.push(speed(receipt?.tok_per_sec, watched));
  const tokens = usage?.completion_tokens;
  parts.push(text.chat.tokens(tokens != null ? count(tokens) : count(watched.pieces, true)));
  const total = receipt?.duration_ms;
  parts.push(
    total != null ? duration(total) : duration(watched.endedAt - watched.sentAt, true),
  );
  if ((receipt?.queue_ms ?? 0) >= 100) parts.push(text.chat.waited(duration(receipt?.queue_ms)));
  if (receipt?.load_ms != null) parts.push(text.chat.loadedIn(duration(receipt.load_ms)));
  const estimate = receipt?.energy === "estimated";
  if (receipt?.energy_j != null) parts.push(energy(receipt.energy_j, estimate));
  if (receipt?.tok_per_j != null) parts.push(withUnit(receipt.tok_per_j, "tok/J", estimate));
  return parts;
}

function ttft(told: number | null | undefined, { sentAt, firstAt }: Watched): string {
  if (told != null) return duration(told);
  return firstAt === null ? UNKNOWN : duration(firstAt - sentAt, true);
}

function speed(told: number | null | undefined, { firstAt, endedAt, pieces }: Watched): string {
  if (told != null) return withUnit(told, "tok/s");
  if (firstAt === null || pieces < 2 || endedAt <= firstAt) return withUnit(null, "tok/s");
  return withUnit(((pieces - 1) / (endedAt - firstAt)) * 1000, "tok/s", true);
}
