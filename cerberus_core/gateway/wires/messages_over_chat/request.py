"""The request. Pure."""

from collections.abc import Mapping
from typing import Any

from cerberus_core.errors import Unsupported
from cerberus_core.gateway.wires import expect

from .target import OPEN, Target
from .tools import chat_tools
from .turns import chat_messages

_TRANSLATED = {
    "max_tokens",
    "messages",
    "metadata",
    "model",
    "output_config",
    "output_format",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
}
_DROPPED = {
    "anthropic_beta",
    "anthropic_version",
    "betas",
    "cache_control",
    "container",
    "context_management",
    "diagnostics",
    "inference_geo",
    "service_tier",
    "speed",
    "user_profile_id",
    "workspace_id",
    # Chat's own, which would ask for what a Messages answer can't tell.
    "best_of",
    "function_call",
    "functions",
    "logprobs",
    "n",
    "parallel_tool_calls",
    "prompt",
    "response_format",
    "stop",
    "stream_options",
    "top_logprobs",
}
_ANSWER = "answer"
USER_LIMIT = 64
"""Providers refuse a `user` that is longer; Claude Code's `user_id` is."""


def request(fields: Mapping[str, Any], target: Target = OPEN) -> dict[str, Any]:
    """A Messages request as one of Chat Completions. Raises `BadRequest`, `Unsupported`."""
    out = chat(fields, target)
    out["max_tokens"] = expect.natural(expect.required(fields, "max_tokens", ""), "max_tokens")
    stream = fields.get("stream")
    if stream is not None and expect.flag(stream, "stream"):
        out["stream"] = True
        out["stream_options"] = {"include_usage": True}
    for key in ("temperature", "top_p", *(() if target.strict else ("top_k",))):
        if fields.get(key) is not None:
            out[key] = expect.number(fields[key], key)
    stops = fields.get("stop_sequences")
    if stops is not None:
        stop = [
            expect.string(value, f"stop_sequences[{index}]")
            for index, value in enumerate(expect.items(stops, "stop_sequences"))
        ]
        if stop:
            out["stop"] = stop
    metadata = fields.get("metadata")
    if metadata is not None:
        user = expect.mapping(metadata, "metadata").get("user_id")
        if user is not None and len(expect.string(user, "metadata.user_id")) <= USER_LIMIT:
            out["user"] = user
    if not target.strict:
        left = fields.keys() - _TRANSLATED - _DROPPED - {"mcp_servers"}
        for key in sorted(left):
            if fields[key] is not None:
                out.setdefault(key, fields[key])
    return out | _format(fields) | _thinking(fields, out, target)


def chat(fields: Mapping[str, Any], target: Target) -> dict[str, Any]:
    """What makes up the prompt: model, messages and tools."""
    if fields.get("mcp_servers"):
        raise Unsupported(
            "`mcp_servers`: Anthropic would ask them, this model can't",
            hint="Connect them at your side and offer their tools in `tools`.",
        )
    out: dict[str, Any] = {"messages": chat_messages(fields, target), **chat_tools(fields, target)}
    if fields.get("model") is not None:
        out["model"] = expect.string(fields["model"], "model")
    return out


def _format(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Output by a JSON schema; `output_format` is an older name for it."""
    path = "output_config.format"
    config = fields.get("output_config")
    given = None if config is None else expect.mapping(config, "output_config").get("format")
    if given is None:
        path, given = "output_format", fields.get("output_format")
    if given is None:
        return {}
    form = expect.mapping(given, path)
    if form.get("type") != "json_schema":
        raise expect.wrong(f"{path}.type", '"json_schema"')
    schema = expect.mapping(expect.required(form, "schema", path), f"{path}.schema")
    described = {"name": _ANSWER, "schema": schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": described}}


def _thinking(
    fields: Mapping[str, Any], so_far: Mapping[str, Any], target: Target
) -> dict[str, Any]:
    """How much the model should think, as far as the backend can be told."""
    out: dict[str, Any] = {}
    config = fields.get("output_config")
    effort = None if config is None else expect.mapping(config, "output_config").get("effort")
    if effort is not None:
        effort = expect.string(effort, "output_config.effort")
        if target.reasons:
            out["reasoning_effort"] = effort if effort in ("low", "medium") else "high"
    thinking = fields.get("thinking")
    if thinking is None:
        return out
    thinking = expect.mapping(thinking, "thinking")
    kind = expect.string(expect.required(thinking, "type", "thinking"), "thinking.type")
    budget = thinking.get("budget_tokens")
    if budget is not None:
        budget = expect.natural(budget, "thinking.budget_tokens")
    if target.strict:
        return out
    # Both as llama.cpp knows them; others take no notice.
    if kind == "disabled":
        theirs = so_far.get("chat_template_kwargs", {})
        theirs = expect.mapping(theirs, "chat_template_kwargs")
        out["chat_template_kwargs"] = {"enable_thinking": False, **theirs}
    elif budget is not None:
        out["thinking_budget_tokens"] = budget
    return out
