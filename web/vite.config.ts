import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

const daemon = process.env.CERBERUS_URL ?? "http://127.0.0.1:7734";

export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: "../cerberus_core/web_dist",
    emptyOutDir: true,
    // The page's policy allows no data: font, no inline script: nothing is inlined.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: { checks: { pluginTimings: false } },
    target: ["chrome123", "firefox128", "safari17.5"],
  },
  server: {
    host: "127.0.0.1",
    proxy: { "/api": daemon, "/v1": daemon },
  },
  test: {
    include: ["tests/**/*.test.ts"],
    environment: "node",
  },
});
