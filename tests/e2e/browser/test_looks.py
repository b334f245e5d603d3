"""What can be measured of good looks: at 390 and 1440 px, light and dark."""

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from cerberus_core.testing.scripted import Reply, chat_chunks
from tests.e2e.browser.conftest import (
    OpenVisit,
    RunScripted,
    Scripted,
    answered,
    ask,
    post,
    switch_to,
)

pytestmark = pytest.mark.timeout(180)

LONG = "a-model-whose-name-goes-on-" + "and-on-" * 12 + "Q4_K_M"
WIDE = f"""A word: {"x" * 300}, and `{"code" * 60}`

```text
{"a line that is far wider than any phone " * 8}
```

| {" | ".join(f"column {n}" for n in range(12))} |
|{"---|" * 12}
| {" | ".join("cell " * 3 for _ in range(12))} |

> https://example.org/{"path/" * 40}
"""

# Colours on their way to others are no looks to judge.
AT_REST = "Promise.allSettled(document.getAnimations().map((one) => one.finished))"

SIDEWAYS = """() => [document.documentElement, document.body,
    ...document.querySelectorAll(".pane, .column, .scroll, main")]
  .filter(e => getComputedStyle(e).display !== "contents")
  .filter(e => e.scrollWidth > e.clientWidth + 1)
  .map(e => `${e.tagName}.${e.className} ${e.scrollWidth} > ${e.clientWidth}`)"""
SMALL = """() => [...document.querySelectorAll("button, select, textarea, input, summary, nav a")]
  .filter(e => e.checkVisibility({visibilityProperty: true}))
  .map(e => [e.ariaLabel || e.textContent.trim(), e.getBoundingClientRect()])
  .filter(([, r]) => r.width < 43.5 || r.height < 43.5)
  .map(([name, r]) => `${name} ${r.width}x${r.height}`)"""
NAMELESS = """() => [...document.querySelectorAll("button, select, textarea, input, a, summary")]
  .filter(e => !(e.ariaLabel || e.textContent.trim() || e.title || e.labels?.length))
  .map(e => e.outerHTML)"""
TWICE = """() => { const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  return ids.filter((id, i) => ids.indexOf(id) !== i) }"""
ASTRAY = """() => [...document.querySelectorAll("[aria-labelledby], [aria-describedby], [for]")]
  .filter(e => ["aria-labelledby", "aria-describedby", "for"].some(
    name => (e.getAttribute(name) || "").split(" ").filter(Boolean)
      .some(id => !document.getElementById(id))))
  .map(e => e.outerHTML.slice(0, 80))"""
