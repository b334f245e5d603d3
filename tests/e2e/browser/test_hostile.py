"""What models, endpoints and clients say is text, whatever it looks like."""

import json
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from cerberus_core.testing.scripted import Reply, chat_chunks
from tests.e2e.browser.conftest import OpenVisit, RunScripted, Scripted, answered, ask, post

pytestmark = pytest.mark.timeout(180)

OUT = "http://out.example"
PAYLOADS = [
    "<img src=x onerror=alert(1)>",
    f'<img src="{OUT}/pixel.png">',
    "<svg onload=alert(2)><circle r=9 /></svg>",
    "<svg><script>alert(3)</script></svg>",
    "<script>alert(4)</script>",
    f'<script src="{OUT}/s.js"></script>',
    '<iframe srcdoc="<script>parent.alert(5)</script>"></iframe>',
    f'<object data="{OUT}/o"></object><embed src="{OUT}/e">',
    '<a href="javascript:alert(6)">press me</a>',
    "<details open ontoggle=alert(7)>d</details>",
    "<style>@import url(http://out.example/c.css); body { display: none }</style>",
    f'<link rel="stylesheet" href="{OUT}/l.css">',
    f'<meta http-equiv="refresh" content="0;url={OUT}/m">',
    '<form action="http://out.example/f"><button autofocus onfocus=alert(8)>go</button></form>',
    '<math><mtext></p><img src=x onerror="alert(9)"></mtext></math>',
    '<div style="position:fixed;inset:0;background:url(http://out.example/b)">over all</div>',
]
MARKDOWN = [
    "[press](javascript:alert(10))",
    "[press](JaVaScRiPt:alert(11))",
    "[press](java\tscript:alert(12))",
    "[press](data:text/html,<script>alert(13)</script>)",
    "[press](vbscript:msgbox(14))",
    "[press](&#106;avascript:alert(15))",
    f"![pixel]({OUT}/pixel.png)",
    f"[![pixel]({OUT}/pixel.png)](javascript:alert(16))",
    "![x](x onerror=alert(17))",
    '[x](http://fine.example "title onmouseover=alert(18)")',
    "<javascript:alert(19)>",
    "```html\n<img src=x onerror=alert(20)>\n```",
    "`<img src=x onerror=alert(21)>`",
    "| a | <img src=x onerror=alert(22)> |\n|---|---|\n| <svg onload=alert(23)> | b |",
    "- <img src=x onerror=alert(24)>\n> <img src=x onerror=alert(25)>",
    "[ref]\n\n[ref]: javascript:alert(26)",
    "# <img src=x onerror=alert(27)>",
]


def nothing_alive(page: Page) -> None:
    """In the body nothing but what the page itself put there."""
    found = page.evaluate(
        """() => {
          const bad = [];
          for (const e of document.body.querySelectorAll("*")) {
            if (["SCRIPT", "IFRAME", "OBJECT", "EMBED", "IMG", "STYLE", "LINK", "META", "BASE",
                 "MATH", "VIDEO", "AUDIO"].includes(e.tagName.toUpperCase())) bad.push(e.outerHTML);
            for (const a of e.attributes) {
              if (/^on/i.test(a.name) || a.name === "srcdoc") bad.push(e.outerHTML);
              if (["href", "src", "action", "xlink:href"].includes(a.name)
                  && !/^(https?:|mailto:|#|\\/)/.test(a.value)) bad.push(e.outerHTML);
            }
          }
          for (const e of document.querySelectorAll("[role=log] :is(svg, form)"))
            if (!e.closest("button")) bad.push(e.outerHTML);
          return bad;
        }"""
    )
    assert found == []


def test_u04_html_in_an_answer_runs_nothing_asks_nothing_and_is_seen_as_text(
    scripted: Scripted, visit: OpenVisit
) -> None:
    here = visit(scripted.daemon)
    page = here.page()
    # In one piece, cut within the tags, and within a paragraph.
    answers = [
        ["\n\n".join(PAYLOADS)],
        [char for payload in PAYLOADS for char in (*payload, "\n\n")],
        ["Look: " + " and ".join(PAYLOADS)],
    ]
    for number, pieces in enumerate(answers):
        scripted.server.reply = Reply.stream(chat_chunks(pieces))
        ask(page, "be evil")
        expect(page.get_by_test_id("answer")).to_have_count(number + 1)
        answered(page)
        shown = page.get_by_test_id("answer").last.inner_text()
        for payload in PAYLOADS:
            assert payload in shown
        nothing_alive(page)
    page.reload()  # it is shown again, from what was kept
    expect(page.get_by_test_id("answer")).to_have_count(len(answers))
    assert all(payload in page.get_by_role("log").inner_text() for payload in PAYLOADS)
    nothing_alive(page)
    assert here.context.pages == [page]


