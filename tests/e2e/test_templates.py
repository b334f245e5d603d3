"""Chat templates of the settings, on the real engine."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import DaemonProcess, start_daemon, stop_daemon

pytestmark = pytest.mark.timeout(300)

STRICT = """
{%- for message in messages %}
{%- if message.role == "system" and not loop.first %}
{{- raise_exception("System message must be at the beginning.") }}
{%- endif %}
{{- "[" + message.role + "]" + message.content }}
{%- endfor %}
"""
TOOLED = Path(__file__).with_name("tools.jinja").read_text()
TEMPLATES = {"strict": STRICT, "tooled": TOOLED, "broken": "{% for message in"}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
USER: dict[str, Any] = {"role": "user", "content": "Hello."}


@pytest.fixture(scope="module")
def daemon(starter_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """With the starter model under five names."""
    folder = tmp_path_factory.mktemp("templates")
    gguf = folder / "gguf"
    gguf.mkdir()
    config = (
        'blocked_plugins = ["hello"]\n[plugins.llamacpp]\nengine = "embedded"\n'
        f"folders = {json.dumps([str(gguf)])}\nthreads = 1\nparallel = 1\ncontext = 512\n"
    )
    for name in ("own", "lost", *TEMPLATES):
        shutil.copy(starter_model, gguf / f"{name}.gguf")  # links to one file are one model
        if name in TEMPLATES:
            (folder / f"{name}.jinja").write_text(TEMPLATES[name])
        if name != "own":
            # From the folder of the settings, which lies beside.
            config += f'[models."llamacpp/{name}"]\nchat_template = "../{name}.jinja"\n'
    running = start_daemon(folder, config)
    yield running
    stop_daemon(running)
    shutil.rmtree(gguf)


def ask(daemon: DaemonProcess, model: str, **body: Any) -> httpx.Response:
    whole = {"model": f"llamacpp/{model}", "messages": [USER], "max_tokens": 4, **body}
    return httpx.post(
        f"{daemon.url}/v1/chat/completions", json=whole, headers=daemon.headers, timeout=120
    )


def prompt_tokens(answer: httpx.Response) -> int:
    assert answer.status_code == 200, answer.text
    tokens: int = answer.json()["usage"]["prompt_tokens"]
    return tokens


def test_with_a_template_that_has_a_place_for_tools_a_model_is_told_of_them(
    daemon: DaemonProcess,
) -> None:
    told = [prompt_tokens(ask(daemon, "tooled", **more)) for more in ({}, {"tools": [TOOL]})]
    assert told[1] > told[0] + 20
    own = [prompt_tokens(ask(daemon, "own", **more)) for more in ({}, {"tools": [TOOL]})]
    assert own[0] == own[1], "its own has no place for them"


def test_g31_a_system_message_in_the_middle_of_a_chat_passes_a_strict_template(
    daemon: DaemonProcess,
) -> None:
    said = [
        {"role": "system", "content": "Be kind."},
        USER,
        {"role": "assistant", "content": "Hi."},
        {"role": "system", "content": "Be brief."},
        USER,
    ]
    for stream in (False, True):
        answer = ask(daemon, "strict", messages=said, stream=stream)
        assert answer.status_code == 200, answer.text
        assert '"error"' not in answer.text
    # Where a template takes it anywhere, it stays where it is: no word is added.
    assert prompt_tokens(ask(daemon, "own", messages=said)) < 60


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("lost", r"lost\.jinja can't be read: No such file"),
        ("broken", r"broken\.jinja is no template that llama\.cpp can use"),
    ],
)
def test_a_template_that_can_not_be_used_is_told_and_nothing_else_breaks(
    daemon: DaemonProcess, model: str, why: str
) -> None:
    answer = ask(daemon, model)
    assert answer.status_code == 503
    told = answer.json()["error"]["message"]
    assert re.search(why, told), told
    assert prompt_tokens(ask(daemon, "own")) > 0
