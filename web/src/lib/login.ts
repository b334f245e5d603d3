// The one-time code in a sign-in link: `…/#code=XXXX`. A fragment is never sent anywhere.

/** The code in a location's hash, or null. */
export function codeIn(hash: string): string | null {
  const code = new URLSearchParams(hash.replace(/^#/, "")).get("code");
  return code === null ? null : tidyCode(code);
}

/** What a person typed or pasted: a code, or the whole link. */
export function tidyCode(typed: string): string | null {
  const link = /#code=([^&\s]+)/.exec(typed);
  const code = (link ? decodeSafely(link[1] as string) : typed).replace(/\s+/g, "");
  return code === "" ? null : code;
}

function decodeSafely(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}

/** Takes the code out of the address at once, so that it stays in no history. */
export function takeCode(
  location: Pick<Location, "hash" | "pathname" | "search">,
  history: Pick<History, "replaceState">,
): string | null {
  const code = codeIn(location.hash);
  if (/(^#|&)code=/.test(location.hash)) {
    history.replaceState(null, "", location.pathname + location.search);
  }
  return code;
}
