// Signed in or not, and what hangs on it.
import { Api } from "./api/client";
import { type ApiError, asApiError } from "./api/errors";
import { Chat } from "./chat/chat.svelte";
import { KeyRing } from "./keyring.svelte";
import { Box } from "./live/box.svelte";
import { Clock } from "./live/clock.svelte";
import { watchPresence } from "./live/presence";

export type Phase = "starting" | "signedIn" | "signedOut";

export class Session {
  phase = $state<Phase>("starting");
  signingIn = $state(false);
  refusal = $state.raw<ApiError | null>(null);
  /** It was signed in, and isn't any more without anyone's wish. */
  ended = $state(false);

  readonly clock = new Clock();
  readonly api = new Api(
    () => this.#leave(),
    async (request) => {
      const response = await fetch(request);
      this.clock.adjust(response.headers.get("Date"));
      return response;
    },
  );
  readonly box = new Box(this.api, this.clock, () => this.#leave());
  readonly keys = new KeyRing(this.api);
  readonly chat = new Chat(() => this.#leave());
  #unwatch: (() => void) | null = null;

  async start(code: string | null): Promise<void> {
    if (code === null) this.#enter();
    else await this.signIn(code);
  }

  async signIn(code: string): Promise<void> {
    if (this.signingIn) return;
    this.signingIn = true;
    this.refusal = null;
    try {
      await this.api.login(code);
      this.#enter();
    } catch (thrown) {
      this.refusal = asApiError(thrown);
      // An older cookie may still be good: a used link is no reason to lock anyone out.
      if (this.phase === "starting") await this.#tryOldCookie();
    } finally {
      this.signingIn = false;
    }
  }

  async signOut(): Promise<void> {
    try {
      await this.api.logout();
    } catch (thrown) {
      if (asApiError(thrown).status !== 401) throw thrown;
    }
    this.#leave();
    this.ended = false;
    this.chat.forget();
  }

  async #tryOldCookie(): Promise<void> {
    const refusal = this.refusal;
    try {
      await this.api.status();
      this.refusal = null;
      this.#enter();
    } catch {
      this.#leave();
      this.refusal = refusal;
    }
  }

  #enter(): void {
    this.phase = "signedIn";
    this.ended = false;
    this.#unwatch?.();
    this.#unwatch = watchPresence(
      () => this.box.pause(),
      () => this.box.wake(),
    );
    this.box.start();
  }

  /** To the sign-in. The conversation waits behind it: a new token is no reason to lose it. */
  #leave(): void {
    this.ended ||= this.box.snapshot !== null;
    this.phase = "signedOut";
    this.#unwatch?.();
    this.#unwatch = null;
    this.box.clear();
    this.keys.clear();
    this.chat.stop();
  }
}
