"""Field reports on streams (G01 to G08, G14, G17, G18): each through the whole daemon."""

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import openai
import pytest

from cerberus_core.platform import SystemClock
from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import (
    CLOSE,
    DONE,
    RESET,
    USAGE,
    Wait,
    chat_chunks,
    chunk,
    sse,
)
from tests.conftest import Box, StartBox, endpoint

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {
    "model": "up/m",
    "messages": [{"role": "user", "content": "hi"}],
    "stream": True,
}
KEEP_ALIVE = b": keep-alive\n\n"
WITH_USAGE = {**ASK, "stream_options": {"include_usage": True}}


@pytest.fixture
async def box(start_box: StartBox, upstream: ScriptedServer) -> AsyncIterator[Box]:
    async with start_box(endpoint(upstream)) as box:
        yield box


async def ask(box: Box, body: dict[str, Any] = ASK) -> tuple[httpx.Response, list[Any]]:
    """The answer and its events, decoded; `[DONE]` stays a string."""
    answer = await box.http.post("/v1/chat/completions", json=body)
    return answer, events_of(answer.text)


def events_of(text: str) -> list[Any]:
    blocks = [block for block in text.split("\n\n") if block.startswith("data: ")]
    return [b[6:] if b[6:] == "[DONE]" else json.loads(b[6:]) for b in blocks]


def text_of(events: list[Any]) -> str:
    return "".join(
        event["choices"][0]["delta"].get("content") or ""
        for event in events
        if isinstance(event, dict) and event.get("choices")
    )


TEXT = "北京 é 😀"


async def test_g01_a_character_cut_at_every_byte_arrives_whole(
    box: Box, upstream: ScriptedServer
) -> None:
    event = sse(chunk({"content": TEXT}))
    tail = chat_chunks([])
    scripts = [[bytes([byte]) for byte in event]]
    scripts += [[event[:cut], event[cut:]] for cut in range(1, len(event))]
    for parts in scripts:
        upstream.reply = Reply.stream([*parts, *tail])
        _, events = await ask(box)
        assert text_of(events) == TEXT
        assert events[-1] == "[DONE]"


async def test_g02_only_cr_lf_and_crlf_end_a_line(box: Box, upstream: ScriptedServer) -> None:
    text = "a\u2028b\x85c\u2029d"
    upstream.reply = Reply.stream(chat_chunks([text]))
    _, events = await ask(box)
    record = await box.record()
    assert text_of(events) == text
    assert record.prompt_tokens == 5
    assert record.error is None


async def test_g03_five_framings_give_the_same_events(box: Box, upstream: ScriptedServer) -> None:
    plain = chat_chunks(["Hel", "lo"])
    crlf = [part.replace(b"\n", b"\r\n") for part in plain]
    joined = b"".join(crlf)
    cut = joined.index(b"\r\n") + 1
    first = json.dumps(chunk({"content": "Hel"}))
    middle = first.index(", ") + 2
    framings = [
        plain,
        crlf,
        [joined[:cut], joined[cut:]],
        [part.replace(b"data: ", b"data:") for part in plain],
        [b": hi\nid: 7\nevent: message\n" + part for part in plain],
        [f"data: {first[:middle]}\ndata: {first[middle:]}\n\n".encode(), *plain[1:]],
        [part.replace(b"\n", b"\r") for part in plain],
    ]
    seen = []
    for parts in framings:
        upstream.reply = Reply.stream(parts)
        seen.append((await ask(box))[1])
        assert (await box.record()).ttft_ms is not None
    assert all(events == seen[0] for events in seen)
    assert text_of(seen[0]) == "Hello"


@pytest.mark.parametrize(
    "first",
    [
        sse(chunk({"content": "a"})),
        sse(chunk({"content": "a"})).replace(b"\n", b"\r\n"),
        sse(chunk({"content": "a"})).replace(b"\n", b"\r"),
        sse(chunk({"content": "a"})).replace(b"data: ", b"data:"),
        b"id: 7\n" + sse(chunk({"content": "a"})),
        sse(chunk({"content": "a"})).replace(b', "', b',\ndata: "', 1),
    ],
    ids=["plain", "crlf", "cr", "no space", "id", "two lines"],
)
async def test_g03_the_first_token_is_not_delayed(
    box: Box, upstream: ScriptedServer, first: bytes
) -> None:
    wait = Wait()
    upstream.reply = Reply.stream([first, wait, *chat_chunks(["b"])])
    with anyio.fail_after(10):
        async with box.http.stream("POST", "/v1/chat/completions", json=ASK) as answer:
            pieces = answer.aiter_text()
            seen = await anext(pieces)
            assert text_of(events_of(seen)) == "a"
            wait.go()
            seen += "".join([piece async for piece in pieces])
    assert text_of(events_of(seen)) == "ab"
    assert seen.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("sends_done", [True, False])
