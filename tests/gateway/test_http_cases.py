"""Field reports on HTTP (G15, G16, G19 to G25, G28 to G30, G33), through the whole daemon."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import anyio
import h11
import httpx
import pytest

from cerberus_core.testing import Received, Reply, ScriptedServer
from cerberus_core.testing.scripted import Wait, chat_answer, chat_chunks, chunk, sse
from tests.conftest import Box, StartBox, endpoint
from tests.gateway.odd_http import ASK, http_1_0, raw_request

pytestmark = pytest.mark.anyio


@pytest.fixture
async def box(start_box: StartBox, upstream: ScriptedServer) -> AsyncIterator[Box]:
    async with start_box(endpoint(upstream)) as box:
        yield box


@pytest.mark.parametrize("moment", ["after two chunks", "whole answer", "before any byte"])
async def test_g15_the_client_leaves_and_the_engine_hears_it_within_a_second(
    box: Box, upstream: ScriptedServer, moment: str
) -> None:
    wait = Wait()
    stream = moment == "after two chunks"
    pieces = [sse(chunk({"content": text})) for text in "ab"] if stream else []
    upstream.reply = Reply.stream([*pieces, wait])
    body = json.dumps({**ASK, "stream": moment != "whole answer"}).encode()
    reader, writer = await raw_request(box, body)
    received = await upstream.arrived()
    if stream:
        await reader.readuntil(b'"b"')
    await wait.reached.wait()
    writer.close()
    with anyio.fail_after(1):
        await received.closed.wait()
    record = await box.record()
    assert record.status == 499
    assert "client left" in (record.error or "")
    assert record.completion_tokens == (2 if stream else None)
    live = (await box.http.get("/api/requests")).json()["live"]
    assert live == []
    models = (await box.http.get("/api/models")).json()["models"]
    assert [model["in_flight"] for model in models] == [0]


async def test_g19_keys_stay_where_they_belong(
    start_box: StartBox, upstream: ScriptedServer, capfd: pytest.CaptureFixture[str]
) -> None:
    async with ScriptedServer() as elsewhere, ScriptedServer() as keyless:

        def redirect(_: Received) -> Reply:
            return Reply(
                status=307,
                headers=[("location", elsewhere.base_url + "/chat/completions")],
                framing="length",
            )

        config = endpoint(upstream, more='api_key = "sk-upstream"\n') + (
            f'[plugins.openai.endpoints.keyless]\nbase_url = "{keyless.base_url}"\nmodels = ["m"]\n'
        )
        async with start_box(config) as box:
            headers = {"x-api-key": box.token, "cookie": "a=b", "x-forwarded-for": "10.0.0.1"}
            await box.http.post("/v1/chat/completions", json=ASK, headers=headers)
            await box.http.post("/v1/chat/completions", json={**ASK, "model": "keyless/m"})
            upstream.reply = redirect
            answer = await box.http.post("/v1/chat/completions", json=ASK)
            assert (await box.records(3))[0].error is not None
            await box.http.post("/v1/chat/completions", content=f'{{"bad": "{box.token}')
        kept = [path for path in box.folders.data.rglob("*") if path.is_file()]
        written = b"".join(path.read_bytes() for path in kept).decode("latin-1")
        assert upstream.requests[0].header("authorization") == "Bearer sk-upstream"
        assert keyless.requests[0].header("authorization") is None
        for received in [*upstream.requests, *keyless.requests]:
            assert box.token not in str(received.headers)
            assert received.header("cookie") is None
        assert answer.status_code == 502
        assert elsewhere.requests == []
        assert [path.name for path in kept if path.suffix == ".jsonl"] == ["usage.jsonl"]
        out, err = capfd.readouterr()
        assert box.token not in out + err + written
        assert "sk-upstream" not in out + err + written + answer.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("framing", ["length", "chunked", "close", "HTTP/1.0"])
async def test_g20_g21_answers_are_framed_once_and_headers_are_ours(
    box: Box, upstream: ScriptedServer, framing: Any, stream: bool
) -> None:
    kind = "text/event-stream" if stream else "application/json"
    parts = chat_chunks(["x"]) if stream else [json.dumps(chat_answer("x")).encode()]
    upstream.reply = Reply(
        headers=[
            ("content-type", kind),
            ("server", "simple"),
            ("date", "Tue, 01 Jan 2030 00:00:00 GMT"),
            ("keep-alive", "timeout=5"),
            ("connection", "x-foo" if framing != "close" else "close, x-foo"),
            ("x-foo", "bar"),
            ("set-cookie", "spy=1"),
        ],
        parts=parts,
        framing="close" if framing == "HTTP/1.0" else framing,
        raw_head=http_1_0(kind) if framing == "HTTP/1.0" else None,
    )
    reader, writer = await raw_request(box, json.dumps({**ASK, "stream": stream}).encode())
    strict = h11.Connection(h11.CLIENT)
    strict.send(h11.Request(method="POST", target="/", headers=[("host", "x")]))
    strict.send(h11.EndOfMessage())
    events: list[Any] = []
    while not events or not isinstance(events[-1], h11.EndOfMessage):
        event = strict.next_event()
        if event is h11.NEED_DATA:
            strict.receive_data(await reader.read(65536))
        else:
            events.append(event)
    writer.close()
    names = [name for name, _ in events[0].headers]
    assert (b"content-length" in names) != (b"transfer-encoding" in names)
    assert names.count(b"date") == 1
    assert names.count(b"server") <= 1
    assert not {b"keep-alive", b"x-foo", b"set-cookie"} & set(names)
    body = b"".join(bytes(e.data) for e in events if isinstance(e, h11.Data))
    assert body.endswith(b"[DONE]\n\n") if stream else json.loads(body)["choices"]


ACCEPTS = [None, "gzip", "gzip, deflate, br", "identity", "gzip;q=0, identity", "*"]
"""What a client may say that it takes; None: it says nothing."""


async def post_accepting(box: Box, accepts: str | None, body: dict[str, Any]) -> httpx.Response:
    request = box.http.build_request("POST", "/v1/chat/completions", json=body)
    del request.headers["accept-encoding"]
    if accepts is not None:
        request.headers["accept-encoding"] = accepts
    answer = await box.http.send(request, stream=True)
    raw = b"".join([piece async for piece in answer.aiter_raw()])
    # What came is what the headers say: plain, and of that length or of none.
    assert "content-encoding" not in answer.headers
    assert answer.headers.get("content-length") in (None, str(len(raw)))
    return httpx.Response(answer.status_code, headers=answer.headers, content=raw)


@pytest.mark.parametrize("accepts", ACCEPTS)
@pytest.mark.parametrize("status", [200, 400, 500])
async def test_g22_g23_compressed_answers_are_readable_by_every_client(
    box: Box, upstream: ScriptedServer, status: int, accepts: str | None
) -> None:
    value = chat_answer("x") if status == 200 else {"error": {"message": "because", "type": "t"}}
    upstream.reply = Reply(
        status=status,
        headers=[("content-type", "application/json"), ("content-encoding", "gzip")],
        parts=[gzip.compress(json.dumps(value).encode())],
        framing="length",
    )
    answer = await post_accepting(box, accepts, ASK)
    record = await box.record()
    assert answer.status_code == status
    if status == 200:
        assert answer.json()["choices"][0]["message"]["content"] == "x"
    else:
        assert answer.json() == value
        assert record.error == "because"


@pytest.mark.parametrize("accepts", ACCEPTS)
async def test_g22_a_compressed_stream_is_unpacked_on_its_way(
    box: Box, upstream: ScriptedServer, accepts: str | None
) -> None:
    packed = gzip.compress(b"".join(chat_chunks(["Hel", "lo"])))
    upstream.reply = Reply.stream(
        [packed[:30], packed[30:]],
        headers=[("content-type", "text/event-stream"), ("content-encoding", "gzip")],
    )
    answer = await post_accepting(box, accepts, {**ASK, "stream": True})
    assert answer.text.endswith("[DONE]\n\n")
    assert '"Hel"' in answer.text


async def test_g24_the_engine_gets_a_length_and_its_own_host(
    box: Box, upstream: ScriptedServer
) -> None:
    body = json.dumps(ASK).encode()

    async def in_pieces() -> AsyncIterator[bytes]:
        yield body[:10]
        yield body[10:]

    answer = await box.http.post("/v1/chat/completions", content=in_pieces())
    received = upstream.requests[0]
    assert answer.status_code == 200
    assert received.header("content-length") == str(len(received.body))
    assert received.header("transfer-encoding") is None
    assert received.header("host") == f"127.0.0.1:{upstream.port}"


async def test_g25_a_large_image_passes_and_a_larger_one_is_refused_by_name(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    image = "data:image/png;base64," + "A" * (12 << 20)
    content = [{"type": "image_url", "image_url": {"url": image}}]
    body = {"model": "up/m", "messages": [{"role": "user", "content": content}]}
    upstream.reply = Reply.json(chat_answer("a cat"))
    async with start_box(endpoint(upstream) + "[gateway]\nbody_limit_mib = 16\n") as box:
        answer = await box.http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200
        assert upstream.requests[0].json()["messages"] == body["messages"]
        content[0]["image_url"]["url"] += "A" * (6 << 20)  # type: ignore[index]
        answer = await box.http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 413
        assert "16 MiB" in answer.json()["error"]["message"]
        assert len(upstream.requests) == 1
    logged = b"".join(path.read_bytes() for path in box.folders.usage.glob("*"))
    assert len(logged) < 4096


def answering() -> list[asyncio.Task[Any]]:
    """The daemon's tasks that answer a request."""
    return [
        task
        for task in asyncio.all_tasks()
        if getattr(task.get_coro(), "__qualname__", "") == "Gateway.answer"
    ]


