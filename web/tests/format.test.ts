import { describe, expect, it } from "vitest";
import {
  clientName, context, count, duration, elapsed, energy, moment, percent, significant, since, size, splitName,
  spans, splitReason, UNKNOWN, withUnit,
} from "../src/lib/format";

const plain = (s: string) => s.replaceAll("\u00a0", "_");

describe("numbers", () => {
  it("have three significant digits", () => {
    expect([34.2341, 5, 0.51234, 99.9, 99.96, 1234.5].map(significant)).toEqual([
      "34.2", "5.00", "0.512", "99.9", "100", "1,235",
    ]);
  });

  it("have a no-break space before the unit", () => {
    expect(withUnit(34.2341, "tok/s")).toBe("34.2\u00a0tok/s");
  });

  it("are a dash when unknown, never zero", () => {
    const nothing = [null, undefined, NaN, Infinity];
    for (const f of [significant, count, size, context, duration, energy]) {
      expect(nothing.map((n) => f(n))).toEqual(nothing.map(() => UNKNOWN));
    }
    expect(count(0)).toBe("0");
  });

  it("carry a mark when they are estimates, unless unknown", () => {
    expect(count(128, true)).toBe("~128");
    expect(withUnit(null, "tok/s", true)).toBe(UNKNOWN);
    expect(plain(duration(182, true))).toBe("~182_ms");
  });
});

describe("units", () => {
  it("MiB become GiB at 1024", () => {
    expect([0, 94, 1023, 1024, 4796].map((n) => plain(size(n)))).toEqual([
      "<1_MiB", "94_MiB", "1,023_MiB", "1.00_GiB", "4.68_GiB",
    ]);
  });

  it("a context is told as the field does", () => {
    expect([8192, 131072, 512, 2000].map(context)).toEqual(["8k", "128k", "512", "2,000"]);
  });

  it("durations grow from ms to hours without a 60 s", () => {
    const values = [0.4, 182, 999.4, 999.6, 4021, 59_940, 59_960, 65_000, 3_599_700, 7_380_000];
    expect(values.map((ms) => plain(duration(ms)))).toEqual([
      "0_ms", "182_ms", "999_ms", "1.00_s", "4.02_s", "59.9_s", "1_min_00_s", "1_min_05_s", "1_h_00_min", "2_h_03_min",
    ]);
  });

  it("per cent are rounded down", () => {
    expect([0, 0.429, 0.999, 1].map((n) => plain(percent(n)))).toEqual(["0_%", "42_%", "99_%", "100_%"]);
  });

  it("running time ticks in whole seconds and never below zero", () => {
    expect([-500, 999, 4_999, 65_400].map((ms) => plain(elapsed(ms)))).toEqual([
      "0_s", "0_s", "4_s", "1_min_05_s",
    ]);
  });

  it("joules become Wh above 3600", () => {
    expect([12.3, 3600, 7200].map((j) => plain(energy(j)))).toEqual(["12.3_J", "3,600_J", "2.00_Wh"]);
    expect([12.3, 7200, null].map((j) => plain(energy(j, true)))).toEqual(["~12.3_J", "~2.00_Wh", "—"]);
  });
});

describe("times", () => {
  const now = new Date(2026, 10, 30, 14, 3, 27).getTime();

  it("of today are a clock, older ones have their day", () => {
    expect(moment(new Date(now - 60_000).toISOString(), now)).toBe("14:02:27");
    expect(moment(new Date(now - 86_400_000).toISOString(), now)).toBe("Nov 29, 14:03");
    expect(moment("nonsense", now)).toBe(UNKNOWN);
  });

  it("ago", () => {
    const at = (s: number) => since(new Date(now - s * 1000).toISOString(), now);
    expect([5, 300, 7_200, 200_000].map(at)).toEqual(["now", "5 min. ago", "2 hr. ago", "2 days ago"]);
    expect(since(null, now)).toBe(UNKNOWN);
  });
});

it("long names are split so that their end stays", () => {
  expect(splitName("short")).toEqual(["short", ""]);
  expect(splitName("org/a-very-long-name-of-a-model-Q4_K_M")[1]).toBe("model-Q4_K_M");
});

it("a client is told in a word", () => {
  const webkit = "AppleWebKit/537.36 (KHTML, like Gecko)";
  expect([
    `Mozilla/5.0 (X11; Linux x86_64) ${webkit} Chrome/156.0.0.0 Safari/537.36`,
    `Mozilla/5.0 (Windows NT 10.0) ${webkit} Chrome/156.0.0.0 Safari/537.36 Edg/156.0`,
    "Mozilla/5.0 (iPhone) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (something else)",
    "OpenAI/Python 2.1.0",
    "curl/8.5.0",
  ].map(clientName)).toEqual([
    "Chrome", "Edge", "Safari", "Firefox", "Mozilla/5.0 (something else)", "OpenAI/Python", "curl/8.5.0",
  ]);
});

it("an engine's last words are apart from the reason", () => {
  expect(splitReason("it ended with exit code 1; its last words:\n a\n b")).toEqual([
    "it ended with exit code 1", "a\n b",
  ]);
  expect(splitReason("no memory")).toEqual(["no memory", ""]);
});

it("commands in a hint are apart; a lone backtick is just one", () => {
  const told = (hint: string) => spans(hint).map(({ code, words }) => (code ? `[${words}]` : words));
  expect(told("run `cerberus url`, then `x`")).toEqual(["Run ", "[cerberus url]", ", then ", "[x]"]);
  expect([told("a ` b"), told("``"), told("")]).toEqual([["A ` b"], [], []]);
});
