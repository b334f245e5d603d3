"""Screenshots of the page on the mock, to be looked at: `python dev/shots.py OUT`.

Needs Playwright and two mocks: `npm run mock` and, for the last shots,
`npm run mock -- --port 7735 --empty --warn`. Fails if a page scrolls sideways, is cut off,
has targets too small for a finger, breaks its policy or logs an error.
"""

import shutil
import sys
import urllib.request
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

MOCK = "http://127.0.0.1:7734"
EMPTY = "http://127.0.0.1:7735"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZES = {"phone": (390, 844), "desktop": (1440, 900)}


class Shooter:
    def __init__(self, browser: Browser, out: Path, size: str, theme: str) -> None:
        width, height = SIZES[size]
        self.phone = size == "phone"
        self.prefix = f"{size}-{theme}"
        self.out = out
        self.problems: list[str] = []
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if theme == "dark" else "light",
            has_touch=self.phone,
            is_mobile=self.phone,
        )

    def page(self, address: str) -> Page:
        page = self.context.new_page()
        page.on(
            "console",
            lambda m: (
                self.problems.append(f"{self.prefix}: {m.text}")
                if m.type == "error" and "Failed to load resource" not in m.text
                else None
            ),
        )
        page.on("pageerror", lambda e: self.problems.append(f"{self.prefix}: {e}"))
        page.goto(address)
        return page

    def shot(self, page: Page, name: str) -> None:
        page.wait_for_timeout(250)
        page.screenshot(path=self.out / f"{self.prefix}-{name}.png")
        wide = page.evaluate(
            "[document.documentElement, ...document.querySelectorAll('.pane, .column, .scroll')]"
            ".filter(e => getComputedStyle(e).display !== 'contents')"
            ".some(e => e.scrollWidth > e.clientWidth + 1)"
        )
        if wide:
            self.problems.append(f"{self.prefix}-{name}: scrolls sideways")
        cut = page.evaluate(
            "(() => { const right = e => e.getBoundingClientRect().right;"
            "return [...document.querySelectorAll('.card')].flatMap(card =>"
            "[...card.querySelectorAll('button, td, span')]"
            ".filter(e => right(e) > right(card) + 0.5).map(e => e.textContent.trim())) })()"
        )
        if cut:
            self.problems.append(f"{self.prefix}-{name}: cut off {cut[:4]}")
        if self.phone:
            small = page.evaluate(
                "[...document.querySelectorAll('button, select, textarea, input')]"
                ".map(e => [e.ariaLabel || e.textContent, e.getBoundingClientRect()])"
                ".filter(([, r]) => r.width > 0 && (r.width < 43.5 || r.height < 43.5))"
                ".map(([n, r]) => `${n} ${r.width}x${r.height}`)"
            )
            if small:
                self.problems.append(f"{self.prefix}-{name}: small targets {small}")

    def tab(self, page: Page, name: str) -> None:
        if self.phone:
            page.get_by_role("navigation").get_by_role("link", name=name).click()

    def ask(self, page: Page, question: str) -> None:
        self.tab(page, "Chat")
        page.get_by_label("Message").fill(question)
        page.get_by_role("button", name="Send").click()

    def answered(self, page: Page) -> None:
        page.get_by_role("button", name="Send").wait_for(timeout=60_000)


def tour(s: Shooter) -> None:
    page = s.page(MOCK)
    page.get_by_label("One-time code").wait_for()
    s.shot(page, "signed-out")
    page.get_by_label("One-time code").fill("nonsense")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").wait_for()
    s.shot(page, "code-refused")
    page.goto("about:blank")
    page.goto(f"{MOCK}/#code=TEST")
    page.get_by_text("SmolLM2").first.wait_for()
    if "code" in page.url:
        s.problems.append(f"{s.prefix}: the code stays in {page.url}")
    s.shot(page, "models")
    if s.phone:
        page.locator(".pane").first.evaluate("e => e.scrollTo(0, 9999)")
        s.shot(page, "models-end")
    page.get_by_role("button", name="Load a-very").or_(
        page.get_by_role("button", name="Load org/a-very")
    ).click()
    page.get_by_role("alert").first.wait_for()
    s.shot(page, "load-refused")
    s.tab(page, "Requests")
    s.shot(page, "requests")
    s.tab(page, "Chat")
    s.shot(page, "chat-empty")
    s.ask(page, "show me code, please")
    page.locator(".code").wait_for()
    page.wait_for_timeout(2500)
    s.shot(page, "streaming")
    s.tab(page, "Requests")
    s.shot(page, "requests-live")
    s.tab(page, "Chat")
    s.answered(page)
    s.shot(page, "code")
    s.ask(page, "a table")
    s.answered(page)
    s.shot(page, "table")
    s.ask(page, "hostile")
    s.answered(page)
    s.shot(page, "hostile")
    if page.evaluate("window.pwned"):
        s.problems.append(f"{s.prefix}: script of the model ran")
    s.ask(page, "error")
    page.get_by_text("Unload another model, or").wait_for()
    s.shot(page, "error")
    s.ask(page, "long")
    page.wait_for_timeout(3000)
    page.get_by_role("button", name="Stop").click()
    s.answered(page)
    s.shot(page, "stopped")
    picker = page.get_by_label("Model", exact=True)
    picker.select_option("llamacpp/Qwen3-8B-Instruct-Q4_K_M")
    s.ask(page, "hello")
    page.get_by_text("Loading model").wait_for()
    s.shot(page, "model-loads")
    s.answered(page)
    s.tab(page, "Home")
    page.get_by_role("button", name="Unload Qwen3").click()
    page.get_by_role("button", name="Load Qwen3").wait_for()
    urllib.request.urlopen(urllib.request.Request(f"{MOCK}/dev/drop?ms=4000", method="POST"))
    page.get_by_text("Paused, as of").wait_for()
    s.shot(page, "offline")
    page.get_by_text("Paused, as of").wait_for(state="detached", timeout=15_000)
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("button", name="Theme").click()
    page.reload()
    s.shot(page, "chosen-dark")
    page.close()
    page = s.page(f"{EMPTY}/#code=TEST")
    page.get_by_text("No models here yet").wait_for()
    s.shot(page, "empty")
    s.tab(page, "Requests")
    s.shot(page, "empty-requests")
    s.tab(page, "Chat")
    s.shot(page, "empty-chat")
    page.close()


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    problems: list[str] = []
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        sys.exit(f"There is none of {', '.join(BROWSERS)} on PATH")
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for size in SIZES:
            for theme in ("light", "dark"):
                shooter = Shooter(browser, out, size, theme)
                try:
                    tour(shooter)
                except Exception as error:
                    raise RuntimeError(f"{shooter.prefix}: {shooter.problems}") from error
                problems += shooter.problems
        browser.close()
    sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
