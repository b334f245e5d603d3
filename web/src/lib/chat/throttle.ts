/** How many times longer than the work the pause after it is, at least: a slow phone stays usable. */
const REST = 4;

/** Calls `work` in an animation frame, at most every `gap` ms; `flush` calls it at once. */
export class FrameThrottle {
  #frame: number | null = null;
  #next = 0;

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

  readonly #tick = (): void => {
    const now = performance.now();
    if (now < this.#next) {
      this.#frame = requestAnimationFrame(this.#tick);
      return;
    }
    this.#frame = null;
    this.work();
    this.#next = now + Math.max(this.gap, REST * (performance.now() - now));
  };
}
