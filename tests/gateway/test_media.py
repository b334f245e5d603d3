"""Audio and images, through a whole daemon, with OpenAI's package."""

import io
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from cerberus_core.testing import Received, Reply, ScriptedServer
from cerberus_core.testing.scripted import CLOSE, RESET, Wait
from tests.conftest import Box, StartBox, endpoint
from tests.gateway.test_wires_http import OPENAI, openai_client

pytestmark = [pytest.mark.anyio, OPENAI]

WAV = b"RIFF\x00\xff\r\n--x\r\n\r\n" + bytes(range(256)) * 40
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
FILE = {"file": ("a.wav", WAV)}
WIRES = 'wires = ["speech", "transcriptions", "translations", "images", "image_edits"]\n'


@pytest.fixture
async def box(start_box: StartBox, upstream: ScriptedServer) -> AsyncIterator[Box]:
    async with start_box(endpoint(upstream, models=["far/m"], more=WIRES)) as box:
        yield box


@pytest.mark.wire("transcriptions", "a text of a file")
@pytest.mark.wire("translations", "a text of a file")
async def test_a_file_becomes_a_text(box: Box, upstream: ScriptedServer) -> None:
    usage = {"type": "tokens", "input_tokens": 14, "output_tokens": 3, "total_tokens": 17}
    upstream.reply = Reply.json({"text": "Hello.", "usage": usage, "own": 1})
    async with openai_client(box) as client:
        told = await client.audio.transcriptions.create(
            model="up/far/m", file=("a ü.wav", WAV), prompt="Names: Ü"
        )
    assert told.text == "Hello."
    form: Any = {"data": {"model": "up/far/m"}, "files": FILE}
    answer = await box.http.post("/v1/audio/translations", **form)
    assert answer.json()["text"] == "Hello."
    first = upstream.requests[0]
    assert first.path == "/v1/audio/transcriptions"
    assert WAV in first.body, "not a byte of the file is another"
    assert b"up/far/m" not in first.body
    assert b'name="model"\r\n\r\nfar/m\r\n' in first.body
    assert "Names: Ü".encode() in first.body
    assert (first.header("content-type") or "").startswith("multipart/form-data; boundary=")
    assert box.token not in str(first.headers)
    record = await box.record()
    assert (record.path, record.model, record.status) == ("/v1/audio/translations", "up/far/m", 200)
    assert (record.prompt_tokens, record.completion_tokens) == (14, 3)


async def test_a_text_that_is_no_json_passes(box: Box, upstream: ScriptedServer) -> None:
    subtitles = b"1\n00:00 --> 00:01\nHello.\n"
    upstream.reply = Reply(headers=[("content-type", "text/plain")], parts=[subtitles])
    files = {"file": ("a.wav", WAV)}
    form = {"model": "up/far/m", "response_format": "srt"}
    answer = await box.http.post("/v1/audio/transcriptions", data=form, files=files)
    assert (answer.content, answer.headers["content-type"]) == (subtitles, "text/plain")


@pytest.mark.wire("transcriptions", "a stream")
async def test_a_stream_of_a_text_passes_as_it_comes(box: Box, upstream: ScriptedServer) -> None:
    event = b'data: {"type": "transcript.text.delta", "delta": "Hel"}\n\n'
    done = b'data: {"type": "transcript.text.done", "text": "Hello"}\n\n'
    gate = Wait()
    upstream.reply = Reply.stream([event, gate, done])
    async with openai_client(box) as client:
        stream = await client.audio.transcriptions.create(
            model="up/far/m", file=("a.wav", WAV), stream=True
        )
        kinds = []
        async for told in stream:
            kinds.append(told.type)
            gate.go()
    assert kinds == ["transcript.text.delta", "transcript.text.done"]


@pytest.mark.wire("speech", "sound of a text")
async def test_speech_comes_as_it_is_made(box: Box, upstream: ScriptedServer) -> None:
    gate = Wait()
    kind = [("content-type", "audio/mpeg")]
    upstream.reply = Reply(headers=kind, parts=[WAV[:100], gate, WAV[100:]])
    asked = {"model": "up/far/m", "input": "Hi.", "voice": "alloy", "speed": 1.10}
    async with box.http.stream("POST", "/v1/audio/speech", json=asked) as answer:
        assert answer.headers["content-type"] == "audio/mpeg"
        pieces = answer.aiter_raw()
        assert await anext(pieces) == WAV[:100], "before the rest was made"
        gate.go()
        assert b"".join([piece async for piece in pieces]) == WAV[100:]
    assert upstream.requests[0].json() == {**asked, "model": "far/m"}
    assert (await box.record()).ttft_ms is not None


@pytest.mark.parametrize("end", [RESET, CLOSE])
async def test_sound_that_breaks_off_is_cut_and_never_taken_for_whole(
    box: Box, upstream: ScriptedServer, end: object
) -> None:
    upstream.reply = Reply(headers=[("content-type", "audio/mpeg")], parts=[WAV, end])
    with pytest.raises(httpx.RemoteProtocolError):
        await box.http.post("/v1/audio/speech", json={"model": "up/far/m", "input": "Hi."})
    record = await box.record()
    assert "broke off" in (record.error or "")


