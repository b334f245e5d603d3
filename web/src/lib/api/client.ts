// The daemon's `/api`, typed from its OpenAPI document.
import createClient from "openapi-fetch";
import { ApiError, asApiError, errorFrom } from "./errors";
import type { paths } from "./schema";
import type { Fits, KeyInfo, LiveRequest, ModelInfo, NewKey, Notice, RequestRecord, Status } from "./types";

/** An id as a path's tail: each segment encoded, the slashes kept. */
export function tail(id: string): string {
  return id.split("/").map(encodeURIComponent).join("/");
}

/** Fills `{id}` in a path; the ids of models hold slashes. */
export function fillPath(path: string, params: { [name: string]: unknown }): string {
  return path.replace(/\{([^}]+)\}/g, (_, name: string) => tail(String(params[name])));
}

type Answer<T> = { data?: T; error?: unknown; response: Response };

export class Api {
  readonly #client;
  readonly #unauthorized: () => void;

  /** `unauthorized` is called for every 401 but the one of a sign-in. */
  constructor(unauthorized: () => void, fetcher?: typeof fetch, baseUrl?: string) {
    this.#unauthorized = unauthorized;
    this.#client = createClient<paths>({
      baseUrl,
      fetch: fetcher,
      pathSerializer: fillPath,
      headers: { Accept: "application/json" },
    });
  }

  async status(): Promise<Status> {
    return (await this.#take(this.#client.GET("/api/status"))) as Status;
  }

  async notices(): Promise<Notice[]> {
    return (await this.#take(this.#client.GET("/api/notices"))).notices as Notice[];
  }

  async models(): Promise<{ models: ModelInfo[]; default: string | null; fits: Fits }> {
    const lists = await this.#take(this.#client.GET("/api/models"));
    return {
      models: lists.models as ModelInfo[],
      default: lists.default,
      fits: lists.fits as Fits,
    };
  }

  async requests(limit: number): Promise<{ live: LiveRequest[]; recent: RequestRecord[] }> {
    const params = { query: { limit } };
    const lists = await this.#take(this.#client.GET("/api/requests", { params }));
    return lists as { live: LiveRequest[]; recent: RequestRecord[] };
  }

  /** Asks for the model; it answers at once, events tell how the load goes. */
  async load(id: string): Promise<ModelInfo> {
    const params = { path: { id }, query: { wait: false } };
    return (await this.#take(
      this.#client.POST("/api/models/load/{id}", { params }),
    )) as ModelInfo;
  }

  async unload(id: string): Promise<ModelInfo> {
    const params = { path: { id }, query: { wait: false } };
    return (await this.#take(
      this.#client.POST("/api/models/unload/{id}", { params }),
    )) as ModelInfo;
  }

  async keys(): Promise<{ keys: KeyInfo[]; currency: string }> {
    const listed = await this.#take(this.#client.GET("/api/keys"));
    return listed as { keys: KeyInfo[]; currency: string };
  }

  /** A new key with its token, which is told here and never again. */
  async addKey(wanted: NewKey): Promise<{ token: string; key: KeyInfo }> {
    const made = await this.#take(this.#client.POST("/api/keys", { body: wanted }));
    return made as { token: string; key: KeyInfo };
  }

  async revokeKey(id: string): Promise<void> {
    const params = { path: { id } };
    await this.#signedIn(this.#settle(this.#client.DELETE("/api/keys/{id}", { params })));
  }

  /** Swaps a one-time code for the cookie. */
  async login(code: string): Promise<void> {
    await this.#settle(this.#client.POST("/api/login", { body: { code } }));
  }

  async logout(): Promise<void> {
    await this.#settle(this.#client.POST("/api/logout"));
  }

  async #settle<T>(call: Promise<Answer<T>>): Promise<T | undefined> {
    let answer: Answer<T>;
    try {
      answer = await call;
    } catch (thrown) {
      throw asApiError(thrown);
    }
    if (!answer.response.ok) throw errorFrom(answer.error, answer.response.status);
    return answer.data;
  }

  async #take<T>(call: Promise<Answer<T>>): Promise<T> {
    const data = await this.#signedIn(this.#settle(call));
    if (data === undefined) throw errorFrom(null, 502);
    return data;
  }

  async #signedIn<T>(call: Promise<T>): Promise<T> {
    try {
      return await call;
    } catch (thrown) {
      if (thrown instanceof ApiError && thrown.status === 401) this.#unauthorized();
      throw thrown;
    }
  }
}
