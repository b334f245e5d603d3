// One kind of error for the page, whatever shape the daemon or the network gave it.
import { text } from "../text";

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string | null = null,
    readonly hint: string | null = null,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

const string = (value: unknown): string | null =>
  typeof value === "string" && value.trim() !== "" ? value : null;

/** An error from a body: problem+json of `/api`, or the OpenAI shape of `/v1`. */
export function errorFrom(body: unknown, status: number): ApiError {
  if (typeof body === "object" && body !== null) {
    const outer = body as { [key: string]: unknown };
    const inner = outer.error;
    if (typeof inner === "string") return new ApiError(inner, status);
    if (typeof inner === "object" && inner !== null) {
      const e = inner as { [key: string]: unknown };
      const message = string(e.message) ?? text.error.status(status);
      return new ApiError(message, status, string(e.code), string(e.hint));
    }
    const message = string(outer.detail) ?? string(outer.title) ?? text.error.status(status);
    return new ApiError(message, status, string(outer.code), string(outer.hint));
  }
  return new ApiError(text.error.status(status), status);
}

/** The error of a response that isn't ok; reads its body. */
export async function errorOf(response: Response): Promise<ApiError> {
  let body: unknown = null;
  try {
    body = JSON.parse(await response.text());
  } catch {
    // Not JSON (a proxy's page, say): the status has to do.
  }
  return errorFrom(body, response.status);
}

/** Whatever was thrown, as an `ApiError`: `fetch` throws a bare TypeError when nothing answers. */
export function asApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  return new ApiError(text.error.unreachable, 0, "unreachable", text.error.unreachableHint);
}
