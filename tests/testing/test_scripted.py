"""The scripted server as a program, and what it answers where nothing was scripted."""

import json
import subprocess
import sys

import httpx
import pytest

from cerberus_core.testing import ScriptedServer
from cerberus_core.testing.scripted import echo

PROGRAM = [sys.executable, "-m", "cerberus_core.testing.scripted"]


def test_as_a_program_it_prints_its_address_and_nothing_else() -> None:
    with subprocess.Popen(
        PROGRAM, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        assert httpx.get(f"{url}/models", trust_env=False).json()["data"][0]["id"] == "m"
        program.terminate()
        _, said = program.communicate(timeout=20)
    assert said == ""


def test_its_help_says_what_it_is() -> None:
    shown = subprocess.run(
        [*PROGRAM, "--help"], capture_output=True, text=True, timeout=20, check=True
    )
    assert "base_url" in shown.stdout


@pytest.mark.anyio
async def test_an_echo_keeps_every_space_and_each_path_answers_in_its_own_form() -> None:
    assert ScriptedServer().reply is echo
    async with ScriptedServer() as server, httpx.AsyncClient(trust_env=False) as http:

        async def ask(path: str, **body: object) -> httpx.Response:
            return await http.post(server.base_url + path, json={"model": "m", **body})

        text = " a  b\nc "
        messages = [{"role": "user", "content": text}]
        streamed = await ask("/chat/completions", messages=messages, stream=True)
        assert "".join(pieces(streamed, "delta")) == text
        assert len(list(pieces(streamed, "delta"))) > 3
        assert "".join(pieces(await ask("/completions", prompt=text, stream=True))) == text
        whole = (await ask("/completions", prompt=text)).json()
        assert (whole["object"], whole["choices"][0]["text"]) == ("text_completion", text)
        rows = (await ask("/embeddings", input=["a", "bc"])).json()["data"]
        assert [row["embedding"][0] for row in rows] == [1, 2]
        assert (await ask("/responses", input="x")).status_code == 404
        assert (await ask("/chat/completions", messages=3)).status_code == 400


def pieces(streamed: httpx.Response, within: str | None = None) -> list[str]:
    lines = [line[6:] for line in streamed.text.splitlines() if line.startswith("data: {")]
    choices = [choice for line in lines for choice in json.loads(line)["choices"]]
    if within is None:
        return [choice["text"] for choice in choices]
    return [choice[within].get("content", "") for choice in choices]
