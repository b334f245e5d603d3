"""The dialect of OpenAI's Responses: what a request must have, the answer's frame, errors."""

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec
from msgspec import Raw

from cerberus_core.errors import BadRequest, CerberusError, NotFound, Overloaded, Unsupported
from cerberus_core.gateway.answers import error_value
from cerberus_core.gateway.request import MAX_NAME

from .check import a_bool, a_list, a_name, an_object, as_json, wrong
from .responses_tools import Origin, read_tools

_encode = msgspec.json.Encoder().encode

KEEP_ALIVE = b": keep-alive\n\n"
"""For a stream of which nothing was sent yet; see `ResponsesStream.keep_alive`."""


@attrs.frozen(kw_only=True)
class Needs:
    """What the gateway must know of a request, whoever answers it."""

    model: str
    stream: bool


def parse(fields: Mapping[str, Any]) -> Needs:
    """Raises `BadRequest`, `Unsupported`."""
    model = fields.get("model")
    if model is None or model == "":
        raise BadRequest(
            "`model` is missing", hint="GET /v1/models lists the names.", code="model_missing"
        )
    if len(a_name(model, "model")) > MAX_NAME:
        raise BadRequest(f"`model` is longer than {MAX_NAME} characters")
    given = fields.get("input")
    if given is None:
        raise BadRequest("`input` is missing")
    if not isinstance(given, str | list):
        raise wrong("input", "a string or a list of items")
    if not given:
        raise BadRequest("`input` is empty", hint="Send a text or at least one item.")
    stream = fields.get("stream")
    return Needs(model=model, stream=stream is not None and a_bool(stream, "stream"))


def refuse_state(fields: Mapping[str, Any]) -> None:
    """Raises `Unsupported` (code `stateless`) where a request builds on what was kept.

    `store` that nobody set means true in OpenAI's API, and asks for nothing here.
    """
    for field in ("previous_response_id", "conversation", "prompt"):
        if fields.get(field) is not None:
            raise stateless(field, "is not kept here")
    if fields.get("background"):
        raise stateless("background", "would need answers to be kept, and they are not")
    if fields.get("store"):
        raise stateless("store", "can't be true: answers are not kept here")


def stateless(path: str, why: str) -> Unsupported:
    return Unsupported(
        f"`{path}` {why}",
        hint="Send the whole conversation in `input`, with `store` false or left out.",
        code="stateless",
    )


@attrs.frozen(kw_only=True)
class Asked:
    """What of the request its answer needs."""

    id: str
    """`resp_…`; the ids of the answer's items are made of it."""
    model: str
    created_at: int
    """Seconds since 1970."""
    summary: bool
    """Reasoning is shown as a summary: the client asked for one, and shows nothing else."""
    tools: Mapping[str, Origin]
    """What the client declared, by the name of its function at the backend."""
    echo: Mapping[str, Any] = attrs.field(repr=False)

    @classmethod
    def of(cls, fields: Mapping[str, Any], *, id: str, model: str, created_at: int) -> "Asked":
        """Raises what translating the request raises."""
        reasoning = fields.get("reasoning") or {}
        summary = an_object(reasoning, "reasoning").get("summary")
        return cls(
            id=id,
            model=model,
            created_at=created_at,
            summary=summary is not None and summary != "none",
            tools=read_tools(fields.get("tools")).origins,
            echo=_echo(fields),
        )

    def item_id(self, prefix: str, index: int) -> str:
        return f"{prefix}_{self.id.removeprefix('resp_')}_{index}"

    def response(self, status: str, output: list[Any], **more: Any) -> dict[str, Any]:
        """The `response` object."""
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self.model,
            "output": output,
            "usage": None,
            **self.echo,
            **more,
        }


_ECHO: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "user": None,
}


def _echo(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The wishes as the answer repeats them, three times in a stream: encoded once."""
    echo: dict[str, Any] = {
        key: Raw(as_json(default if fields.get(key) is None else fields[key]).encode())
        for key, default in _ECHO.items()
    }
    fixed = {
        "background": False,
        "previous_response_id": None,
        "store": False,
        "truncation": "disabled",
    }
    return {**echo, **fixed}


def usage_of(told: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A chat answer's `usage` in this dialect; None unless both sides are known.

    The dialect has no null for a count, and clients refuse one.
    """
    if told is None:
        return None
    prompt, completion = _count(told.get("prompt_tokens")), _count(told.get("completion_tokens"))
    if prompt is None or completion is None:
        return None
    total = _count(told.get("total_tokens"))
    return {
        "input_tokens": prompt,
        "input_tokens_details": {
            "cached_tokens": _detail(told, "prompt_tokens_details", "cached_tokens"),
            "cache_write_tokens": _detail(told, "prompt_tokens_details", "cache_write_tokens"),
        },
        "output_tokens": completion,
        "output_tokens_details": {
            "reasoning_tokens": _detail(told, "completion_tokens_details", "reasoning_tokens")
        },
        "total_tokens": prompt + completion if total is None else total,
    }


def _detail(told: Mapping[str, Any], group: str, key: str) -> int:
    details = told.get(group)
    value = details.get(key) if isinstance(details, Mapping) else None
    return _count(value) or 0


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None


# Errors.

_CODES = ("server_error", "rate_limit_exceeded", "invalid_prompt", "context_length_exceeded")


def error_body(error: CerberusError, request_id: str | None = None) -> bytes:
    """A refusal: OpenAI's shape."""
    return _encode({"error": _value(error, request_id)})


def error_event(
    error: CerberusError, request_id: str | None = None, *, sequence_number: int = 0
) -> bytes:
    """The end of a stream that nobody can tell more of; else `ResponsesStream.failed`.

    `error` stands in it a second time: the official client raises on that member.
    """
    value = _value(error, request_id)
    event = {
        "type": "error",
        "code": value["code"],
        "message": value["message"],
        "param": None,
        "sequence_number": sequence_number,
        "error": value,
    }
    return b"event: error\ndata: " + _encode(event) + b"\n\n"


def failure_of(error: CerberusError) -> dict[str, Any]:
    """The `error` of a response that failed; the dialect has few codes."""
    message = error.message if error.hint is None else f"{error.message} ({error.hint})"
    code = "server_error"
    if error.code in _CODES:
        code = error.code
    elif isinstance(error, Overloaded):
        code = "rate_limit_exceeded"
    elif isinstance(error, BadRequest | NotFound | Unsupported):
        code = "invalid_prompt"  # asking again doesn't help
    return {"code": code, "message": message}


def _value(error: CerberusError, request_id: str | None) -> dict[str, Any]:
    return error_value(error) if request_id is None else error_value(error, request_id=request_id)


def includes(fields: Mapping[str, Any], what: str) -> bool:
    """Whether `include` names it. Names of what never is in an answer ask for nothing."""
    given = fields.get("include")
    return given is not None and what in a_list(given, "include")
