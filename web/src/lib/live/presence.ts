// When the page goes away and comes back.

/** Hidden this long, the page gives its connection back: a browser has six for all tabs. */
const HIDDEN_MS = 30_000;

/** Calls `away` after 30 s hidden and `back` on any return; gives the function that ends it. */
export function watchPresence(away: () => void, back: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const visibility = () => {
    clearTimeout(timer);
    if (document.visibilityState === "hidden") timer = setTimeout(away, HIDDEN_MS);
    else back();
  };
  const shown = (event: PageTransitionEvent) => {
    if (event.persisted) back();
  };
  document.addEventListener("visibilitychange", visibility);
  window.addEventListener("pageshow", shown);
  window.addEventListener("online", back);
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", visibility);
    window.removeEventListener("pageshow", shown);
    window.removeEventListener("online", back);
  };
}
