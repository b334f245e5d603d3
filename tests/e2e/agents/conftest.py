"""Real agents, each at a home of its own, before a daemon whose endpoint follows a script."""

import json
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

from cerberus_core.testing import Received, Reply
from cerberus_core.testing.scripted import DONE, chat_answer, chat_chunks, chunk, sse
from tests.processes import refusing_port

from .installed import CLAUDE_CODE, CODEX, OPENCODE, program_of

LIMIT_S = 120
"""For one run of an agent; on an idle machine it takes one to nine."""
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "total_tokens": 107,
    "prompt_tokens_details": {"cached_tokens": 40},
}
SAID = "The file is edited."


@attrs.frozen
class Script:
    """An endpoint of Chat Completions whose model makes these calls, one a turn, and ends."""

    calls: list[tuple[str, dict[str, Any]]]

    def __call__(self, received: Received) -> Reply:
        asked = received.json()
        turn = sum(message["role"] == "tool" for message in asked["messages"])
        offered = [tool["function"]["name"] for tool in asked.get("tools", [])]
        if turn < len(self.calls) and offered:
            return self._call(turn, offered)
        if asked.get("stream"):
            return Reply.stream(chat_chunks([SAID[:9], SAID[9:]], usage=USAGE))
        return Reply.json(chat_answer(SAID, usage=USAGE))

    def _call(self, turn: int, offered: list[str]) -> Reply:
        name, arguments = self.calls[turn]
        assert name in offered, f"the agent offers {offered}"
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": 0, "id": f"call_{turn}", "type": "function", "function": function}
        end = {**chunk(usage=USAGE), "choices": []}
        pieces = [chunk({"tool_calls": [call]}), chunk(finish="tool_calls"), end]
        return Reply.stream([*map(sse, pieces), DONE])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What the agent is to change: `greeting.txt`."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "greeting.txt").write_text("Hello world\n")
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@attrs.frozen
class Ended:
    """A run of an agent."""

    code: int
    said: str
    complained: str


RunAgent = Callable[..., Awaitable[Ended]]


@pytest.fixture
def run_agent(home: Path, project: Path) -> Iterator[RunAgent]:
    """`await run_agent(program, *arguments, **variables)`, in the project.

    Its environment holds these variables and nothing of the user's. What isn't
    on loopback is behind a proxy that is not there.
    """
    with refusing_port() as nowhere:
        proxy = f"http://127.0.0.1:{nowhere}"
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
        env |= {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "NO_PROXY": "127.0.0.1"}

        async def run(program: Path, *arguments: str, **variables: str) -> Ended:
            return await _run([str(program), *arguments], env | variables, project)

        yield run


async def _run(command: list[str], env: dict[str, str], folder: Path) -> Ended:
    async with await anyio.open_process(
        command, env=env, cwd=folder, stdin=subprocess.DEVNULL, start_new_session=True
    ) as process:
        said: dict[str, bytes] = {}

        async def read(name: str, stream: Any) -> None:
            said[name] = b"".join([piece async for piece in stream])

        try:
            with anyio.fail_after(LIMIT_S):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(read, "out", process.stdout)
                    tasks.start_soon(read, "err", process.stderr)
                code = await process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return Ended(code, said["out"].decode(), said["err"].decode())


TOOLS = Path(__file__).parents[3] / ".tools"


@pytest.fixture(scope="session")
def claude_code() -> Path:
    return program_of(CLAUDE_CODE, TOOLS)


@pytest.fixture(scope="session")
def opencode() -> Path:
    return program_of(OPENCODE, TOOLS)


@pytest.fixture(scope="session")
def codex() -> Path:
    return program_of(CODEX, TOOLS)


def documented(agent: str, language: str, *, url: str, model: str) -> str:
    """A code block of `docs/agents.md`, with its address and model replaced."""
    page = (Path(__file__).parents[3] / "docs" / "agents.md").read_text()
    section = page.split(f"\n## {agent}\n")[1].split("\n## ")[0]
    block = section.split(f"```{language}\n")[1].split("```")[0]
    return block.replace("http://127.0.0.1:7733", url).replace("llamacpp/my-model", model)


def exported(block: str, key: str) -> dict[str, str]:
    """The variables that a shell would have after it, `CERBERUS_API_KEY` being `key`."""
    lines = [line.removeprefix("export ") for line in block.splitlines()]
    return {
        name: value.replace("$CERBERUS_API_KEY", key)
        for name, _, value in (line.partition("=") for line in lines)
    }
