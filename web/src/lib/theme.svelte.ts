// Light, dark, or as the system has it. public/theme.js applies the choice before the first paint.
export type Choice = "system" | "light" | "dark";

const KEY = "cerberus.theme";
const NEXT: { [now in Choice]: Choice } = { system: "light", light: "dark", dark: "system" };

function stored(): Choice {
  const set = document.documentElement.dataset.theme;
  return set === "light" || set === "dark" ? set : "system";
}

export class Theme {
  choice = $state<Choice>(stored());

  next(): void {
    this.choice = NEXT[this.choice];
    const root = document.documentElement;
    if (this.choice === "system") delete root.dataset.theme;
    else root.dataset.theme = this.choice;
    try {
      if (this.choice === "system") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, this.choice);
    } catch {
      // Storage is refused: the choice holds for this visit.
    }
  }
}
