import { describe, expect, it, vi } from "vitest";
import { Api, tail } from "../src/lib/api/client";
import { errorFrom } from "../src/lib/api/errors";
import { codeIn, takeCode, tidyCode } from "../src/lib/login";

describe("the client", () => {
  const answer = (status: number, body: unknown) =>
    vi.fn(async (_: Request) => new Response(body === null ? null : JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } }));
  const api = (fetcher: ReturnType<typeof answer>, unauthorized = () => undefined) =>
    new Api(unauthorized, fetcher as unknown as typeof fetch, "http://box");

  it("keeps the slashes of an id and encodes the rest", async () => {
    expect(tail("llamacpp/a b/ü:q?#%")).toBe("llamacpp/a%20b/%C3%BC%3Aq%3F%23%25");
    const fetcher = answer(202, { id: "x" });
    await api(fetcher).load("openai/org/name:7b");
    expect(fetcher.mock.calls[0]?.[0].url).toBe("http://box/api/models/load/openai/org/name%3A7b?wait=false");
  });

  it("tells a 401 apart, but for that of a sign-in", async () => {
    const gone = vi.fn();
    const client = api(answer(401, { title: "no", code: "unauthorized" }), gone);
    await expect(client.models()).rejects.toMatchObject({ status: 401 });
    expect(gone).toHaveBeenCalledOnce();
    await expect(client.login("x")).rejects.toMatchObject({ status: 401, message: "no" });
    expect(gone).toHaveBeenCalledOnce();
  });

  it("a 204 is a success", async () => {
    await expect(api(answer(204, null)).login("x")).resolves.toBeUndefined();
  });

  it("no answer at all is an error with a hint", async () => {
    const fetcher = vi.fn(async () => Promise.reject(new TypeError("failed")));
    await expect(api(fetcher as never).status()).rejects.toMatchObject({ status: 0, code: "unreachable", hint: expect.any(String) });
  });
});

describe("errors", () => {
  it("of both shapes, of none, and of a proxy", () => {
    expect(errorFrom({ title: "t", detail: "d", code: "c", hint: "h" }, 409)).toMatchObject({ message: "d", code: "c", hint: "h" });
    expect(errorFrom({ error: { message: "m", code: "c", hint: "h" } }, 503)).toMatchObject({ message: "m", code: "c", hint: "h" });
    expect(errorFrom({ error: "m" }, 500).message).toBe("m");
    expect(errorFrom("<html>", 502).message).toContain("502");
  });
});

describe("U08: the code in the link", () => {
  it("is read from the fragment only", () => {
    expect(codeIn("#code=AB%2B1-2")).toBe("AB+1-2");
    expect([codeIn(""), codeIn("#other=1"), codeIn("#code=")]).toEqual([null, null, null]);
  });
  it("leaves the address at once, even when it is empty", () => {
    const replaceState = vi.fn();
    expect(takeCode({ hash: "#code=X", pathname: "/", search: "?a=1" }, { replaceState })).toBe("X");
    expect(replaceState).toHaveBeenCalledWith(null, "", "/?a=1");
    expect(takeCode({ hash: "#code=", pathname: "/", search: "" }, { replaceState })).toBeNull();
    expect(replaceState).toHaveBeenCalledTimes(2);
    takeCode({ hash: "#top", pathname: "/", search: "" }, { replaceState });
    expect(replaceState).toHaveBeenCalledTimes(2);
  });
  it("may be typed with spaces, or pasted as the whole link", () => {
    expect([tidyCode(" AB 12 "), tidyCode("http://box:7733/#code=AB12"), tidyCode("  ")]).toEqual(["AB12", "AB12", null]);
  });
});
