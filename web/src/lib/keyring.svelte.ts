// The gateway keys as the page shows them: read anew when something may have changed.
import type { Api } from "./api/client";
import { type ApiError, asApiError } from "./api/errors";
import type { KeyInfo, NewKey } from "./api/types";

export class KeyRing {
  /** null until the first answer. */
  keys = $state.raw<readonly KeyInfo[] | null>(null);
  currency = $state("");
  failure = $state.raw<ApiError | null>(null);
  /** The token of a key that was just made: nobody is told it again. */
  made = $state.raw<{ name: string; token: string } | null>(null);

  constructor(private readonly api: Api) {}

  async read(): Promise<void> {
    await this.#try(async () => {
      const listed = await this.api.keys();
      this.keys = listed.keys;
      this.currency = listed.currency;
    });
  }

  /** Whether it was made. */
  async add(wanted: NewKey): Promise<boolean> {
    const done = await this.#try(async () => {
      const { token, key } = await this.api.addKey(wanted);
      this.made = { name: key.name, token };
    });
    if (done) await this.read();
    return done;
  }

  async revoke(id: string): Promise<void> {
    if (await this.#try(() => this.api.revokeKey(id))) await this.read();
  }

  clear(): void {
    this.keys = null;
    this.failure = null;
    this.made = null;
  }

  async #try(call: () => Promise<void>): Promise<boolean> {
    try {
      await call();
      this.failure = null;
      return true;
    } catch (thrown) {
      this.failure = asApiError(thrown);
      return false;
    }
  }
}
