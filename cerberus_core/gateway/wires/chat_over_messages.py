"""Clients that speak Chat Completions, backends that speak Anthropic Messages. Pure.

* Messages needs a limit of tokens: `DEFAULT_MAX_TOKENS` where the client sets none.
* `reasoning_effort` becomes a budget of thinking, unless a call is forced or the last
  calls came without their thinking: Messages refuses both. Thinking comes back as
  `reasoning_content`; the signed blocks too, as `thinking_blocks`, for clients that
  give back what they don't know.
* A JSON schema goes to `output_config.format`; a mere `json_object` is asked for in words.
* Penalties, `seed`, `logit_bias` and what only OpenAI's servers know are dropped.
"""

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec

from cerberus_core.errors import BadRequest, Unsupported, UpstreamFailed

from .check import (
    a_bool,
    a_list,
    a_name,
    a_natural,
    a_number,
    a_text,
    an_object,
    wrong,
)
from .refusals import no_message
from .turns import forgets_thinking, turns

_encode = msgspec.json.Encoder().encode

DEFAULT_MAX_TOKENS = 8192
BUDGETS = {"low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 32768}
"""Tokens of thinking for each `reasoning_effort`; others mean none."""
LEAST_BUDGET = 1024

_KEPT = ("cache_control", "context_management", "output_config", "thinking", "top_k")
"""Fields of Messages that clients send through Chat Completions."""
_JSON = "Answer with one JSON object and nothing else."


def request(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The Messages request. Raises `BadRequest`, `Unsupported`."""
    _refuse(fields)
    messages = fields.get("messages")
    if not a_list(messages, "messages"):
        raise BadRequest("`messages` is empty", hint="Send at least one message.")
    system, out_messages = turns(messages if isinstance(messages, list) else [])
    if not out_messages:
        raise BadRequest("`messages` holds no text", hint="Send at least one that isn't empty.")
    out: dict[str, Any] = {key: fields[key] for key in _KEPT if fields.get(key) is not None}
    out["model"] = fields.get("model")
    out["messages"] = out_messages
    if fields.get("stream") is not None:
        out["stream"] = a_bool(fields["stream"], "stream")
    limit = _limit(fields)
    out["max_tokens"] = DEFAULT_MAX_TOKENS if limit is None else limit
    _sampling(fields, out)
    _tools(fields, out)
    system += _form(fields, out)
    if system:
        out["system"] = _plain(system)
    user = fields.get("user") or fields.get("safety_identifier")
    if user is not None:
        out["metadata"] = {"user_id": a_text(user, "user")}
    _think(fields, out, limit)
    return out


def _refuse(fields: Mapping[str, Any]) -> None:
    if fields.get("n") is not None and a_natural(fields["n"], "n") > 1:
        raise _unsupported("n", "more than one answer")
    if fields.get("logprobs") or fields.get("top_logprobs"):
        raise _unsupported("logprobs", "the odds of its tokens")
    modalities = fields.get("modalities")
    if fields.get("audio") is not None or (isinstance(modalities, list) and "audio" in modalities):
        raise _unsupported("audio", "speech")
    if fields.get("functions") or fields.get("function_call"):
        raise Unsupported(
            "`functions` and `function_call` are not translated",
            hint="Send `tools` and `tool_choice`.",
        )
    if fields.get("web_search_options") is not None:
        raise _unsupported("web_search_options", "a search")


def _unsupported(field: str, what: str) -> Unsupported:
    return Unsupported(
        f"`{field}` asks for {what}, which this model's backend can't give",
        hint="Leave it out, or ask another model.",
    )


def _limit(fields: Mapping[str, Any]) -> int | None:
    for key in ("max_completion_tokens", "max_tokens"):
        if fields.get(key) is not None:
            limit = a_natural(fields[key], key)
            if limit < 1:
                raise wrong(key, "1 or more")
            return limit
    return None


def _sampling(fields: Mapping[str, Any], out: dict[str, Any]) -> None:
    if fields.get("temperature") is not None:
        out["temperature"] = min(1, a_number(fields["temperature"], "temperature"))
    if fields.get("top_p") is not None:
        out["top_p"] = a_number(fields["top_p"], "top_p")
    stop = fields.get("stop")
    if isinstance(stop, str):
        stop = [stop]
    if stop:
        out["stop_sequences"] = [
            a_text(word, f"stop[{index}]") for index, word in enumerate(a_list(stop, "stop"))
        ]


def _tools(fields: Mapping[str, Any], out: dict[str, Any]) -> None:
    given = fields.get("tools")
    tools = [
        _tool(tool, f"tools[{index}]")
        for index, tool in enumerate([] if given is None else a_list(given, "tools"))
    ]
    if not tools:
        return
    choice = _choice(fields.get("tool_choice"), tools)
    if fields.get("parallel_tool_calls") is not None:
        parallel = a_bool(fields["parallel_tool_calls"], "parallel_tool_calls")
        if not parallel and (choice is None or choice["type"] != "none"):
            choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    out["tools"] = tools
    if choice is not None:
        out["tool_choice"] = choice


def _tool(value: Any, path: str) -> dict[str, Any]:
    tool = an_object(value, path)
    if tool.get("type", "function") != "function":
        raise Unsupported(
            f"`{path}` is of the type {tool.get('type')!r}; only functions are translated",
            code="unsupported_tool",
        )
    function = an_object(tool.get("function"), f"{path}.function")
    schema = function.get("parameters")
    out: dict[str, Any] = {"name": a_name(function.get("name"), f"{path}.function.name")}
    if function.get("description") is not None:
        out["description"] = a_text(function["description"], f"{path}.function.description")
    if schema is not None:
        schema = an_object(schema, f"{path}.function.parameters")
    out["input_schema"] = {"type": "object", **(schema or {"properties": {}})}
    if function.get("strict") is True:
        out["strict"] = True
    if isinstance(tool.get("cache_control"), Mapping):
        out["cache_control"] = tool["cache_control"]
    return out


def _choice(value: Any, tools: list[dict[str, Any]]) -> dict[str, Any] | None:
    """`tool_choice`; takes tools that aren't allowed out of `tools`."""
    if value is None:
        return None
    kinds = {"auto": "auto", "none": "none", "required": "any"}
    if isinstance(value, str):
        if value not in kinds:
            raise wrong("tool_choice", '"auto", "none", "required" or an object')
        return {"type": kinds[value]}
    choice = an_object(value, "tool_choice")
    if choice.get("type") == "function":
        return {"type": "tool", "name": _chosen(choice, "tool_choice")}
    if choice.get("type") == "allowed_tools":
        path = "tool_choice.allowed_tools"
        allowed = an_object(choice.get("allowed_tools"), path)
        mode = allowed.get("mode")
        if mode not in ("auto", "required"):
            raise wrong(f"{path}.mode", '"auto" or "required"')
        names = {
            _chosen(an_object(each, f"{path}.tools[{index}]"), f"{path}.tools[{index}]")
            for index, each in enumerate(a_list(allowed.get("tools"), f"{path}.tools"))
        }
        tools[:] = [tool for tool in tools if tool["name"] in names]
        if not tools:
            raise wrong(f"{path}.tools", "tools that are in `tools`")
        return {"type": kinds[mode]}
    raise wrong("tool_choice.type", '"function" or "allowed_tools"')


def _chosen(choice: Mapping[str, Any], path: str) -> str:
    function = an_object(choice.get("function"), f"{path}.function")
    return a_name(function.get("name"), f"{path}.function.name")


def _form(fields: Mapping[str, Any], out: dict[str, Any]) -> list[dict[str, Any]]:
    """`response_format`; what must be said in words."""
    if fields.get("response_format") is None:
        return []
    form = an_object(fields["response_format"], "response_format")
    kind = form.get("type")
    if kind == "json_object":
        return [{"type": "text", "text": _JSON}]
    if kind == "json_schema":
        path = "response_format.json_schema"
        schema = an_object(an_object(form.get("json_schema"), path).get("schema"), f"{path}.schema")
        known = out.get("output_config")
        config = {} if known is None else an_object(known, "output_config")
        out["output_config"] = {**config, "format": {"type": "json_schema", "schema": schema}}
    elif kind != "text":
        raise wrong("response_format.type", '"text", "json_object" or "json_schema"')
    return []


def _plain(system: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """One string where all of it is text without marks."""
    if all(set(block) == {"type", "text"} for block in system):
        return "\n\n".join(block["text"] for block in system)
    return system


def _think(fields: Mapping[str, Any], out: dict[str, Any], limit: int | None) -> None:
    effort = fields.get("reasoning_effort")
    if effort is None or "thinking" in out:
        return
    budget = BUDGETS.get(a_text(effort, "reasoning_effort"), 0)
    if limit is not None:
        budget = min(budget, limit // 2)
    forced = out.get("tool_choice", {}).get("type") in ("any", "tool")
    if budget < LEAST_BUDGET or forced or forgets_thinking(out["messages"]):
        return
    out["thinking"] = {"type": "enabled", "budget_tokens": budget}
    if limit is None:
        out["max_tokens"] = DEFAULT_MAX_TOKENS + budget
    for key in ("temperature", "top_p", "top_k"):  # refused next to thinking
        out.pop(key, None)


# Answers.


@attrs.frozen(kw_only=True)
class Asked:
    """What of the request its answer needs."""

    id: str
    """`chatcmpl-…`"""
    model: str
    created: int
    """Seconds since 1970."""
    wants_usage: bool = False
    """Of a stream: `stream_options.include_usage`."""


FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def answer(body: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """The chat answer. Raises `UpstreamFailed`."""
    content = body.get("content")
    if not isinstance(content, list):
        raise no_message(body)
    texts: list[str] = []
    thoughts: list[str] = []
    thinking: list[Any] = []
    calls: list[dict[str, Any]] = []
    for block in content:
        if not isinstance(block, Mapping):
            continue
        kind = block.get("type")
        if kind == "text" and isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif kind in ("thinking", "redacted_thinking"):
            thinking.append(block)
            if isinstance(block.get("thinking"), str):
                thoughts.append(block["thinking"])
        elif kind == "tool_use":
            calls.append(_call(block, len(calls), asked))
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if any(thoughts):
        message["reasoning_content"] = "\n\n".join(thoughts)
    if any(is_signed(block) for block in thinking):
        message["thinking_blocks"] = thinking
    if calls:
        message["content"] = message["content"] or None
        message["tool_calls"] = calls
    reason = body.get("stop_reason")
    usage = body.get("usage")
    return {
        "id": asked.id,
        "object": "chat.completion",
        "created": asked.created,
        "model": asked.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": finish_of(reason, bool(calls)),
            }
        ],
        "usage": usage_of(usage if isinstance(usage, Mapping) else {}),
    }


def finish_of(reason: Any, has_calls: bool) -> str:
    if isinstance(reason, str) and reason in FINISH:
        return FINISH[reason]
    return "tool_calls" if has_calls else "stop"


def is_signed(block: Mapping[str, Any]) -> bool:
    return bool(block.get("signature") or block.get("data"))


def usage_of(told: Mapping[str, Any]) -> dict[str, Any]:
    """In OpenAI's shape; what Messages counts apart (caches) is part of the prompt there."""
    read = _count(told, "cache_read_input_tokens")
    made = _count(told, "cache_creation_input_tokens")
    fresh = _count(told, "input_tokens")
    output = _count(told, "output_tokens")
    prompt = None if fresh is None else fresh + (read or 0) + (made or 0)
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": None if prompt is None or output is None else prompt + output,
    }
    if read is not None or made is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": read or 0}
        if made:
            usage["prompt_tokens_details"]["cache_write_tokens"] = made
    return usage


def _count(told: Mapping[str, Any], key: str) -> int | None:
    value = told.get(key)
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None


def _call(block: Mapping[str, Any], index: int, asked: Asked) -> dict[str, Any]:
    id, name = block.get("id"), block.get("name")
    try:
        told = _encode(block.get("input") or {}).decode()
    except RecursionError:
        raise UpstreamFailed("The endpoint's answer is nested too deeply") from None
    return {
        "id": id if isinstance(id, str) and id else f"call_{asked.id}_{index}",
        "type": "function",
        "function": {"name": name if isinstance(name, str) else "", "arguments": told},
    }