@pytest.mark.wire("images", "a picture of words")
@pytest.mark.wire("images", "a picture of a picture")
async def test_pictures(box: Box, upstream: ScriptedServer) -> None:
    upstream.reply = Reply.json({"created": 1, "data": [{"b64_json": "AAAA"}]})
    async with openai_client(box) as client:
        made = await client.images.generate(model="up/far/m", prompt="A cat", n=1)
        pictures = [("a.png", io.BytesIO(PNG)), ("b.png", io.BytesIO(PNG))]
        edited = await client.images.edit(model="up/far/m", image=pictures, prompt="A dog")
    for told in (made, edited):
        assert [each.b64_json for each in told.data or []] == ["AAAA"]
    assert upstream.requests[0].json() == {"model": "far/m", "prompt": "A cat", "n": 1}
    assert upstream.requests[1].body.count(PNG) == 2


@pytest.mark.wire("speech", "refused where it is not spoken")
@pytest.mark.wire("transcriptions", "refused where it is not spoken")
@pytest.mark.wire("images", "refused where it is not spoken")
async def test_what_is_not_spoken_is_refused(start_box: StartBox, upstream: ScriptedServer) -> None:
    async with start_box(endpoint(upstream)) as box, openai_client(box) as client:
        with pytest.raises(openai.BadRequestError, match="can't be asked at /v1/audio/speech"):
            await client.audio.speech.create(model="up/m", input="a", voice="alloy")
        with pytest.raises(openai.BadRequestError, match="can't be asked at"):
            await client.audio.transcriptions.create(model="up/m", file=("a.wav", WAV))
        with pytest.raises(openai.BadRequestError, match="can't be asked at"):
            await client.images.generate(model="up/m", prompt="a")
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("sent", "word"),
    [
        ({"json": {"model": "up/far/m"}}, "takes a form"),
        ({"data": {"model": "up/far/m"}, "files": {"other": ("a", b"")}}, "`file` is missing"),
        ({"files": FILE}, "`model` is missing"),
        ({"data": {"model": "none"}, "files": FILE}, "no model named"),
        ({"content": b"--x\r\nA: b\r\n\r\nc",
          "headers": {"content-type": "multipart/form-data; boundary=x"}}, "broken"),
        ({"content": b"", "headers": {"content-type": "multipart/form-data; boundary=x"}},
         "broken"),
    ],
)  # fmt: skip
async def test_g30_a_mistake_in_a_form_is_told(
    box: Box, upstream: ScriptedServer, sent: dict[str, Any], word: str
) -> None:
    answer = await box.http.post("/v1/audio/transcriptions", **sent)
    assert answer.status_code in (400, 404)
    assert word in answer.json()["error"]["message"]
    assert upstream.requests == []


async def test_refusals_keep_their_words_and_breaks_are_errors(
    box: Box, upstream: ScriptedServer
) -> None:
    asked = {"model": "up/far/m", "prompt": "?"}
    upstream.reply = Reply.json({"error": {"message": "slow down"}}, status=429)
    answer = await box.http.post("/v1/images/generations", json=asked)
    assert (answer.status_code, answer.json()["error"]["message"]) == (429, "slow down")
    kind = [("content-type", "application/json")]
    upstream.reply = Reply(headers=kind, parts=[b'{"data": [', RESET])
    answer = await box.http.post("/v1/images/generations", json=asked)
    assert (answer.status_code, "broke off" in answer.text) == (502, True)


async def test_a_keys_limits_hold_and_large_files_have_one(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    config = endpoint(upstream, models=["m"], more=WIRES) + "[gateway]\nbody_limit_mib = 1\n"
    upstream.reply = Reply.json({"text": "Hi"})
    async with start_box(config) as box:
        made = await box.http.post("/api/keys", json={"name": "k", "models": ["x/*"]})
        form: Any = {"data": {"model": "up/m"}, "files": FILE}
        bearer = {"authorization": f"Bearer {made.json()['token']}"}
        answer = await box.http.post("/v1/audio/transcriptions", headers=bearer, **form)
        assert answer.status_code == 403
        large: Any = {"data": {"model": "up/m"}, "files": {"file": ("a", bytes(2 << 20))}}
        answer = await box.http.post("/v1/audio/transcriptions", **large)
        assert answer.status_code == 413
        assert upstream.requests == []
        assert (await box.http.post("/v1/audio/transcriptions", **form)).status_code == 200


async def test_who_hangs_up_is_heard(box: Box, upstream: ScriptedServer) -> None:
    def forever(_: Received) -> Reply:
        return Reply(headers=[("content-type", "audio/mpeg")], parts=[WAV, Wait()])

    upstream.reply = forever
    asked = {"model": "up/far/m", "input": "Hi."}
    async with box.http.stream("POST", "/v1/audio/speech", json=asked) as answer:
        await anext(answer.aiter_raw())
    await upstream.requests[0].closed.wait()
    assert (await box.record()).status == 499
