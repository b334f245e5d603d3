"""Which requests go straight to the gateway, and that the others are answered alike."""

import asyncio
import json
from typing import Any

import pytest

from cerberus_core.api import protocol
from cerberus_core.api.protocol import STRAIGHT_BODY, Protocol
from cerberus_core.gateway import Gateway
from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import chat_answer
from tests.api.test_protocol import ASK, connect, read_answers, request_bytes
from tests.conftest import Box

pytestmark = pytest.mark.anyio


@pytest.fixture
def went(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The way of each request."""
    ways: list[str] = []
    start, call = Protocol._start, Gateway.__call__

    def straight(self: Protocol, *arguments: Any) -> None:
        ways.append("straight")
        start(self, *arguments)

    async def asgi(self: Gateway, *arguments: Any) -> None:
        ways.append("asgi")
        await call(self, *arguments)

    monkeypatch.setattr(Protocol, "_start", straight)
    monkeypatch.setattr(Gateway, "__call__", asgi)
    return ways


async def ask(box: Box, *requests: bytes) -> list[Any]:
    reader, writer = await connect(box)
    writer.write(b"".join(requests))
    answers = await read_answers(reader, ["POST"] * len(requests))
    writer.close()
    return answers


async def test_the_ordinary_request_goes_straight(
    box: Box, upstream: ScriptedServer, went: list[str]
) -> None:
    upstream.reply = Reply.json(chat_answer("x"))
    ((status, headers, body),) = await ask(box, request_bytes(box, ASK))
    assert (status, went) == (200, ["straight"])
    assert json.loads(body)["choices"][0]["message"]["content"] == "x"
    assert headers[b"x-request-id"].decode() == (await box.record()).id


def chunked(box: Box) -> bytes:
    head, _, body = request_bytes(box, ASK).partition(b"\r\n\r\n")
    head = head.partition(b"content-length")[0] + b"transfer-encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def with_a_query(box: Box) -> bytes:
    return request_bytes(box, ASK, path="/v1/chat/completions?x=1")


def large(box: Box) -> bytes:
    return request_bytes(box, {**ASK, "user": "u" * STRAIGHT_BODY})


@pytest.mark.parametrize("make", [chunked, with_a_query, large])
async def test_an_odd_one_takes_the_long_way_and_is_answered_alike(
    box: Box, upstream: ScriptedServer, went: list[str], make: Any
) -> None:
    upstream.reply = Reply.json(chat_answer("x"))
    ((status, _, body),) = await ask(box, make(box))
    assert (status, went) == (200, ["asgi"])
    assert json.loads(body)["choices"][0]["message"]["content"] == "x"
    assert (await box.record()).status == 200


async def test_a_stranger_goes_no_way(box: Box, went: list[str]) -> None:
    request = request_bytes(box, ASK)
    token = box.token.encode()
    for wrong in (request.replace(token, b"no"), request.replace(b"127.0.0.1\r", b"evil.test\r")):
        ((status, _, body),) = await ask(box, wrong)
        assert status in (401, 403)
        assert json.loads(body)["error"]["code"] in ("unauthenticated", "foreign_host")
    assert went == []


async def test_a_fault_in_the_gateway_is_a_500_and_the_next_request_is_answered(
    box: Box, upstream: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Gateway.answer

    async def faulty(*_: Any) -> None:
        raise RuntimeError("a bug")

    told: list[Any] = []
    monkeypatch.setattr(protocol._log, "error", lambda *_, exc_info: told.append(exc_info))
    monkeypatch.setattr(Gateway, "answer", faulty)
    reader, writer = await connect(box)
    writer.write(request_bytes(box, ASK))
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"connection: close" in answer
    assert [str(error) for error in told] == ["a bug"]
    monkeypatch.setattr(Gateway, "answer", real)
    ((status, _, _),) = await ask(box, request_bytes(box, ASK))
    assert status == 200


OFFER = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"


def offering(request: bytes) -> bytes:
    return request.replace(b"authorization:", OFFER + b"authorization:")


@pytest.mark.parametrize("cut", [None, 1, 150, 320, -5])
async def test_an_offer_to_upgrade_is_passed_over_and_the_body_read(
    box: Box, upstream: ScriptedServer, cut: int | None
) -> None:
    # What `curl --http2` and Java's client send before they know what we speak.
    upstream.reply = Reply.json(chat_answer("x"))
    data = offering(request_bytes(box, ASK)) + request_bytes(box, ASK)
    reader, writer = await connect(box)
    for piece in (data[:cut], data[cut:] if cut is not None else b""):
        writer.write(piece)
        await asyncio.sleep(0.02)
    answers = await read_answers(reader, ["POST", "POST"])
    writer.close()
    assert [(status, b"choices" in body) for status, _, body in answers] == [(200, True)] * 2


async def test_an_offer_to_upgrade_opens_no_other_door(box: Box, went: list[str]) -> None:
    request = offering(request_bytes(box, ASK)).replace(box.token.encode(), b"no")
    ((status, _, _),) = await ask(box, request)
    assert (status, went) == (401, [])


@pytest.mark.parametrize("count", [9, 10, 40])
async def test_all_that_was_sent_ahead_is_answered_in_order(
    box: Box, upstream: ScriptedServer, count: int
) -> None:
    upstream.reply = lambda received: Reply.json(chat_answer(received.json()["user"]))
    requests = [request_bytes(box, {**ASK, "user": str(n)}) for n in range(count)]
    answers = await ask(box, *requests)
    texts = [json.loads(body)["choices"][0]["message"]["content"] for _, _, body in answers]
    assert texts == [str(n) for n in range(count)]
