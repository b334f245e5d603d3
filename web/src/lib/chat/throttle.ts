/** Calls `work` in an animation frame, at most every `gap` ms; `flush` calls it at once. */
export class FrameThrottle {
  #frame: number | null = null;
  #last = 0;

  constructor(
    private readonly work: () => void,
    private readonly gap = 50,
  ) {}

  request(): void {
    this.#frame ??= requestAnimationFrame(this.#tick);
  }

  flush(): void {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    this.work();
  }

  readonly #tick = (now: number): void => {
    if (now - this.#last < this.gap) {
      this.#frame = requestAnimationFrame(this.#tick);
      return;
    }
    this.#last = now;
    this.#frame = null;
    this.work();
  };
}
