"""python -m benchmarks.wires: CPU of a streamed chunk in each wire, by itself.

Each stream gets single-token chunks one by one, as a paced stream has them, the way the
relay hands them in: the quick way first, the long way where that declines.
"""

import argparse
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import msgspec

from benchmarks import page
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import OpenAIStream
from cerberus_core.gateway.wires.messages_over_chat import Asked, MessagesOverChat
from cerberus_core.gateway.wires.messages_stream import MessagesStream

_encode = msgspec.json.encode

CHUNKS = 2000
ID = "chatcmpl-PWP5t8pLPFJ37aXpIWn70uz0hOTjxRtJ"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wires", description=__doc__)
    parser.add_argument("--runs", type=int, default=15, choices=range(1, 201), metavar="N")
    parser.add_argument("--write", action="store_true", help="keep the table in README.md")
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in WIRES}
    for _ in range(options.runs):  # in turns, so that a slow moment hits all alike
        for name, make in WIRES.items():
            times[name].append(_cpu_us(*make()))
    first = median(times[next(iter(WIRES))])
    rows = [
        [name, f"{median(all):.2f}", f"{min(all):.2f}", f"{median(all) / first:.2f}"]
        for name, all in times.items()
    ]
    table = page.table(["stream", "CPU µs/chunk", "least", "× pass-through"], rows)
    text = f"{table}\n\n{page.circumstances([])} Medians of {options.runs} runs of {CHUNKS} chunks."
    print(text)
    if options.write:
        page.write("wires", text)
    return 0


def _cpu_us(stream: Any, first: bytes, chunks: list[bytes]) -> float:
    """CPU microseconds for each chunk."""
    stream.feed(first)
    quick, passed, feed = stream.quick, stream.passed, stream.feed
    began = time.process_time()
    for chunk in chunks:
        if quick(chunk) is None:
            feed(chunk)
        else:
            passed()
    return (time.process_time() - began) / len(chunks) * 1e6


def _chat(delta: dict[str, Any]) -> bytes:
    """As llama.cpp sends it."""
    event = {
        "choices": [{"finish_reason": None, "index": 0, "delta": delta}],
        "created": 1796076281,
        "id": ID,
        "model": "SmolLM2-135M-Instruct",
        "system_fingerprint": "b0-unknown",
        "object": "chat.completion.chunk",
    }
    return b"data: " + _encode(event) + b"\n\n"


def _chat_texts(stream: Any) -> tuple[Any, bytes, list[bytes]]:
    chunks = [_chat({"content": f" word{number}"}) for number in range(CHUNKS)]
    return stream, chunks[0], chunks


def _chat_calls(stream: Any) -> tuple[Any, bytes, list[bytes]]:
    def piece(**function: str) -> bytes:
        return _chat({"tool_calls": [{"index": 0, "function": function}]})

    chunks = [piece(arguments=f" word{number}") for number in range(CHUNKS)]
    return stream, piece(name="write", arguments='{"text": "'), chunks


def _messages_texts(stream: Any) -> tuple[Any, bytes, list[bytes]]:
    chunks = [
        b"event: content_block_delta\ndata: "
        + _encode(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": f" word{number}"},
            }
        )
        + b"\n\n"
        for number in range(CHUNKS)
    ]
    return stream, chunks[0], chunks


def _openai() -> OpenAIStream:
    return OpenAIStream(Facts(), public_model=None, wants_usage=False, now=time.monotonic)


def _over_chat(**asked: Any) -> MessagesOverChat:
    return MessagesOverChat(Facts(), Asked(model="m", **asked), now=time.monotonic)


def _through() -> MessagesStream:
    return MessagesStream(Facts(), public_model=None, now=time.monotonic)


WIRES: dict[str, Callable[[], tuple[Any, bytes, list[bytes]]]] = {
    "Chat Completions, passed through": lambda: _chat_texts(_openai()),
    "Messages, passed through": lambda: _messages_texts(_through()),
    "Messages over Chat Completions": lambda: _chat_texts(_over_chat()),
    "the same, calls in its text are read": lambda: _chat_texts(
        _over_chat(text_calls=frozenset({"write"}))
    ),
    "the same, pieces of a tool call": lambda: _chat_calls(_over_chat()),
}


if __name__ == "__main__":
    sys.exit(main())
