// One answer of a model, as far as it came.
import { ApiError } from "../api/errors";
import type { KeptTurn, TurnState } from "./memory";

export class Answer {
  content = $state("");
  thinking = $state("");
  state = $state<TurnState>("waiting");
  error = $state.raw<ApiError | null>(null);
  cutOff = $state(false);
  stats = $state.raw<string[]>([]);

  get busy(): boolean {
    return this.state === "waiting" || this.state === "streaming";
  }
}

export interface Turn {
  id: number;
  question: string;
  model: string;
  answer: Answer;
}

export function keep({ question, model, answer }: Turn): KeptTurn {
  const { content, thinking, state, cutOff, stats, error } = answer;
  const told = error && {
    message: error.message,
    status: error.status,
    code: error.code,
    hint: error.hint,
  };
  return { question, model, content, thinking, state, cutOff, stats, error: told };
}

/** The turn again. What was still under way when the page went was stopped by that. */
export function restore(kept: KeptTurn, id: number): Turn {
  const answer = new Answer();
  answer.content = kept.content;
  answer.thinking = kept.thinking;
  answer.state = kept.state === "done" || kept.state === "failed" ? kept.state : "stopped";
  answer.cutOff = kept.cutOff;
  answer.stats = kept.stats;
  const error = kept.error;
  if (error) answer.error = new ApiError(error.message, error.status, error.code, error.hint);
  return { id, question: kept.question, model: kept.model, answer };
}