async def test_g04_done_comes_exactly_once_and_last(
    box: Box, upstream: ScriptedServer, sends_done: bool
) -> None:
    parts = chat_chunks(["x"], usage=None)
    upstream.reply = Reply.stream(parts if sends_done else parts[:-1])
    answer, events = await ask(box)
    assert answer.text.count("[DONE]") == 1
    assert events[-1] == "[DONE]"


async def test_g05_a_tool_call_that_is_cut_off_is_an_error(
    box: Box, upstream: ScriptedServer
) -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "rm", "arguments": '{"path": "a'}}
    upstream.reply = Reply.stream([sse(chunk({"tool_calls": [call]})), CLOSE])
    for closing in (CLOSE, None):  # in the middle of the chunked body, and after its clean end
        parts = [sse(chunk({"tool_calls": [call]}))] + ([closing] if closing else [])
        upstream.reply = Reply.stream(parts)
        _, events = await ask(box)
        record = await box.record()
        assert "[DONE]" not in events
        assert events[-1]["error"]["code"] in ("answer_cut_off", "upstream_failed")
        assert record.error is not None


async def test_g06_no_done_after_a_failure_and_tokens_so_far_are_counted(
    box: Box, upstream: ScriptedServer
) -> None:
    pieces = [sse(chunk({"content": text})) for text in "abc"]
    upstream.reply = Reply.stream([*pieces, RESET])
    _, events = await ask(box)
    record = await box.record()
    assert text_of(events) == "abc"
    assert [event for event in events if "error" in event] == events[-1:]
    assert "[DONE]" not in events
    assert (record.completion_tokens, record.tokens_counted) == (3, True)
    assert record.error is not None


async def test_g07_a_refusal_keeps_its_status_and_words(box: Box, upstream: ScriptedServer) -> None:
    refusal = {"error": {"message": "too many tools", "type": "invalid_request_error"}}
    upstream.reply = Reply.json(refusal, status=400)
    answer, _ = await ask(box)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == refusal


async def test_g07_an_error_as_first_event_is_no_success(
    box: Box, upstream: ScriptedServer
) -> None:
    upstream.reply = Reply.stream([sse({"error": {"message": "no such thing"}}), DONE])
    answer, _ = await ask(box)
    record = await box.record()
    assert answer.status_code == 502
    assert "no such thing" in answer.json()["error"]["message"]
    assert record.error is not None


async def test_an_error_in_mid_stream_comes_after_what_was_said(
    box: Box, upstream: ScriptedServer
) -> None:
    said = sse(chunk({"content": "a"}))
    upstream.reply = Reply.stream([said + sse({"error": {"message": "lost it"}}), DONE])
    _, events = await ask(box)
    assert text_of(events) == "a"
    assert "lost it" in events[-1]["error"]["message"]


def _usage_scripts() -> dict[str, list[bytes]]:
    pieces = [sse(chunk({"content": "a"})), sse(chunk({"content": "b"}))]
    finish = chunk(finish="stop")
    separate = {**chunk(), "choices": [], "usage": USAGE}
    return {
        "none": [*pieces, sse(finish), DONE],
        "on the last chunk": [*pieces, sse({**finish, "usage": USAGE}), DONE],
        "separate": [*pieces, sse(finish), sse(separate), DONE],
        "null on every chunk": [
            *[sse({**chunk({"content": t}), "usage": None}) for t in "ab"],
            sse({**finish, "usage": None}),
            sse(separate),
            DONE,
        ],
    }


