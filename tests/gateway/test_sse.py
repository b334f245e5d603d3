"""Server-sent events: however the network cuts them, the events are the same. Pure."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerberus_core.gateway import sse
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import OpenAIStream, UpstreamError
from cerberus_core.testing.scripted import USAGE, chat_chunks, chunk

TEXT = "a\u2028b\x85c\u2029d\x0c 北京 é 😀"


def events(parts: list[bytes]) -> list[bytes | None]:
    splitter = sse.Splitter()
    whole = b"".join(splitter.feed(part) for part in parts)
    assert splitter.feed(b": end\n\n").strip(b"\n") == b": end", "nothing is held back"
    return [sse.data_of(block) for block in sse.blocks(whole)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_cut_offset_gives_the_same_events(end: bytes) -> None:
    lines = [
        b"\xef\xbb\xbf: hello",
        b"",
        b"event: message",
        b"id: 1",
        b"data: " + json.dumps(TEXT, ensure_ascii=False).encode(),
        b"",
        b"data:one",
        b"data: two",
        b"",
        b"",
    ]
    raw = end.join(lines) + end
    expected = events([raw])
    assert expected == [None, json.dumps(TEXT, ensure_ascii=False).encode(), b"one\ntwo"]
    for cut in range(len(raw) + 1):
        assert events([raw[:cut], raw[cut:]]) == expected
    assert events([bytes([byte]) for byte in raw]) == expected


@pytest.mark.parametrize(
    "event",
    [
        b"data: x\n\n",
        b"data:x\n\n",
        b"data: x\r\n\r\n",
        b"data: x\r\r",
        b": hi\nid: 7\nevent: message\ndata: x\n\n",
        b"data: [\ndata: ]\n\n",
        b"data: [\r\ndata: ]\r\n\r\n",
    ],
)
def test_g03_an_event_is_handed_out_as_soon_as_its_blank_line_has_come(event: bytes) -> None:
    for before in (b"", b": hello\n\n", event):
        splitter = sse.Splitter()
        splitter.feed(before)
        assert sse.blocks(splitter.feed(event)), "in one piece"
        splitter.feed(event[:-2])
        assert sse.blocks(splitter.feed(event[-2:])), "cut before its last bytes"
        out = [splitter.feed(bytes([byte])) for byte in event]
        assert sse.blocks(b"".join(out)), "byte by byte"
        assert sse.blocks(splitter.feed(event + b"data: torn")), "with the next one begun"


@given(st.data())
def test_mixed_line_ends_and_random_cuts(data: st.DataObject) -> None:
    ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
    texts = data.draw(st.lists(st.text(st.characters(exclude_characters="\r\n"), min_size=1)))
    # One event, one kind of line end: a CR before an LF would be a single end.
    raw = b": start\n\n"
    for text in texts:
        end = data.draw(ends)
        raw += b"data: " + text.encode("utf-8", "replace") + end * 2 + b": next\n\n"
    expected = events([raw])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    parts = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert events(parts) == expected


def test_an_event_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT", 100)
    splitter = sse.Splitter()
    for _ in range(14):
        splitter.feed(b"data: x")
    with pytest.raises(sse.TooLong):
        splitter.feed(b"data: x")


def test_a_long_event_in_small_pieces_takes_no_noticeable_time() -> None:
    splitter = sse.Splitter()
    began = time.process_time()
    for _ in range(75_000):
        assert splitter.feed(b"x" * 100) == b""
    assert len(splitter.feed(b"\n\n")) == 7_500_002
    assert time.process_time() - began < 2.0
    with pytest.raises(sse.TooLong):
        splitter.feed(b"x" * (sse.MAX_EVENT + 1))


def relayed(parts: list[bytes], **options: Any) -> tuple[bytes, Facts]:
    facts = Facts()
    stream = OpenAIStream(
        facts,
        public_model=options.get("public_model"),
        wants_usage=options.get("wants_usage", False),
        now=lambda: 1.0,
    )
    out = b"".join(stream.feed(part) for part in parts)
    assert stream.done or stream.finished
    return out + stream.tail({"request_id": "r"}), facts


@given(
    pieces=st.lists(st.text(max_size=8), max_size=6),
    cuts=st.lists(st.integers(0, 3000), max_size=8),
    public=st.sampled_from([None, "up/m"]),
    wants_usage=st.booleans(),
)
def test_any_chunking_of_a_stream_gives_the_same_answer(
    pieces: list[str], cuts: list[int], public: str | None, wants_usage: bool
) -> None:
    raw = b"".join(chat_chunks(pieces))
    options = {"public_model": public, "wants_usage": wants_usage}
    expected, facts = relayed([raw], **options)
    places = sorted(min(cut, len(raw)) for cut in cuts)
    parts = [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]
    out, facts_of_parts = relayed(parts, **options)

    def meaning(answer: bytes) -> list[Any]:
        datas = [sse.data_of(block) for block in sse.blocks(answer)]
        return [json.loads(d) if d and d != b"[DONE]" else d for d in datas]

    assert meaning(out) == meaning(expected)
    assert (facts_of_parts.completion_tokens, facts.completion_tokens) == (2, 2)
    names = {event["model"] for event in meaning(out) if isinstance(event, dict)}
    assert names == {public or "m"}
    usages = [e["usage"] for e in meaning(out) if isinstance(e, dict) and e.get("usage")]
    assert usages == ([{**USAGE, "cerberus": {"request_id": "r"}}] if wants_usage else [])


@given(st.lists(st.binary(max_size=60), max_size=10))
def test_no_bytes_make_the_relay_raise_anything_but_its_own_errors(parts: list[bytes]) -> None:
    stream = OpenAIStream(Facts(), public_model="x", wants_usage=True, now=lambda: 1.0)
    try:
        for part in parts:
            stream.feed(part)
        stream.tail({})
    except (UpstreamError, sse.TooLong):
        pass


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "index", "usage", "text", "error", "timings", "content",
                 "finish_reason", "model", "prompt_tokens", "prompt_tokens_details"]
            ),
            inner,
            max_size=5,
        ),
        max_leaves=15,
    )
)  # fmt: skip
def test_no_event_makes_the_relay_raise_anything_but_its_own_errors(event: Any) -> None:
    stream = OpenAIStream(Facts(), public_model="x", wants_usage=True, now=lambda: 1.0)
    data = b"data: " + json.dumps(event).encode() + b"\n\n"
    try:
        stream.feed(data)
        stream.feed(data)
        stream.tail({})
    except UpstreamError:
        pass


def test_content_that_looks_like_the_wire_stays_content() -> None:
    tricky = 'say "usage": {"model":"m"} data: [DONE]x "finish_reason":"stop" \\"error\\"'
    out, facts = relayed(chat_chunks(["a", tricky, tricky, "b"]), public_model="up/m")
    datas = [sse.data_of(block) for block in sse.blocks(out)]
    text = "".join(
        json.loads(d)["choices"][0]["delta"].get("content", "")
        for d in datas
        if d != b"[DONE]" and d
    )
    assert text == "a" + tricky * 2 + "b"
    assert facts.completion_tokens == 2


def test_the_public_name_is_put_in_however_the_engine_spaces_its_json() -> None:
    for separators in ((",", ":"), (", ", ": ")):
        parts = [
            b"data: " + json.dumps(event, separators=separators).encode() + b"\n\n"
            for event in [
                chunk({"content": "a"}),
                chunk({"content": "b", "x": {"model": "m"}}),
                chunk({"content": "c"}),
                chunk(finish="stop"),
            ]
        ]
        out, _ = relayed(parts, public_model="up/m")
        datas = [sse.data_of(block) for block in sse.blocks(out)]
        values = [json.loads(d) for d in datas if d and d != b"[DONE]"]
        assert [value["model"] for value in values] == ["up/m"] * 4
        assert values[1]["choices"][0]["delta"]["x"] == {"model": "m"}
