"""Chromium on the page of a real daemon, and on a wire that can be cut.

The tests are plain functions: Playwright's sync API keeps a loop of its own on
this thread for as long as the browser lives, so the browser belongs to a
module and no coroutine test may stand beside these.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import attrs
import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Route,
    expect,
    sync_playwright,
)

from cerberus_core.testing import ScriptedServer
from cerberus_core.testing.scripted import Wait
from tests.conftest import endpoint
from tests.e2e.browser.wire import Wire
from tests.e2e.conftest import DaemonProcess, start_daemon, stop_daemon

PATIENCE_MS = 30_000
"""How long a condition may take on a machine that does much else."""

PHONE = {"width": 390, "height": 844}
NARROW = {"width": 320, "height": 640}
DESKTOP = {"width": 1440, "height": 900}

# Playwright puts this into each document by the debugger, which no policy concerns.
_TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (e) =>
  console.error(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
window.alert = window.confirm = window.prompt = (said) => console.error(`ran: ${said}`);
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for a module."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail(
            "The page's tests need Chromium. On Debian or Ubuntu: "
            "sudo apt install chromium fonts-dejavu-core",
            pytrace=False,
        )
    expect.set_options(timeout=PATIENCE_MS)
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox"] if root else []
        )
        yield browser
        browser.close()


@attrs.define(slots=False, eq=False)  # Playwright hangs attributes on a handler's owner
class Visit:
    """A browser of its own (cookies, storage) that looks at one daemon.

    What must never happen on the page is gathered in `problems`: a script's
    error, a broken policy, a dialog, a request to elsewhere.
    """

    context: BrowserContext
    daemon: DaemonProcess
    url: str
    requests: list[Request] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.add_init_script(_TELL_VIOLATIONS)
        self.context.on("request", self._requested)
        self.context.on("console", self._said)
        self.context.on("weberror", lambda e: self.problems.append(f"error: {e.error}"))
        self.context.on("page", lambda page: page.on("popup", self._opened))

    def page(self, *, sign_in: bool = True) -> Page:
        """A new tab with the page in it, signed in and up to date or at its sign-in."""
        page = self.context.new_page()
        if sign_in:
            page.goto(self.link())
            expect(page.get_by_test_id("connection")).to_have_text("✓Live")
        else:
            page.goto(self.url)
        return page

    def tab(self) -> Page:
        """A second tab of a browser that is signed in already."""
        page = self.page(sign_in=False)
        expect(page.get_by_test_id("connection")).to_have_text("✓Live")
        return page

    def link(self) -> str:
        """A fresh sign-in link."""
        answer = httpx.post(f"{self.daemon.url}/api/codes", headers=self.daemon.headers)
        return f"{self.url}/#code={answer.json()['code']}"

    def asked(self, path: str) -> list[Request]:
        """The requests for a path so far."""
        return [request for request in self.requests if request.url == self.url + path]

    def _requested(self, request: Request) -> None:
        self.requests.append(request)
        if not request.url.startswith((f"{self.url}/", "data:")):
            self.problems.append(f"asked of elsewhere: {request.url}")
        if self.daemon.token in request.url or "code=" in request.url:
            self.problems.append(f"a secret in an address: {request.url}")

    def _said(self, message: ConsoleMessage) -> None:
        # Chromium writes a line for each refused or failed request; those are asserted by sight.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.problems.append(f"console: {message.text}")

    def _opened(self, page: Page) -> None:
        self.problems.append(f"opened a window: {page.url}")


OpenVisit = Callable[..., Visit]


@pytest.fixture
def visit(browser: Browser) -> Iterator[OpenVisit]:
    """`visit(daemon)`: a fresh browser context; the test fails if anything bad happened in it."""
    visits: list[Visit] = []

    def open_visit(
        daemon: DaemonProcess,
        *,
        phone: bool = False,
        narrow: bool = False,
        theme: Literal["light", "dark"] = "light",
        url: str | None = None,
    ) -> Visit:
        phone = phone or narrow
        context = browser.new_context(
            viewport=NARROW if narrow else PHONE if phone else DESKTOP,  # type: ignore[arg-type]
            color_scheme=theme,
            has_touch=phone,
            is_mobile=phone,
        )
        visits.append(Visit(context, daemon, url or daemon.url))
        return visits[-1]

    yield open_visit
    for each in visits:
        each.context.close()
    assert [problem for each in visits for problem in each.problems] == []


@attrs.define
class Scripted:
    """A daemon whose one endpoint, `up`, says what the test wrote down."""

    daemon: DaemonProcess
    server: ScriptedServer
    portal: BlockingPortal

    def wait(self) -> Wait:
        """A part that holds an answer back."""

        async def make() -> Wait:
            return Wait()

        return self.portal.call(make)

    def stop_listening(self) -> None:
        """From now on nothing answers at its address."""
        self.portal.call(self.server.__aexit__)

    def go(self, wait: Wait) -> None:
        """Let a held part of an answer pass."""
        self.portal.call(wait.go)


RunScripted = Callable[..., Scripted]


def settings(server: ScriptedServer, models: list[str] | None, tables: str) -> str:
    return f"{endpoint(server, models=models)}\n{tables}"


@pytest.fixture
def run_scripted(tmp_path: Path) -> Iterator[RunScripted]:
    """`run_scripted(models)` starts both; `tables` are more of the config."""
    running: list[DaemonProcess] = []
    with start_blocking_portal() as portal:
        server = ScriptedServer()
        with portal.wrap_async_context_manager(server):

            def start(models: list[str] | None = None, tables: str = "") -> Scripted:
                daemon = start_daemon(tmp_path, settings(server, models, tables))
                running.append(daemon)
                return Scripted(daemon, server, portal)

            yield start
            for daemon in running:
                stop_daemon(daemon)


@pytest.fixture
def scripted(run_scripted: RunScripted) -> Scripted:
    """Both, with the model `up/m`."""
    return run_scripted()


@contextmanager
def wire_to(daemon: DaemonProcess) -> Iterator[Wire]:
    """A way to the daemon that can be cut and mended."""
    with start_blocking_portal() as portal:
        wire = Wire(int(daemon.url.rpartition(":")[2]), portal)
        with portal.wrap_async_context_manager(wire):
            yield wire


def ask(page: Page, question: str) -> None:
    """Type a question and send it."""
    page.get_by_label("Message").fill(question)
    page.get_by_role("button", name="Send").click()


def answered(page: Page) -> None:
    """Wait until no answer is under way."""
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def row(page: Page, name: str) -> Any:
    """The row of a model."""
    return page.locator("tr[data-state]").filter(has_text=name)


def switch_to(page: Page, tab: str) -> None:
    """Choose one of the phone's tabs."""
    page.get_by_role("navigation").get_by_role("link", name=tab).click()


