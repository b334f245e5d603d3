/** Copies text; on plain http, where the clipboard API is missing, the old way. */
export async function copyText(content: string): Promise<boolean> {
  if (navigator.clipboard && window.isSecureContext) {
    try {
      await navigator.clipboard.writeText(content);
      return true;
    } catch {
      // Refused: try the old way.
    }
  }
  const field = document.createElement("textarea");
  field.value = content;
  field.className = "offscreen";
  field.readOnly = true;
  const focused = document.activeElement;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
  return done;
}
