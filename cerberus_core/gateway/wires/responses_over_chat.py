"""Clients that speak Responses, backends that speak Chat Completions: requests, whole answers.

Stateless: what builds on an answer that was kept is refused. Streams are in
`responses_stream.py`.
"""

from collections.abc import Mapping
from typing import Any

from cerberus_core.errors import Unsupported, UpstreamFailed
from cerberus_core.gateway.stream import UpstreamError
from cerberus_core.gateway.upstream_errors import message_of

from . import arguments
from .check import (
    a_bool,
    a_list,
    a_name,
    a_natural,
    a_number,
    a_text,
    an_object,
    as_json,
    wrong,
)
from .conversation import Content, Conversation, joined
from .refusals import no_message
from .responses import Asked, includes, parse, refuse_state, stateless, usage_of
from .responses_events import Writer
from .responses_tools import LOCAL_SHELL, name_in_chat, read_choice, read_tools

_OURS = frozenset(
    {
        *("access_programs", "background", "background_options", "client_metadata"),
        *("context_management", "conversation", "image", "include", "input", "instructions"),
        *("max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls"),
        *("previous_response_id", "prompt", "reasoning", "store", "stream_options", "text"),
        *("tool_choice", "tools", "top_logprobs", "truncation"),
    }
)
"""Fields that Chat Completions doesn't know or has in another form; all others are kept."""