def post(daemon: DaemonProcess, question: str, model: str = "up/m", **more: Any) -> httpx.Response:
    """Some other client's request."""
    body = {"model": model, "messages": [{"role": "user", "content": question}], **more}
    return httpx.post(
        f"{daemon.url}/v1/chat/completions", json=body, headers=daemon.headers, timeout=120
    )


def until(condition: Callable[[], bool], page: Page | None = None) -> None:
    """Wait for what no page shows. With a page, its events arrive meanwhile."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not condition():
        assert time.monotonic() < deadline
        if page is None:
            time.sleep(0.02)
        else:
            page.wait_for_timeout(20)


def add_to_questions(page: Page, **fields: Any) -> None:
    """What the page doesn't ask for, such as an answer of a certain length."""

    def add(route: Route) -> None:
        route.continue_(post_data={**route.request.post_data_json, **fields})

    page.route("**/v1/chat/completions", add)


def endless(page: Page) -> None:
    """Answers go on until the context is full."""
    add_to_questions(page, ignore_eos=True)


def short(page: Page) -> None:
    """Answers are done in a moment."""
    add_to_questions(page, max_tokens=16)


def logs_of(daemon: DaemonProcess) -> str:
    """All that the daemon has written but its records and settings."""
    folder = daemon.folders.data.parent
    kept = {daemon.folders.config_file, daemon.folders.daemon_file}
    texts = [
        path.read_text(errors="replace")
        for path in folder.rglob("*")
        if path.is_file() and path not in kept and path.stat().st_size < 1 << 20
    ]
    return json.dumps(texts)
