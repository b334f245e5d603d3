"""python -m benchmarks.wires.translated: CPU for each chunk of a paced stream, by wire.

A chunk is one token, fed alone, as a network brings it. `untouched` is what the gateway
does where client and backend speak the same.
"""

import json
import time
from collections.abc import Callable
from typing import Any

from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import OpenAIStream
from cerberus_core.gateway.wires import chat_over_messages
from cerberus_core.gateway.wires.chat_stream import ChatStream
from cerberus_core.gateway.wires.responses import Asked
from cerberus_core.gateway.wires.responses_over_messages import ResponsesOverMessagesStream
from cerberus_core.gateway.wires.responses_stream import ResponsesStream

CHUNKS = 20_000
ROUNDS = 7
CHAT = {
    "id": "chatcmpl-0123456789",
    "object": "chat.completion.chunk",
    "created": 1_700_000_000,
    "model": "model",
    "choices": [{"index": 0, "delta": {"content": " token"}, "finish_reason": None}],
}
MESSAGES = {
    "type": "content_block_delta",
    "index": 0,
    "delta": {"type": "text_delta", "text": " token"},
}
CHAT_EVENT = b"data: " + json.dumps(CHAT, separators=(",", ":")).encode() + b"\n\n"
MESSAGES_EVENT = b"event: content_block_delta\ndata: " + json.dumps(MESSAGES).encode() + b"\n\n"


def main() -> None:
    wires: dict[str, tuple[Callable[[], Any], bytes]] = {
        "untouched": (_untouched, CHAT_EVENT),
        "responses over chat": (lambda: ResponsesStream(Facts(), _asked(), now=_now), CHAT_EVENT),
        "chat over messages": (lambda: ChatStream(Facts(), _chat(), now=_now), MESSAGES_EVENT),
        "responses over messages": (
            lambda: ResponsesOverMessagesStream(Facts(), _asked(), now=_now),
            MESSAGES_EVENT,
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in wires}
    for _ in range(ROUNDS):  # by turns, so that a busy machine is unfair to all of them
        for name, wire in wires.items():
            times[name].append(_measured(*wire))
    base = min(times["untouched"])
    print("| wire | µs of CPU per chunk | × untouched |\n|---|---|---|")
    for name, each in times.items():
        print(f"| {name} | {min(each):.2f} | {min(each) / base:.2f} |")


def _measured(make: Callable[[], Any], event: bytes) -> float:
    """Microseconds for each chunk."""
    stream = make()
    stream.feed(event)
    quick, passed = stream.quick, stream.passed
    began = time.process_time()
    for _ in range(CHUNKS):
        if quick(event) is None:
            raise SystemExit("the fast path does not take this event")
        passed()
    return (time.process_time() - began) / CHUNKS * 1e6


def _untouched() -> OpenAIStream:
    return OpenAIStream(Facts(), public_model=None, wants_usage=True, now=_now)


def _asked() -> Asked:
    return Asked.of({}, id="resp_0123456789", model="model", created_at=1)


def _chat() -> chat_over_messages.Asked:
    return chat_over_messages.Asked(id="chatcmpl-0123456789", model="model", created=1)


_now = time.monotonic

if __name__ == "__main__":
    main()
