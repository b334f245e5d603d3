"""Claude Code, OpenCode and Codex edit a file, set up as `docs/agents.md` says."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cerberus_core.testing import ScriptedServer
from tests.conftest import Box, StartBox, endpoint
from tests.e2e.agents.conftest import SAID, Ended, RunAgent, Script, documented, exported
from tests.e2e.conftest import MODEL

# The first run fetches the agents.
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(420)]

ASK = "Replace world by Cerberus in greeting.txt"


@pytest.fixture
async def box(start_box: StartBox, upstream: ScriptedServer) -> AsyncIterator[Box]:
    async with start_box(endpoint(upstream, more='api_key = "sk-upstream"')) as box:
        yield box


async def key_of(box: Box) -> str:
    """A gateway key of the name `agent`."""
    made = await box.http.post("/api/keys", json={"name": "agent"})
    token: str = made.json()["token"]
    return token


async def check(
    box: Box, upstream: ScriptedServer, key: str, ended: Ended, project: Path, *, path: str
) -> None:
    """That the file is edited, each turn is in the record, and our keys stayed here."""
    assert ended.code == 0, (ended.said, ended.complained)
    assert SAID in ended.said
    assert (project / "greeting.txt").read_text() == "Hello Cerberus\n"
    turns = len(upstream.requests)
    records = await box.records(turns)
    assert len(records) == turns
    for record in records:
        assert (record.path, record.model, record.status) == (path, "up/m", 200)
        assert (record.client, record.error, record.stream) == ("agent", None, True)
        assert (record.prompt_tokens, record.cached_tokens) == (100, 40)
        assert record.completion_tokens == 7
        assert record.session_id == records[0].session_id is not None
    for request in upstream.requests:
        assert request.path == "/v1/chat/completions"
        assert request.header("authorization") == "Bearer sk-upstream"
        sent = str(request.headers) + request.body.decode()
        assert key not in sent
        assert box.token not in sent


async def test_claude_code_edits_a_file_over_messages(
    box: Box, upstream: ScriptedServer, claude_code: Path, project: Path, run_agent: RunAgent
) -> None:
    file = str(project / "greeting.txt")
    change = {"file_path": file, "old_string": "world", "new_string": "Cerberus"}
    upstream.reply = Script([("Read", {"file_path": file}), ("Edit", change)])
    key = await key_of(box)
    variables = exported(documented("Claude Code", "sh", url=box.url, model="up/m"), key)
    options = ["--permission-mode", "acceptEdits", "--output-format", "json"]
    ended = await run_agent(claude_code, "-p", ASK, *options, **variables)
    await check(box, upstream, key, ended, project, path="/v1/messages")
    usage = json.loads(ended.said)["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (3 * 60, 3 * 40)
    # Each of its turns comes back as one: it joins messages that have the same id.
    last = upstream.requests[-1].json()["messages"]
    assert [m["role"] for m in last[2:]] == ["assistant", "tool"] * 2


async def test_opencode_edits_a_file_over_chat_completions(
    box: Box,
    upstream: ScriptedServer,
    opencode: Path,
    home: Path,
    project: Path,
    run_agent: RunAgent,
) -> None:
    file = str(project / "greeting.txt")
    change = {"filePath": file, "oldString": "world", "newString": "Cerberus"}
    upstream.reply = Script([("read", {"filePath": file}), ("edit", change)])
    key = await key_of(box)
    settings = home / ".config" / "opencode" / "opencode.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(documented("OpenCode", "json", url=box.url, model="up/m"))
    variables = exported(documented("OpenCode", "sh", url=box.url, model="up/m"), key)
    ended = await run_agent(opencode, "run", ASK, CERBERUS_API_KEY=key, **variables)
    await check(box, upstream, key, ended, project, path="/v1/chat/completions")


async def test_codex_edits_a_file_over_responses(
    box: Box,
    upstream: ScriptedServer,
    codex: Path,
    home: Path,
    project: Path,
    run_agent: RunAgent,
) -> None:
    patch = (
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: greeting.txt\n@@\n"
        "-Hello world\n+Hello Cerberus\n*** End Patch\nEOF\n"
    )
    upstream.reply = Script([("exec_command", {"cmd": patch})])
    key = await key_of(box)
    settings = home / ".codex" / "config.toml"
    settings.parent.mkdir()
    settings.write_text(documented("Codex", "toml", url=box.url, model="up/m"))
    # Its own sandbox wants rights that not every machine gives; the project is a temporary folder.
    options = ["--skip-git-repo-check", "--sandbox", "danger-full-access"]
    ended = await run_agent(codex, "exec", *options, ASK, CERBERUS_API_KEY=key)
    await check(box, upstream, key, ended, project, path="/v1/responses")


async def test_claude_code_has_an_answer_of_the_embedded_engine(
    start_box: StartBox, engine_config: str, claude_code: Path, run_agent: RunAgent
) -> None:
    few = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "32", "CLAUDE_CODE_MAX_RETRIES": "0"}
    async with start_box(engine_config.replace("context = 1024", "context = 4096")) as box:
        block = documented("Claude Code", "sh", url=box.url, model=MODEL)
        ended = await run_agent(
            claude_code,
            *("-p", "Say hello.", "--tools", "", "--system-prompt", "Be brief."),
            *("--output-format", "stream-json", "--verbose"),
            **exported(block, box.token),
            **few,
        )
        record = await box.record()
    # A model as small as this one may not come to an end: how Claude Code takes that is its own.
    events = [json.loads(line) for line in ended.said.splitlines()]
    messages = [event["message"] for event in events if event["type"] == "assistant"]
    assert messages, ended
    assert messages[0]["model"] == MODEL
    assert [block["type"] for block in messages[0]["content"]] == ["text"]
    assert messages[0]["content"][0]["text"]
    assert (record.path, record.model, record.status) == ("/v1/messages", MODEL, 200)
    assert record.client is not None
    assert record.client.startswith("claude-cli/")
    assert record.prompt_tokens
    assert record.completion_tokens