def test_u04_markdown_in_an_answer_leads_nowhere_but_to_the_web(
    scripted: Scripted, visit: OpenVisit
) -> None:
    here = visit(scripted.daemon)
    page = here.page()
    scripted.server.reply = Reply.stream(chat_chunks(list("\n\n".join(MARKDOWN))))
    ask(page, "be evil")
    answered(page)
    answer = page.get_by_test_id("answer")
    for payload in ("alert(10)", "alert(13)", "<img src=x onerror=alert(20)>", "alert(22)"):
        expect(answer).to_contain_text(payload)
    expect(answer).to_contain_text("[image: pixel]")
    nothing_alive(page)
    links = answer.get_by_role("link").evaluate_all(
        "found => found.map(a => [a.protocol, a.target, a.rel])"
    )
    assert links
    assert {tuple(link) for link in links} == {("http:", "_blank", "noopener noreferrer")}


def test_u04_names_of_models_clients_and_errors_are_text(
    run_scripted: RunScripted, visit: OpenVisit
) -> None:
    name = '<img src=x onerror="alert(1)">/"><svg onload=alert(2)>'
    scripted = run_scripted([name])
    scripted.server.reply = Reply.json(
        {"error": {"message": "".join(PAYLOADS), "type": "t", "code": PAYLOADS[0]}}, status=500
    )
    here = visit(scripted.daemon)
    page = here.page()
    model = f"up/{name}"
    expect(page.locator("tr[data-state]")).to_contain_text("<svg onload=alert(2)>")
    expect(page.get_by_label("Model", exact=True)).to_have_value(model)
    ask(page, "".join(PAYLOADS))
    expect(page.get_by_role("log").get_by_role("alert")).to_contain_text("".join(PAYLOADS))
    expect(page.get_by_role("log")).to_contain_text("".join(PAYLOADS))
    finished = page.get_by_role("table", name="Finished").get_by_role("row")
    expect(finished.nth(1)).to_contain_text(PAYLOADS[0])
    post(scripted.daemon, "hi", PAYLOADS[2])  # a model that is not there
    expect(finished.nth(1)).to_contain_text(PAYLOADS[2])
    nothing_alive(page)


def test_u04_a_failed_load_tells_a_hostile_reason_as_text(
    scripted: Scripted, visit: OpenVisit
) -> None:
    scripted.server.reply = Reply.stream(
        [b"data: " + json.dumps({"error": {"message": PAYLOADS[0]}}).encode() + b"\n\n"]
    )
    page = visit(scripted.daemon).page()
    ask(page, "hi")
    expect(page.get_by_role("log").get_by_role("alert")).to_contain_text(PAYLOADS[0])
    nothing_alive(page)


@pytest.mark.parametrize("code", ["<img src=x onerror=alert(1)>", "javascript:alert(2)"])
def test_u04_a_code_in_the_address_is_never_markup(
    scripted: Scripted, visit: OpenVisit, code: str
) -> None:
    here = visit(scripted.daemon)
    page = here.context.new_page()
    page.goto(f"{here.url}/#code={quote(code)}")
    expect(page.get_by_role("alert")).to_contain_text("This code doesn’t work")
    assert page.url == f"{here.url}/"
    nothing_alive(page)


def test_the_policy_refuses_script_that_somehow_got_in(
    scripted: Scripted, visit: OpenVisit
) -> None:
    """The second wall: even markup that gets past the first one does nothing."""
    here = visit(scripted.daemon)
    page = here.page()
    page.evaluate(
        """() => {
          const box = document.createElement("div");
          box.innerHTML = '<img src="/none.png" onerror="window.ran = 1">'
            + '<iframe srcdoc="<script>parent.ran = 2</script>"></iframe>'
            + '<img src="http://out.example/pixel.png">';
          document.body.append(box);
          const script = document.createElement("script");
          script.textContent = "window.ran = 3";
          document.body.append(script);
        }"""
    )
    page.wait_for_function("document.querySelector('img').complete")
    assert page.evaluate("window.ran") is None
    outside = [r for r in here.requests if r.url.startswith(OUT)]
    assert [r.failure for r in outside] == ["csp"] * len(outside)
    # Here the policy is meant to be broken: three times, and each time it holds.
    kinds = ("policy: script-src-attr inline", "policy: script-src-elem inline", "policy: img-src")
    for kind in kinds:
        assert any(f"console: {kind}" in problem for problem in here.problems), here.problems
    here.problems.clear()
