// Blocking on purpose (see index.html). The setting itself lives in src/lib/theme.svelte.ts.
try {
  const theme = localStorage.getItem("cerberus.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is refused: the system's theme it is.
}
