// The daemon's time, ticking once a second: ages and elapsed times are counted on its clock,
// since a phone's may be minutes off.

/** What to add to our clock; only a difference that isn't mere latency counts. */
export function offsetFrom(dateHeader: string | null, now: number): number {
  const server = dateHeader === null ? NaN : Date.parse(dateHeader);
  const offset = server - now;
  return Math.abs(offset) > 2_000 ? offset : 0;
}

export class Clock {
  #offset = 0;
  now = $state(Date.now());

  adjust(dateHeader: string | null): void {
    if (dateHeader !== null) this.#offset = offsetFrom(dateHeader, Date.now());
    this.tick();
  }

  tick(): void {
    this.now = Date.now() + this.#offset;
  }

  /** Ticks until the returned function is called. */
  run(): () => void {
    const timer = setInterval(() => this.tick(), 1000);
    return () => clearInterval(timer);
  }
}