def request(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The chat request. Raises `BadRequest`, `Unsupported`.

    `truncation: auto` is taken and not followed: what is too long, the engine refuses.
    """
    needs = parse(fields)
    refuse_state(fields)
    out = {key: value for key, value in fields.items() if key not in _OURS and value is not None}
    out["messages"] = _messages(fields)
    if needs.stream:
        out["stream_options"] = {"include_usage": True}
    limit = fields.get("max_output_tokens")
    if limit is not None:
        out["max_tokens"] = a_natural(limit, "max_output_tokens")
    for key in ("temperature", "top_p"):
        if key in out:
            a_number(out[key], key)
    _tools(fields, out)
    _text(fields, out)
    _logprobs(fields, out)
    reasoning = fields.get("reasoning")
    if reasoning is not None:
        effort = an_object(reasoning, "reasoning").get("effort")
        if effort is not None:
            out["reasoning_effort"] = a_text(effort, "reasoning.effort")
    return out


def answer(body: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """The response. Raises `UpstreamFailed`."""
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        raise no_message(body)
    writer = Writer(asked)
    try:
        _tell(writer, choice, message)
    except UpstreamError as error:
        raise UpstreamFailed(message_of(error.payload)) from None
    usage = body.get("usage")
    return writer.response(usage_of(usage if isinstance(usage, Mapping) else None))


def _tell(writer: Writer, choice: Mapping[str, Any], message: Mapping[str, Any]) -> None:
    for key in ("reasoning_content", "reasoning"):
        if isinstance(message.get(key), str) and message[key]:
            writer.reasoning(_raw(message[key]))
            break
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        content = "".join(part for part in parts if isinstance(part, str))
    if isinstance(content, str) and content:
        logprobs = choice.get("logprobs")
        writer.text(_raw(content), logprobs if isinstance(logprobs, Mapping) else None)
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        writer.refusal(_raw(message["refusal"]))
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, Mapping):
            writer.call_delta({**call, "index": None, "whole": True})
    reason = choice.get("finish_reason")
    writer.finish(reason if isinstance(reason, str) else "stop")


def _raw(text: str) -> bytes:
    return as_json(text).encode()


# The conversation.


def _messages(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    conversation = Conversation()
    instructions = fields.get("instructions")
    if instructions is not None:
        conversation.system(a_text(instructions, "instructions"))
    given = fields["input"]
    if isinstance(given, str):
        conversation.user(given)
    else:
        for index, item in enumerate(given):
            path = f"input[{index}]"
            _item(an_object(item, path), path, conversation)
    if not conversation.messages:
        raise wrong("input", "more than empty texts")
    return conversation.messages


def _item(item: Mapping[str, Any], path: str, conversation: Conversation) -> None:
    kind = item.get("type", "message")
    if kind == "message":
        _message(item, path, conversation)
    elif kind == "reasoning":
        conversation.reasoning(_thoughts(item, path))
    elif kind in ("function_call", "custom_tool_call"):
        name = a_name(item.get("name"), f"{path}.name")
        namespace = item.get("namespace")
        if kind == "function_call":
            told = arguments.as_text(item.get("arguments"))
        else:
            told = as_json({"input": a_text(item.get("input"), f"{path}.input")})
        conversation.call(
            a_name(item.get("call_id"), f"{path}.call_id"),
            name_in_chat(name, namespace if isinstance(namespace, str) else None),
            told,
        )
    elif kind == "local_shell_call":
        action = an_object(item.get("action"), f"{path}.action")
        told = as_json(
            {
                key: action[key]
                for key in ("command", "working_directory", "timeout_ms")
                if action.get(key) is not None
            }
        )
        conversation.call(a_name(item.get("call_id"), f"{path}.call_id"), LOCAL_SHELL, told)
    elif kind in ("function_call_output", "custom_tool_call_output", "local_shell_call_output"):
        id = item.get("call_id") or item.get("id")
        conversation.result(
            a_name(id, f"{path}.call_id"), _content(item.get("output"), f"{path}.output")
        )
    elif kind == "item_reference":
        raise stateless(path, "is a reference to an item, and items are not kept here")
    elif kind != "web_search_call":  # what it found stands in the message after it
        raise Unsupported(
            f"`{path}` is of the type {kind!r}, which other models can't be told of",
            hint="Leave it out of `input`.",
            code="unsupported_item",
        )


def _message(item: Mapping[str, Any], path: str, conversation: Conversation) -> None:
    role = item.get("role")
    content = _content(item.get("content"), f"{path}.content")
    if role == "user":
        conversation.user(content)
    elif role in ("system", "developer"):
        conversation.system(content)
    elif role == "assistant":
        if not isinstance(content, str):
            raise wrong(f"{path}.content", "text alone in a message of the assistant")
        conversation.assistant(content)
    else:
        raise wrong(f"{path}.role", '"user", "assistant", "system" or "developer"')


def _thoughts(item: Mapping[str, Any], path: str) -> str:
    """The readable text of a reasoning item; what is encrypted says nothing to others."""
    texts = []
    for key in ("content", "summary"):
        given = item.get(key)
        for index, part in enumerate([] if given is None else a_list(given, f"{path}.{key}")):
            where = f"{path}.{key}[{index}]"
            texts.append(a_text(an_object(part, where).get("text"), f"{where}.text"))
        if any(texts):
            break
    return "\n\n".join(text for text in texts if text)


def _content(value: Any, path: str) -> Content:
    """A string where all of it is text."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise wrong(path, "a string or a list of parts")
    content: Content = ""
    for index, part in enumerate(value):
        where = f"{path}[{index}]"
        content = joined(content, _part(an_object(part, where), where), "\n")
    return content


def _part(part: Mapping[str, Any], path: str) -> Content:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return a_text(part.get("text"), f"{path}.text")
    if kind == "refusal":
        return a_text(part.get("refusal"), f"{path}.refusal")
    if kind == "input_image":
        if part.get("image_url") is None:
            raise _no_files(path, "image_url")
        image: dict[str, Any] = {"url": a_name(part["image_url"], f"{path}.image_url")}
        if part.get("detail") is not None:
            detail = a_text(part["detail"], f"{path}.detail")
            image["detail"] = "high" if detail == "original" else detail
        return [{"type": "image_url", "image_url": image}]
    if kind == "input_file":
        if part.get("file_data") is None:
            raise _no_files(path, "file_data")
        file = {"file_data": a_name(part["file_data"], f"{path}.file_data")}
        if part.get("filename") is not None:
            file["filename"] = a_text(part["filename"], f"{path}.filename")
        return [{"type": "file", "file": file}]
    if kind == "input_audio":
        audio = an_object(part.get("input_audio"), f"{path}.input_audio")
        return [{"type": "input_audio", "input_audio": dict(audio)}]
    raise wrong(
        f"{path}.type",
        '"input_text", "output_text", "refusal", "input_image", "input_file" or "input_audio"',
    )


def _no_files(path: str, field: str) -> Unsupported:
    return Unsupported(
        f"`{path}` has no `{field}`, and files are not kept or fetched here",
        hint=f"Send the data itself in `{field}`.",
        code="stateless",
    )


# The wishes.


def _tools(fields: Mapping[str, Any], out: dict[str, Any]) -> None:
    functions, choice = read_choice(fields.get("tool_choice"), read_tools(fields.get("tools")))
    if not functions:
        return
    out["tools"] = functions
    if choice is not None:
        out["tool_choice"] = choice
    parallel = fields.get("parallel_tool_calls")
    if parallel is not None:
        out["parallel_tool_calls"] = a_bool(parallel, "parallel_tool_calls")


def _text(fields: Mapping[str, Any], out: dict[str, Any]) -> None:
    if fields.get("text") is None:
        return
    text = an_object(fields["text"], "text")
    if text.get("verbosity") is not None:
        out["verbosity"] = a_text(text["verbosity"], "text.verbosity")
    if text.get("format") is None:
        return
    form = an_object(text["format"], "text.format")
    kind = form.get("type")
    if kind == "json_object":
        out["response_format"] = {"type": "json_object"}
    elif kind == "json_schema":
        an_object(form.get("schema"), "text.format.schema")
        schema = {
            key: form[key]
            for key in ("name", "description", "schema", "strict")
            if form.get(key) is not None
        }
        schema.setdefault("name", "answer")
        out["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif kind != "text":
        raise wrong("text.format.type", '"text", "json_object" or "json_schema"')


def _logprobs(fields: Mapping[str, Any], out: dict[str, Any]) -> None:
    top = fields.get("top_logprobs")
    if top:
        out["top_logprobs"] = a_natural(top, "top_logprobs")
    if top or includes(fields, "message.output_text.logprobs"):
        out["logprobs"] = True
