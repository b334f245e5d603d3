const STEPS_S = [0, 1, 2, 4, 8, 16, 30];

/** How long to wait before try number `attempt` (from 0), in ms: up to 30 s, with jitter. */
export function backoff(attempt: number, random: () => number = Math.random): number {
  const base = (STEPS_S[Math.min(attempt, STEPS_S.length - 1)] as number) * 1000;
  return base + base * 0.25 * random();
}
