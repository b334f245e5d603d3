import { vitePreprocess } from "@sveltejs/vite-plugin-svelte";

export default {
  preprocess: vitePreprocess(),
  compilerOptions: {
    // On a phone our tables are laid out as cards, and browsers drop the roles of a table whose
    // `display` is changed: they are written out.
    warningFilter: (warning) => warning.code !== "a11y_no_redundant_roles",
  },
};
