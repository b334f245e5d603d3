// One streamed chat completion, read as it comes.
import { createParser } from "eventsource-parser";
import { ApiError, asApiError, errorFrom, errorOf } from "../api/errors";
import { text } from "../text";

export interface Sent {
  role: "user" | "assistant";
  content: string;
}

/** What the gateway adds to `usage` about a request. */
export interface Receipt {
  request_id?: string | null;
  ttft_ms?: number | null;
  tok_per_sec?: number | null;
  /** For its turn, or for models that had to leave. */
  queue_ms?: number | null;
  load_ms?: number | null;
  duration_ms?: number | null;
  energy_j?: number | null;
  /** How the energy was got; an answer can hold no more than an estimate. */
  energy?: string | null;
  tok_per_j?: number | null;
}

export interface Usage {
  prompt_tokens?: number | null;
  completion_tokens?: number | null;
  cerberus?: Receipt | null;
}

export interface CompletionHandlers {
  thinking(piece: string): void;
  answer(piece: string): void;
  finish(reason: string): void;
  usage(usage: Usage): void;
}

interface Chunk {
  choices?: { delta?: Delta; finish_reason?: string | null }[];
  usage?: Usage | null;
  error?: unknown;
}

interface Delta {
  content?: string | null;
  reasoning_content?: string | null;
  reasoning?: string | null;
}

/** Resolves at the end of the answer; throws an `ApiError`, or the abort as it is. */
export async function complete(
  model: string,
  messages: Sent[],
  handlers: CompletionHandlers,
  signal: AbortSignal,
  fetcher: typeof fetch = (input, init) => fetch(input, init),
): Promise<void> {
  let ended = false;
  let failure: ApiError | null = null;
  const parser = createParser({
    onEvent: (event) => {
      if (event.data === "[DONE]") ended = true;
      else if (!failure) failure = readChunk(event.data, handlers);
    },
  });
  try {
    const response = await fetcher("/v1/chat/completions", {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
      body: JSON.stringify({
        model,
        messages,
        stream: true,
        stream_options: { include_usage: true },
      }),
      signal,
    });
    if (!response.ok) throw await errorOf(response);
    if (!response.body) throw errorFrom(null, response.status);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      parser.feed(value);
      if (failure) {
        void reader.cancel();
        throw failure;
      }
    }
  } catch (thrown) {
    if (signal.aborted) throw thrown;
    // A connection that dies in mid-answer is not the same as none at all.
    if (!(thrown instanceof ApiError) && ended) return;
    throw asApiError(thrown);
  }
  if (!ended) throw new ApiError(text.chat.brokenOff, 0, "broken_off", text.chat.brokenOffHint);
}

/** Hands on what a chunk holds; gives the error if it is one. */
function readChunk(data: string, handlers: CompletionHandlers): ApiError | null {
  let chunk: Chunk;
  try {
    chunk = JSON.parse(data) as Chunk;
  } catch {
    return null;
  }
  if (typeof chunk !== "object" || chunk === null) return null;
  if (chunk.error) return errorFrom(chunk, 502);
  const choice = chunk.choices?.[0];
  const thought = choice?.delta?.reasoning_content ?? choice?.delta?.reasoning;
  if (thought) handlers.thinking(thought);
  if (choice?.delta?.content) handlers.answer(choice.delta.content);
  if (chunk.usage) handlers.usage(chunk.usage);
  if (choice?.finish_reason) handlers.finish(choice.finish_reason);
  return null;
}
