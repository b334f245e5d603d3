// Markdown of a model's answer to HTML that can do nothing: raw HTML is shown as text, images
// become links, links go to http(s) and mailto only. DOMPurify stands behind as a second wall.
import DOMPurify from "dompurify";
import { Marked, type Token, type Tokens } from "marked";
import { text } from "../text";

const ALLOWED = {
  ALLOWED_TAGS: [
    "a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p",
    "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
  ],
  ALLOWED_ATTR: ["align", "href", "rel", "start", "target", "title"],
};

const escape = (raw: string): string =>
  raw
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/"/g, "&quot;")
    .replace(/'/g, "&#39;");

function safeHref(href: string): string | null {
  return /^(https?:|mailto:)/i.test(href.trim()) ? href.trim() : null;
}

function anchor(href: string, inner: string): string {
  const safe = safeHref(href);
  if (safe === null) return `${inner} (${escape(href)})`;
  return `<a href="${escape(safe)}" target="_blank" rel="noopener noreferrer">${inner}</a>`;
}

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ raw }) => escape(raw),
    image: ({ href, text: alt }) => anchor(href, escape(text.chat.image(alt || href))),
    link({ href, tokens }) {
      return anchor(href, this.parser.parseInline(tokens));
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    // The page owns h1 and h2.
    heading({ depth, tokens }) {
      const level = Math.min(6, depth + 2);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`;
    },
  },
});

export type Block = { kind: "html"; html: string } | { kind: "code"; lang: string; code: string };

function render(tokens: Token[]): string {
  return DOMPurify.sanitize(marked.parser(tokens), ALLOWED);
}

function toBlock(token: Token): Block {
  if (token.type === "code") {
    const { lang, text: code } = token as Tokens.Code;
    return { kind: "code", lang: (lang ?? "").split(/\s/)[0] ?? "", code };
  }
  return { kind: "html", html: render([token]) };
}

/** The lexer's tokens count characters after this. */
const unixLines = (raw: string): string => raw.replace(/\r\n?/g, "\n");

/** Renders a growing text: finished blocks once, only the last one again and again. */
export class MarkdownStream {
  #frozen: Block[] = [];
  /** Length of the text that the frozen blocks stand for. */
  #done = 0;
  #source = "";

  update(raw: string): Block[] {
    const source = unixLines(raw);
    if (!source.startsWith(this.#source)) {
      this.#frozen = [];
      this.#done = 0;
    }
    this.#source = source;
    const tokens = marked.lexer(source.slice(this.#done));
    const last = tokens.findLastIndex((token) => token.type !== "space");
    for (const token of tokens.slice(0, Math.max(0, last))) {
      this.#done += token.raw.length;
      if (token.type !== "space" && token.type !== "def") this.#frozen.push(toBlock(token));
    }
    const live = tokens[last];
    return live && live.type !== "def" ? [...this.#frozen, toBlock(live)] : [...this.#frozen];
  }

  /** All of it in one go: link references that came late find their links. */
  finish(raw: string): Block[] {
    return marked
      .lexer(unixLines(raw))
      .filter((token) => token.type !== "space" && token.type !== "def")
      .map(toBlock);
  }
}