async def cancel_twice(tasks: list[asyncio.Task[Any]]) -> None:
    """With one turn of the loop between."""
    for task in tasks:
        assert task.cancel()
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()


async def test_g28_dropped_streams_use_up_no_connections(
    box: Box, upstream: ScriptedServer
) -> None:
    upstream.reply = lambda _: Reply.stream([sse(chunk({"content": "a"})), Wait()])
    body = json.dumps({**ASK, "stream": True}).encode()
    for batch in range(15):
        connections = [await raw_request(box, body) for _ in range(10)]
        for reader, _ in connections:
            await reader.readuntil(b'"a"')
        tasks = answering()
        assert (len(tasks), len(upstream.requests)) == (10, (batch + 1) * 10)
        await cancel_twice(tasks[:2])
        for _, writer in connections:
            writer.transport.abort()
        with anyio.fail_after(5):
            await asyncio.wait(tasks)
    await good_as_new(box, upstream)


async def test_g28_streams_cancelled_twice_before_their_first_chunk_are_given_back(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    """While they wait, a task beside them sends comments: the second time hits their tidying."""
    upstream.reply = lambda _: Reply(raw_head=b"", parts=[Wait()])
    body = json.dumps({**ASK, "stream": True}).encode()
    async with start_box(endpoint(upstream) + "[gateway]\nhold_s = 0\n") as box:
        for _ in range(3):
            connections = [await raw_request(box, body) for _ in range(10)]
            for reader, _ in connections:
                await reader.readuntil(b": keep-alive")
            tasks = answering()
            await cancel_twice(tasks)
            with anyio.fail_after(5):
                assert len((await asyncio.wait(tasks))[0]) == 10
            for _, writer in connections:
                writer.transport.abort()
        await good_as_new(box, upstream)


async def good_as_new(box: Box, upstream: ScriptedServer) -> None:
    """Nothing of what was dropped is left, and a connection serves again and again."""
    upstream.reply = Reply.json(chat_answer("x"))
    with anyio.fail_after(1):
        answer = await box.http.post("/v1/chat/completions", json=ASK)
    assert answer.status_code == 200
    with anyio.fail_after(5):
        while upstream.connections > 1:
            await anyio.sleep(0.01)
    for _ in range(3):
        assert (await box.http.post("/v1/chat/completions", json=ASK)).status_code == 200
    assert upstream.connections == 1
    assert (await box.http.get("/api/requests")).json()["live"] == []
    models = (await box.http.get("/api/models")).json()["models"]
    assert [model["in_flight"] for model in models] == [0]
    assert answering() == []


@pytest.mark.parametrize(
    ("status", "kind", "body", "told"),
    [
        (502, "text/html", b"<html><head><style>x{}</style></head>Bad <b>Gateway</b></html>", 502),
        (500, "text/plain", b"", 500),
        (200, "text/html", b"<h1>Welcome</h1>", 502),
        (429, "text/plain", b"slow down", 429),
    ],
)
async def test_g29_error_bodies_that_are_no_json_become_errors(
    box: Box, upstream: ScriptedServer, status: int, kind: str, body: bytes, told: int
) -> None:
    headers = [("content-type", kind)] + ([("retry-after", "7")] if status == 429 else [])
    upstream.reply = Reply(status=status, headers=headers, parts=[body], framing="length")
    answer = await box.http.post("/v1/chat/completions", json=ASK)
    assert answer.status_code == told
    error = answer.json()["error"]
    for word in (b"Bad Gateway", b"Welcome", b"slow down"):
        if word.split()[0] in body:
            assert word.decode() in error["message"]
    assert answer.headers.get("retry-after") == ("7" if status == 429 else None)
    upstream.reply = Reply.json(chat_answer("x"))
    assert (await box.http.post("/v1/chat/completions", json=ASK)).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"{bad",
        b"[]",
        b'{"messages": [{}]}',
        b'{"model": "up/m", "messages": "hi"}',
        b'{"model": "up/m", "messages": [{}], "x": "\xff"}',
        b"",
        b'"text"',
        b'{"model": 7, "messages": [{}]}',
        b'{"model": "up/m", "messages": [{}], "stream": "yes"}',
        b'{"model": "up/m"}',
        b'{"model": "up/m", "messages": [{}], "stream": true, "stream_options": 1}',
        b"[" * 100_000,
    ],
)
async def test_g30_a_bad_body_is_a_400_and_never_goes_upstream(
    box: Box, upstream: ScriptedServer, body: bytes
) -> None:
    answer = await box.http.post("/v1/chat/completions", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert upstream.requests == []


@pytest.mark.parametrize("messages", [b"[]", b"[ \n ]"])
async def test_no_messages_at_all_are_told(
    box: Box, upstream: ScriptedServer, messages: bytes
) -> None:
    body = b'{"model": "up/m", "messages": ' + messages + b"}"
    answer = await box.http.post("/v1/chat/completions", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "`messages` is empty"
    assert answer.json()["error"]["hint"]
    assert upstream.requests == []


NAMES = ["gemma:27b", "org/name", "org/name:Q4_K_M", "a b", "模型", "Big", "big", "100%", "a//b"]


async def test_g33_every_name_works_on_every_route(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    upstream.reply = lambda received: Reply.json(chat_answer("x", model=received.json()["model"]))
    async with start_box(endpoint(upstream, models=NAMES)) as box:
        listed = (await box.http.get("/v1/models")).json()["data"]
        assert {row["id"] for row in listed} == {f"up/{name}" for name in NAMES}
        for name in NAMES:
            model_id = f"up/{name}"
            answer = await box.http.post("/v1/chat/completions", json={**ASK, "model": model_id})
            assert answer.json()["model"] == model_id
            assert upstream.requests[-1].json()["model"] == name
            for path in (quote(model_id), quote(model_id, safe="")):
                one = await box.http.get(f"/v1/models/{path}")
                assert one.json()["id"] == model_id, path
            unload = await box.http.post(f"/api/models/unload/{quote(model_id)}")
            assert unload.json()["code"] == "unsupported"  # found, and served elsewhere
            assert (await box.record()).model == model_id
        unknown = await box.http.post("/v1/chat/completions", json={**ASK, "model": "up/nope"})
        assert unknown.status_code == 404
        assert unknown.json()["error"]["code"] == "model_not_found"
        assert (await box.http.get("/v1/models/up/nope")).status_code == 404
        assert len(upstream.requests) == len(NAMES)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "retry"),
    [(429, "7"), (429, "Wed, 21 Oct 2026 07:28:00 GMT"), (503, "120"), (500, None)],
)
async def test_g29_an_openai_shaped_error_keeps_body_status_and_retry_after(
    box: Box, upstream: ScriptedServer, status: int, retry: str | None, stream: bool
) -> None:
    value = {"error": {"message": "slow down", "type": "requests", "code": "rate_limit"}}
    headers = [("content-type", "application/json")] + ([("retry-after", retry)] if retry else [])
    body = json.dumps(value).encode()
    upstream.reply = Reply(status=status, headers=headers, parts=[body], framing="length")
    answer = await box.http.post("/v1/chat/completions", json={**ASK, "stream": stream})
    assert (answer.status_code, answer.json()) == (status, value)
    assert answer.headers.get("retry-after") == retry
    assert answer.headers["content-type"] == "application/json"
    assert str((await box.record()).error).startswith("slow down")


async def test_unknown_paths_and_methods_are_told_in_openai_shape(box: Box) -> None:
    missing = await box.http.post("/v1/nothing", json={})
    wrong = await box.http.get("/v1/chat/completions")
    assert (missing.status_code, wrong.status_code) == (404, 405)
    assert wrong.headers["allow"] == "POST"
    assert "hint" in missing.json()["error"]


async def test_an_endpoint_that_is_down_is_a_clear_502(start_box: StartBox) -> None:
    async with ScriptedServer() as server:
        config = endpoint(server)
    async with start_box(config) as box:
        answer = await box.http.post("/v1/chat/completions", json=ASK)
    assert answer.status_code == 502
    assert "up/m" in answer.json()["error"]["message"]


async def test_a_refused_provider_key_is_the_operators_matter(
    box: Box, upstream: ScriptedServer
) -> None:
    upstream.reply = Reply.json({"error": {"message": "bad key sk-123"}}, status=401)
    answer = await box.http.post("/v1/chat/completions", json=ASK)
    assert answer.status_code == 502
    assert "api_key" in answer.json()["error"]["hint"]


async def test_bytes_of_the_request_that_are_not_ours_arrive_untouched(
    box: Box, upstream: ScriptedServer
) -> None:
    odd = '{"model":"up/m","messages":[{"role":"user","content":"hi","x":1e400}],'
    odd += '"big":12345678901234567890123,"f":1.10}'
    await box.http.post("/v1/chat/completions", content=odd)
    sent = upstream.requests[0].body.decode()
    assert '"big":12345678901234567890123' in sent
    assert '"f":1.10' in sent
    assert "1e400" in sent
