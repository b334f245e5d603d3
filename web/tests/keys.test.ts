import { describe, expect, it, vi } from "vitest";
import { makeKeys } from "../dev/data.mjs";
import { Api } from "../src/lib/api/client";
import type { KeyInfo } from "../src/lib/api/types";
import { emptyForm, limitWords, scope, used, wanted } from "../src/lib/keys";

const plain = (s: string) => s.replaceAll("\u00a0", "_");
const [laptop, ci, guest] = makeKeys() as [KeyInfo, KeyInfo, KeyInfo];
const NOW = Date.parse("2026-01-01T00:00:00Z");

describe("a form", () => {
  it("that is left empty sets no limit", () => {
    expect(wanted({ ...emptyForm(), name: " me " }, NOW)).toEqual({
      name: "me", models: [], cloud: true, limits: [], expires_at: null, store_prompts: false,
    });
  });

  it("says what was typed", () => {
    const form = {
      name: "me", models: "llamacpp/*, qwen*  x", localOnly: true, tokensPerDay: 0, moneyPerMonth: 2.5, days: 7, storePrompts: true,
    };
    expect(wanted(form, NOW)).toEqual({
      name: "me",
      models: ["llamacpp/*", "qwen*", "x"],
      cloud: false,
      limits: [{ what: "tokens", per: "day", most: 0 }, { what: "money", per: "month", most: 2.5 }],
      expires_at: "2026-01-08T00:00:00.000Z",
      store_prompts: true,
    });
  });
});

describe("a key", () => {
  it("says what it may use", () => {
    expect([laptop, ci, guest].map(scope)).toEqual([
      "llamacpp/*, qwen* · local only", "acme/small-model-for-reviews", "all models",
    ]);
  });

  it("says how far its limits are used", () => {
    expect(laptop.limits.map((one) => plain(limitWords(one, "EUR")))).toEqual([
      "124,312 of 200,000_tokens a day", "1,235 of 90,000_J a month",
    ]);
    expect(ci.limits.map((one) => plain(limitWords(one, "EUR")))).toEqual(["20.0 of 20.0_EUR a month"]);
    expect(used(laptop.limits[0]!)).toBeCloseTo(0.62156);
    expect(used({ ...laptop.limits[0]!, most: 0 })).toBe(1);
    expect(used({ ...laptop.limits[0]!, spent: 1e9 })).toBe(1);
  });

  it("is revoked by its id, and a 401 is told", async () => {
    const gone = vi.fn();
    const fetcher = vi.fn(async (_: Request) => new Response(null, { status: 204 }));
    const api = new Api(gone, fetcher as unknown as typeof fetch, "http://box");
    await expect(api.revokeKey("w8")).resolves.toBeUndefined();
    expect([fetcher.mock.calls[0]?.[0].method, fetcher.mock.calls[0]?.[0].url]).toEqual(["DELETE", "http://box/api/keys/w8"]);
    const refused = vi.fn(async () => new Response("{}", { status: 401 }));
    await expect(new Api(gone, refused as unknown as typeof fetch, "http://box").revokeKey("w8")).rejects.toMatchObject({ status: 401 });
    expect(gone).toHaveBeenCalledOnce();
  });
});
