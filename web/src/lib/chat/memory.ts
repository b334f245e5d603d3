// What a reload must not lose: the conversation, kept for this browser tab alone. Storage may be
// full, refused or hold nonsense: then less is kept, or nothing, and the chat goes on.
import type { ApiError } from "../api/errors";

const KEY = "cerberus.chat";
/** Characters of JSON; a browser gives a page about five million. */
const LIMIT = 1_000_000;

export type TurnState = "waiting" | "streaming" | "done" | "stopped" | "failed";

/** A turn as plain data. */
export interface KeptTurn {
  question: string;
  model: string;
  content: string;
  thinking: string;
  state: TurnState;
  cutOff: boolean;
  stats: string[];
  error: Pick<ApiError, "message" | "status" | "code" | "hint"> | null;
}

export interface Kept {
  turns: KeptTurn[];
  draft: string;
  picked: string | null;
}

const NOTHING: Kept = { turns: [], draft: "", picked: null };

type Store = Pick<Storage, "getItem" | "setItem" | "removeItem">;

export class Memory {
  /** `open` may throw: a browser that refuses storage does. */
  constructor(
    private readonly open: () => Store = () => sessionStorage,
    private readonly limit = LIMIT,
  ) {}

  load(): Kept {
    try {
      return read(JSON.parse(this.open().getItem(KEY) ?? "null"));
    } catch {
      return NOTHING;
    }
  }

  /** Keeps as many of the last turns as there is room for. */
  save(kept: Kept): void {
    for (let limit = this.limit; ; limit = Math.floor(limit / 2)) {
      const turns = lastWithin(kept.turns, limit);
      try {
        this.open().setItem(KEY, JSON.stringify({ ...kept, turns }));
        return;
      } catch {
        if (turns.length === 0) return this.clear();
      }
    }
  }

  clear(): void {
    try {
      this.open().removeItem(KEY);
    } catch {
      // There is none to clear.
    }
  }
}

/** The last turns that together are no longer than `limit` characters of JSON. */
export function lastWithin(turns: readonly KeptTurn[], limit: number): KeptTurn[] {
  let used = 0;
  const first = turns.findLastIndex((turn) => (used += JSON.stringify(turn).length) > limit);
  return turns.slice(first + 1);
}

const isText = (value: unknown): value is string => typeof value === "string";

/** What was stored, if it is of this shape; another version of the page may have written it. */
function read(stored: unknown): Kept {
  if (typeof stored !== "object" || stored === null) return NOTHING;
  const { turns, draft, picked } = stored as { [key: string]: unknown };
  if (!Array.isArray(turns) || !turns.every(isTurn)) return NOTHING;
  return { turns, draft: isText(draft) ? draft : "", picked: isText(picked) ? picked : null };
}

function isTurn(value: unknown): value is KeptTurn {
  if (typeof value !== "object" || value === null) return false;
  const turn = value as { [key: string]: unknown };
  const words = [turn.question, turn.model, turn.content, turn.thinking, turn.state];
  const { error, stats } = turn;
  return (
    words.every(isText) &&
    Array.isArray(stats) &&
    stats.every(isText) &&
    (error === null || isText((error as { message?: unknown } | undefined)?.message))
  );
}
