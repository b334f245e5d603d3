"""The README's pictures of the page, taken of the real thing: docs/page.png, docs/page-phone.png.

    .venv/bin/python scripts/lib/screenshots.py

Starts a daemon with the starter model (CERBERUS_TEST_MODEL, else the one that
`scripts/test` keeps), lets some clients ask, signs Chromium in and talks.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import openai
from playwright.sync_api import Browser, Page, Route, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from cerberus_llamacpp.pull.starter import pull_starter  # noqa: E402

from tests.e2e.conftest import DaemonProcess, start_daemon, stop_daemon  # noqa: E402

NAME = "SmolLM2-135M-Instruct-Q4_1"
QUESTIONS = {
    "page": [
        "What is the capital of France? Answer in one sentence.",
        "Write a Python function that adds two numbers.",
    ],
    "page-phone": [
        "What is the capital of France? Answer in one sentence.",
        "Give me three tips for a good night's sleep.",
    ],
}
SIZES = {"page": (1440, 900), "page-phone": (390, 844)}


def main() -> None:
    model = Path(os.environ.get("CERBERUS_TEST_MODEL") or _pulled())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "gguf").mkdir()
        (folder / "gguf" / f"{NAME}.gguf").symlink_to(model)
        daemon = start_daemon(folder, _config(folder / "gguf"))
        try:
            _some_requests(daemon)
            with sync_playwright() as playwright:
                found = shutil.which("chromium")
                browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
                for picture in SIZES:
                    _take(browser, daemon, picture)
                browser.close()
        finally:
            stop_daemon(daemon)


def _config(folder: Path) -> str:
    return (
        'blocked_plugins = ["hello", "openai"]\n[plugins.llamacpp]\nengine = "embedded"\n'
        f"folders = {json.dumps([str(folder)])}\nthreads = 1\nparallel = 2\ncontext = 4096\n"
    )


def _pulled() -> Path:
    return asyncio.run(pull_starter(ROOT / ".cache" / "models", lambda progress: None))


def _client(daemon: DaemonProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{daemon.url}/v1", api_key=daemon.token)


def _some_requests(daemon: DaemonProcess) -> None:
    client = _client(daemon)
    for question, tokens in (("Name three colours.", 48), ("Tell me of the sea.", 120)):
        client.chat.completions.create(
            model=NAME, messages=[{"role": "user", "content": question}], max_tokens=tokens
        )
    daemon.cli("chat", "-m", NAME, "Say hello in five words.")
    body = {"model": NAME, "prompt": "Once upon a time", "max_tokens": 64}
    headers = f"authorization: Bearer {daemon.token}\ncontent-type: application/json\n"
    subprocess.run(
        ["curl", "-s", f"{daemon.url}/v1/completions", "-H", "@-", "-d", json.dumps(body)],
        input=headers,
        text=True,
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _take(browser: Browser, daemon: DaemonProcess, picture: str) -> None:
    width, height = SIZES[picture]
    phone = picture.endswith("phone")
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="light",
        has_touch=phone,
        is_mobile=phone,
    )
    page = context.new_page()
    page.goto(daemon.cli("url").stdout.split()[0])
    page.route("**/v1/chat/completions", _same_each_time)
    if phone:
        page.get_by_role("navigation").get_by_role("link", name="Chat").click()
    for question in QUESTIONS[picture]:
        page.get_by_label("Message").fill(question)
        page.get_by_role("button", name="Send").click()
        page.get_by_role("button", name="Stop").wait_for()
        page.get_by_role("button", name="Send").wait_for(timeout=120_000)
    page.get_by_label("Message").blur()
    if phone:
        _shoot(page, picture)
    else:
        _shoot_while_another_asks(page, daemon, picture)
    context.close()


def _same_each_time(route: Route) -> None:
    body = {**route.request.post_data_json, "temperature": 0, "max_tokens": 160}
    route.continue_(post_data=body)


def _shoot_while_another_asks(page: Page, daemon: DaemonProcess, picture: str) -> None:
    enough = threading.Event()

    def ask() -> None:
        stream = _client(daemon).chat.completions.create(
            model=NAME,
            messages=[{"role": "user", "content": "Tell me a long story."}],
            stream=True,
            extra_body={"ignore_eos": True},
        )
        for _ in stream:
            if enough.is_set():
                stream.close()
                return

    thread = threading.Thread(target=ask)
    thread.start()
    page.get_by_text("Answering").wait_for()
    page.get_by_role("list", name="Running").get_by_text("tokens").wait_for()
    _shoot(page, picture)
    enough.set()
    thread.join()


def _shoot(page: Page, picture: str) -> None:
    target = ROOT / "docs" / f"{picture}.png"
    target.parent.mkdir(exist_ok=True)
    page.screenshot(path=target)
    if target.stat().st_size > 200_000:
        sys.exit(f"{target.name} is larger than 200 kB")


if __name__ == "__main__":
    main()