UNTITLED = """() => {
  const levels = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
    .filter(e => !e.closest("[role=log]")).map(e => +e.tagName[1]);
  const bad = levels.filter((level, i) => level > (levels[i - 1] ?? 0) + 1).map(l => `h${l}`);
  if (document.querySelectorAll("main").length !== 1) bad.push("main");
  if (levels.filter(l => l === 1).length !== 1) bad.push("h1");
  if (!document.documentElement.lang) bad.push("lang");
  return bad;
}"""
FAINT = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const rgb = (colour, under) => {
    canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => c.map(v => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const back = e => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (!/rgba\\(0, 0, 0, 0\\)|transparent/.test(c)) return c;
    }
    return "white";
  };
  const bad = new Set();
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    if (!e.checkVisibility({visibilityProperty: true})) continue;
    if (e.closest(":disabled, [aria-hidden=true]")) continue;
    const under = back(e);
    const [a, b] = [light(rgb(getComputedStyle(e).color, under)), light(rgb(under, "white"))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) bad.add(`${ratio.toFixed(2)} ${e.textContent.trim().slice(0, 40)}`);
  }
  return [...bad];
}"""


def test_the_measures_find_what_they_are_for(scripted: Scripted, visit: OpenVisit) -> None:
    page = visit(scripted.daemon, phone=True).page()
    page.locator("main").evaluate(
        """main => {
          const bad = document.createElement("div");
          bad.innerHTML = "<button></button><p id=twice></p><p id=twice>faint</p>"
            + "<label for=nobody>x</label><h6>deep</h6>";
          bad.querySelector("p + p").style.color = "rgba(128, 128, 128, .5)";
          bad.style.width = "2000px";
          main.append(bad);
        }"""
    )
    for measure in (SIDEWAYS, SMALL, NAMELESS, TWICE, ASTRAY, UNTITLED, FAINT):
        assert page.evaluate(measure)


def well_made(page: Page, *, phone: bool) -> None:
    page.evaluate(AT_REST)
    assert page.evaluate(SIDEWAYS) == []
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(TWICE) == []
    assert page.evaluate(ASTRAY) == []
    assert page.evaluate(UNTITLED) == []
    assert page.evaluate(FAINT) == []
    if phone:
        assert page.evaluate(SMALL) == []


@pytest.mark.parametrize("size", ["narrow", "phone", "desktop"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_scrolls_sideways_is_too_small_or_faint_wherever_one_looks(
    run_scripted: RunScripted, visit: OpenVisit, size: str, theme: Any
) -> None:
    # Ten models, so that there is a filter; a setting that is not one, so that there is a notice.
    names = ["m", LONG, *(f"more-{n}" for n in range(8))]
    scripted = run_scripted(names, f"[server]\n{'x' * 60} = 1\n")
    phone = size != "desktop"
    here = visit(scripted.daemon, phone=phone, narrow=size == "narrow", theme=theme)
    page = here.page(sign_in=False)
    expect(page.get_by_label("One-time code")).to_be_visible()
    page.get_by_label("One-time code").fill("nonsense")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    well_made(page, phone=phone)
    page.close()

    page = here.page()
    expect(page.locator("tr[data-state]")).to_have_count(10)
    expect(page.get_by_role("heading", name="Needs you")).to_be_visible()
    well_made(page, phone=phone)
    error = {"message": "no room " * 30 + "x" * 200, "type": "t", "code": "c"}
    scripted.server.reply = Reply.json({"error": error}, status=500)
    post(scripted.daemon, "hi", f"up/{LONG}")
    if phone:
        switch_to(page, "Chat")
    ask(page, "an error, please")
    expect(page.get_by_role("log").get_by_role("alert")).to_be_visible()
    scripted.server.reply = Reply.stream(chat_chunks([WIDE]))
    ask(page, "y" * 400)
    answered(page)
    well_made(page, phone=phone)
    expect(page.get_by_label("Message")).to_be_in_viewport(ratio=1)
    if phone:
        switch_to(page, "Requests")
    expect(page.get_by_role("table", name="Finished").get_by_role("row")).to_have_count(4)
    well_made(page, phone=phone)


def _top(log: Locator) -> int:
    return int(log.evaluate("e => e.scrollTop"))


@pytest.mark.parametrize("phone", [True, False], ids=["phone", "desktop"])
def test_a_long_answer_follows_its_end_but_never_pulls_a_reader_who_scrolled_up(
    scripted: Scripted, visit: OpenVisit, phone: bool
) -> None:
    lines = [f"Line {n} of a long answer.\n\n" for n in range(150)]
    events = chat_chunks(lines)
    first, second = scripted.wait(), scripted.wait()
    scripted.server.reply = Reply.stream(
        [*events[:60], first, *events[60:120], second, *events[120:]]
    )
    page = visit(scripted.daemon, phone=phone).page()
    if phone:
        switch_to(page, "Chat")
    ask(page, "tell me a lot")
    log = page.get_by_role("log")
    expect(log.get_by_text("Line 59 of")).to_be_in_viewport()  # it follows

    log.evaluate("e => e.scrollTo(0, 300)")
    expect(log.get_by_text("Line 59 of")).not_to_be_in_viewport()
    scripted.go(first)
    expect(log.get_by_text("Line 119 of")).to_be_attached()
    assert _top(log) == 300
    new = page.get_by_role("button", name="New", exact=True)
    expect(new).to_be_visible()
    new.click()
    expect(log.get_by_text("Line 119 of")).to_be_in_viewport()
    scripted.go(second)
    expect(log.get_by_text("Line 149 of")).to_be_in_viewport()
    expect(new).to_have_count(0)
    answered(page)
    expect(page.get_by_test_id("stats")).to_be_in_viewport()


def test_a_phones_tabs_keep_what_is_written_and_where_one_was(
    scripted: Scripted, visit: OpenVisit
) -> None:
    page = visit(scripted.daemon, phone=True).page()
    switch_to(page, "Chat")
    page.get_by_label("Message").fill("half a question")
    switch_to(page, "Home")
    expect(page.locator("tr[data-state]")).to_be_visible()
    expect(page.get_by_label("Message")).to_be_hidden()
    switch_to(page, "Chat")
    expect(page.get_by_label("Message")).to_have_value("half a question")


def test_a_chosen_theme_outlives_a_reload_without_a_flash(
    scripted: Scripted, visit: OpenVisit
) -> None:
    page = visit(scripted.daemon).page()
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    # As soon as there is a body, long before the page's own script ran.
    page.add_init_script(
        "new MutationObserver((_, o) => { if (document.body) { o.disconnect();"
        "window.first = document.documentElement.dataset.theme } })"
        ".observe(document, {childList: true, subtree: true})"
    )
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert page.evaluate("window.first") == "dark"
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == dark
