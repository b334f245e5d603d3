// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { type Block, MarkdownStream } from "../src/lib/chat/markdown";

const html = (blocks: Block[]) => blocks.map((b) => (b.kind === "html" ? b.html : `[${b.lang}]${b.code}`)).join("");
const render = (source: string) => html(new MarkdownStream().finish(source));

const HOSTILE = [
  '<img src=x onerror="alert(1)">',
  '<svg onload="alert(1)"></svg>',
  "<script>alert(1)</script>",
  '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt&colon;alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "![x](https://example.org/pixel.png)",
  '[x](https://example.org/"onmouseover="alert(1))',
  '<style>body{display:none}</style><form action="https://example.org"><input name=a></form>',
  "<https://example.org/<script>>",
  "| <b onclick=alert(1)>x |\n|--|\n| <img src=x onerror=alert(1)> |",
];

describe("U04: what a model writes can do nothing", () => {
  it.each(HOSTILE)("%s", (source) => {
    for (const end of [source.length, ...Array(source.length).keys()]) {
      const page = document.createElement("div");
      page.innerHTML = html(new MarkdownStream().update(source.slice(0, end)));
      expect(page.querySelector("script, img, svg, iframe, style, form, input, object, link, b")).toBeNull();
      for (const el of page.querySelectorAll("*")) {
        for (const { name, value } of el.attributes) {
          expect(name).not.toMatch(/^on|style|src/);
          if (name === "href") expect(value).toMatch(/^(https?:|mailto:)/);
        }
      }
    }
  });
  it("raw HTML is seen as text", () => {
    const page = document.createElement("div");
    page.innerHTML = render(HOSTILE[0] as string);
    expect(page.textContent).toContain(HOSTILE[0]);
  });
  it("links open elsewhere and tell nothing", () => {
    expect(render("[a](https://example.org)")).toContain('<a href="https://example.org" target="_blank" rel="noopener noreferrer">a</a>');
  });
});

describe("streaming", () => {
  const SOURCE = "# One\r\n\r\nText with `code` and **bold**.\n\n- a\n- b\n\n  more\n\n```py\nx = 1\n\ny = 2\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\nThe end, \\<b> &amp; done.\n";
  it("piece by piece is the same as at once", () => {
    const stream = new MarkdownStream();
    let last: Block[] = [];
    for (let end = 1; end <= SOURCE.length; end++) last = stream.update(SOURCE.slice(0, end));
    expect(html(last)).toBe(render(SOURCE));
  });
  it("finished blocks are not rendered again", () => {
    const stream = new MarkdownStream();
    const first = stream.update("one\n\ntwo\n\nthr")[0];
    expect(stream.update("one\n\ntwo\n\nthree\n\nfour")[0]).toBe(first);
  });
  it("an open fence is a code block already", () => {
    expect(new MarkdownStream().update("```py\nx = ")).toEqual([{ kind: "code", lang: "py", code: "x = " }]);
  });
  it("another text starts anew", () => {
    const stream = new MarkdownStream();
    stream.update("one\n\ntwo");
    expect(html(stream.update("other"))).toBe("<p>other</p>\n");
  });
});
