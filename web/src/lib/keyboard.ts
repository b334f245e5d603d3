// iOS lays its keyboard over the page instead of resizing it. The visual viewport tells how
// much is covered; CSS takes that off the page's height (`--keyboard`).

const editable = (el: Element | null): boolean => el !== null && el.matches("input, textarea");

/** Keeps `--keyboard` true until the returned function is called. */
export function watchKeyboard(): () => void {
  const viewport = window.visualViewport;
  if (!viewport) return () => undefined;
  const update = () => {
    const covered =
      viewport.scale === 1 && editable(document.activeElement)
        ? Math.max(0, window.innerHeight - viewport.height - viewport.offsetTop)
        : 0;
    document.documentElement.style.setProperty("--keyboard", `${Math.round(covered)}px`);
  };
  viewport.addEventListener("resize", update);
  viewport.addEventListener("scroll", update);
  return () => {
    viewport.removeEventListener("resize", update);
    viewport.removeEventListener("scroll", update);
  };
}