@pytest.mark.parametrize("name", _usage_scripts())
async def test_g08_one_usage_chunk_where_asked_for_and_none_elsewhere(
    box: Box, upstream: ScriptedServer, name: str
) -> None:
    upstream.reply = Reply.stream(_usage_scripts()[name])
    _, events = await ask(box, WITH_USAGE)
    with_usage = [e for e in events if isinstance(e, dict) and e.get("usage")]
    assert len(with_usage) == 1
    assert events.index(with_usage[0]) == len(events) - 2
    assert with_usage[0]["choices"] == []
    assert with_usage[0]["usage"]["completion_tokens"] == 2
    assert events[-3]["choices"][0]["finish_reason"] == "stop"
    known = name != "none"
    assert with_usage[0]["usage"]["prompt_tokens"] == (5 if known else None)

    _, events = await ask(box)
    record = await box.record()
    assert not any("usage" in e for e in events if isinstance(e, dict))
    assert (record.completion_tokens, record.prompt_tokens) == (2, 5 if known else None)
    assert record.tokens_counted is not known


@pytest.mark.parametrize("calls_before", [0, 1])
async def test_g14_a_length_stop_stays_one(
    box: Box, upstream: ScriptedServer, calls_before: int
) -> None:
    def call(index: int, arguments: str) -> bytes:
        function = {"name": "f", "arguments": arguments}
        return sse(
            chunk({"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]})
        )

    calls = [call(n, '{"a": 1}') for n in range(calls_before)] + [call(calls_before, '{"a')]
    upstream.reply = Reply.stream([*calls, sse(chunk(finish="length")), DONE])
    _, events = await ask(box)
    reasons = [event["choices"][0]["finish_reason"] for event in events[:-1]]
    assert reasons == [*[None] * (calls_before + 1), "length"]
    assert events[-1] == "[DONE]"
    arguments = [
        event["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"]
        for event in events[:-2]
    ]
    assert arguments == [*['{"a": 1}'] * calls_before, '{"a']
    # Asked for whole, the stream is put together: the half call stays half, the stop a length.
    answer, _ = await ask(box, {**ASK, "stream": False})
    [choice] = answer.json()["choices"]
    assert choice["finish_reason"] == "length"
    got = [call["function"]["arguments"] for call in choice["message"]["tool_calls"]]
    assert got == arguments


@pytest.mark.parametrize("completed", [True, False])
async def test_g17_a_silent_prefill_is_kept_alive_between_events(
    start_box: StartBox, upstream: ScriptedServer, completed: bool
) -> None:
    prefill, half = Wait(), Wait()
    event = sse(chunk({"content": "hello"}))
    rest = [event[20:], *chat_chunks([])] if completed else [CLOSE]
    upstream.reply = Reply.stream([prefill, event[:20], half, *rest])
    config = endpoint(upstream) + "[gateway]\nhold_s = 0.05\nkeepalive_s = 0.1\n"
    async with start_box(config) as box:
        raw = b""
        async with box.http.stream("POST", "/v1/chat/completions", json=ASK) as answer:
            assert answer.status_code == 200  # the head is there before any token
            async for piece in answer.aiter_raw():
                raw += piece
                if not half.reached.is_set():
                    quiet = raw.count(KEEP_ALIVE)
                    if quiet >= 3:
                        prefill.go()
                elif raw == KEEP_ALIVE * max(raw.count(KEEP_ALIVE), quiet + 2):
                    half.go()  # half an event was sent, and comments went on without it
        comments, _, told = raw.partition(b"data: ")
        assert comments == KEEP_ALIVE * comments.count(KEEP_ALIVE)
        assert comments.count(KEEP_ALIVE) >= 5
        events = events_of("data: " + told.decode())
        if completed:
            assert text_of(events) == "hello"
            assert events[-1] == "[DONE]"
        else:
            assert [event["error"]["code"] for event in events] == ["upstream_failed"]
            assert event[:20] not in raw


async def test_g17_the_official_client_takes_no_notice_of_comments(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    config = endpoint(upstream) + "[gateway]\nhold_s = 0.05\nkeepalive_s = 0.1\n"
    upstream.reply = Reply.stream([first := Wait(), *chat_chunks(["hel", "lo"])])
    async with (
        start_box(config) as box,
        openai.AsyncOpenAI(base_url=f"{box.url}/v1", api_key=box.token) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_go_later, first)
        stream = await client.chat.completions.create(
            model="up/m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        text = "".join([c.choices[0].delta.content or "" async for c in stream])
    assert text == "hello"


async def _go_later(wait: Wait) -> None:
    await wait.reached.wait()
    await anyio.sleep(0.1)
    wait.go()


async def test_g18_a_prefill_with_progress_outlives_the_silence_limit(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    signs = [Wait() for _ in range(8)]
    parts = [part for sign in signs for part in (b": progress\n\n", sign)]
    upstream.reply = Reply.stream([*parts, *chat_chunks(["late"])])
    async with start_box(endpoint(upstream) + "[gateway]\nsilence_s = 0.4\n") as box:
        async with anyio.create_task_group() as tasks:
            for sign in signs:
                tasks.start_soon(_go_later, sign)
            _, events = await ask(box)
    assert text_of(events) == "late"


@pytest.mark.parametrize("stream", [True, False])
async def test_g18_a_silent_engine_ends_in_an_error_that_names_the_setting(
    start_box: StartBox, upstream: ScriptedServer, stream: bool
) -> None:
    upstream.reply = Reply.stream([Wait()])
    config = endpoint(upstream) + "[gateway]\nsilence_s = 0.2\nkeepalive_s = 0.1\n"
    async with start_box(config) as box:
        answer, events = await ask(box, {**ASK, "stream": stream})
    told = answer.json() if answer.status_code != 200 else events[-1]
    assert "0.2 s" in told["error"]["message"]
    assert "gateway.silence_s" in told["error"]["hint"]


async def test_g05_one_of_two_choices_cut_off_is_no_success(
    box: Box, upstream: ScriptedServer
) -> None:
    def part(index: int, text: str, finish: str | None = None) -> bytes:
        choice = {"index": index, "delta": {"content": text}, "finish_reason": finish}
        return sse({**chunk(), "choices": [choice]})

    upstream.reply = Reply.stream(
        [part(0, "a"), part(0, "b"), part(1, "c"), part(1, "d"), part(0, "", "stop")]
    )
    _, events = await ask(box, {**ASK, "n": 2})
    record = await box.record()
    assert "[DONE]" not in events
    assert events[-1]["error"]["code"] == "answer_cut_off"
    assert record.error is not None


@pytest.mark.parametrize("stream", [True, False])
async def test_g18_an_engine_that_sends_no_head_at_all_is_given_up_too(
    start_box: StartBox, upstream: ScriptedServer, stream: bool
) -> None:
    upstream.reply = Reply(raw_head=b"", parts=[Wait()])
    async with start_box(endpoint(upstream) + "[gateway]\nsilence_s = 0.2\n") as box:
        answer = await box.http.post("/v1/chat/completions", json={**ASK, "stream": stream})
    assert answer.status_code == 502
    assert "gateway.silence_s" in answer.json()["error"]["hint"]


@pytest.mark.parametrize("stream", [True, False])
async def test_g05_a_done_without_a_finish_is_cut_off(
    box: Box, upstream: ScriptedServer, stream: bool
) -> None:
    upstream.reply = Reply.stream([sse(chunk({"content": "half a"})), DONE])
    answer = await box.http.post("/v1/chat/completions", json={**ASK, "stream": stream})
    if stream:
        assert "half a" in answer.text
        assert "[DONE]" not in answer.text
        assert "answer_cut_off" in answer.text
    else:
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "answer_cut_off")
    assert "cut off" in ((await box.record()).error or "")


class Slow(SystemClock):
    """Runs behind the loop's timers, which ring early by its measure."""

    def monotonic(self) -> float:
        return time.monotonic() * 0.95


async def test_g18_a_timer_that_rings_early_is_no_sign_of_life(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    gateway = "[gateway]\nsilence_s = 0.2\nhold_s = 60\n"
    async with start_box(endpoint(upstream) + gateway, clock=Slow()) as box:
        upstream.reply = Reply.stream([Wait()])
        with anyio.fail_after(10):
            answer = await box.http.post("/v1/chat/completions", json={**ASK, "stream": True})
        assert answer.status_code == 502, answer.text
        assert answer.json()["error"]["code"] == "upstream_silent"


@pytest.mark.parametrize("stream", [True, False])
async def test_g18_a_silence_limit_below_the_hold_is_kept(
    start_box: StartBox, upstream: ScriptedServer, stream: bool
) -> None:
    gateway = "[gateway]\nsilence_s = 0.2\nhold_s = 60\n"
    async with start_box(endpoint(upstream) + gateway) as box:
        upstream.reply = Reply.stream([Wait()])
        with anyio.fail_after(10):
            answer = await box.http.post("/v1/chat/completions", json={**ASK, "stream": stream})
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_silent")
