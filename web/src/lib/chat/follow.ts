// Keeps the end of a growing conversation in view, for a reader who is there already.

/** Who is further from the end than this reads something else. */
const NEAR_PX = 80;

export class Follow {
  #box: HTMLElement | null = null;
  #following = true;

  /** `away` hears whether there is something new below a reader who scrolled up. */
  constructor(private readonly away: (isAway: boolean) => void) {}

  /** A Svelte action for the scrolling element. */
  readonly watch = (box: HTMLElement): { destroy: () => void } => {
    this.#box = box;
    let top = box.scrollTop;
    const scrolled = () => {
      const near = box.scrollHeight - box.scrollTop - box.clientHeight <= NEAR_PX;
      // Text that grew faster than we scrolled is no reader's wish: only going up is.
      if (near) this.#following = true;
      else if (box.scrollTop < top) this.#following = false;
      top = box.scrollTop;
      if (near) this.away(false);
    };
    const grew = () => {
      if (this.#following) box.scrollTop = box.scrollHeight;
      else this.away(true);
    };
    const mutations = new MutationObserver(grew);
    mutations.observe(box, { childList: true, subtree: true, characterData: true });
    // The keyboard comes and goes.
    const sizes = new ResizeObserver(() => {
      if (this.#following) box.scrollTop = box.scrollHeight;
    });
    sizes.observe(box);
    box.addEventListener("scroll", scrolled, { passive: true });
    return {
      destroy: () => {
        mutations.disconnect();
        sizes.disconnect();
        box.removeEventListener("scroll", scrolled);
      },
    };
  };

  toEnd(): void {
    this.#following = true;
    this.away(false);
    if (this.#box) this.#box.scrollTop = this.#box.scrollHeight;
  }
}
