"""A request of Responses becomes one of Chat Completions. Pure."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerberus_core.errors import BadRequest, Unsupported
from cerberus_core.gateway.wires.responses import Asked
from cerberus_core.gateway.wires.responses_over_chat import request

PNG = "data:image/png;base64,iVBORw0KGgo="


def ask(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "input": "hi", **fields}


def said(role: str, *texts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {
        "type": "message",
        "role": role,
        "content": [{"type": kind, "text": text} for text in texts],
    }


def call(id: str, name: str = "read", arguments: str = '{"p": 1}') -> dict[str, Any]:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}


def result(id: str, output: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": output}


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": {"type": "object"}, **more}


CODEX: dict[str, Any] = {
    "model": "m",
    "input": [
        said("developer", "You are a coding agent."),
        said("developer", "Skills: none."),
        said("user", "<environment_context/>"),
        {"id": "msg_1", **said("user", "say hi")},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "hmm"}],
            "encrypted_content": None,
        },
        {"id": "msg_2", "status": "completed", **said("assistant", "I look.")},
        {"id": "fc_1", **call("call_1", "exec_command", '{"cmd": "echo hi"}')},
        {"id": "fc_2", "namespace": "agents", **call("call_2", "wait", "{}")},
        {
            "type": "custom_tool_call",
            "id": "ctc_1",
            "call_id": "call_3",
            "name": "apply_patch",
            "input": "*** Begin Patch",
        },
        {"id": "fco_1", **result("call_1", "hi\n")},
        result("call_2", [{"type": "input_text", "text": "none"}]),
        {"type": "custom_tool_call_output", "call_id": "call_3", "output": "Done"},
    ],
    "tools": [
        function("exec_command", strict=False, description="Runs a command."),
        {
            "type": "namespace",
            "name": "agents",
            "description": "Sub-agents.",
            "tools": [function("wait", strict=False)],
        },
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Edits files.",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"},
        },
        {"type": "web_search", "external_web_access": True},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "thread",
    "text": {
        "format": {"type": "json_schema", "name": "out", "strict": True, "schema": {"a": 1}},
        "verbosity": "low",
    },
    "client_metadata": {"thread_id": "x"},
}
"""What Codex 0.171 sends, shortened."""


def test_what_codex_sends_is_a_chat_request_that_means_the_same() -> None:
    before = copy.deepcopy(CODEX)
    out = request(CODEX)
    assert before == CODEX
    calls = [
        ("call_1", "exec_command", '{"cmd": "echo hi"}'),
        ("call_2", "agents__wait", "{}"),
        ("call_3", "apply_patch", '{"input":"*** Begin Patch"}'),
    ]
    assert out["messages"] == [
        {"role": "system", "content": "You are a coding agent.\n\nSkills: none."},
        {"role": "user", "content": "<environment_context/>\n\nsay hi"},
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "hmm",
            "tool_calls": [
                {"id": id, "type": "function", "function": {"name": name, "arguments": told}}
                for id, name, told in calls
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "hi\n"},
        {"role": "tool", "tool_call_id": "call_2", "content": "none"},
        {"role": "tool", "tool_call_id": "call_3", "content": "Done"},
    ]
    functions = [tool["function"] for tool in out["tools"]]
    assert [each["name"] for each in functions] == ["exec_command", "agents__wait", "apply_patch"]
    assert functions[0]["strict"] is False
    assert functions[2]["description"].startswith("Edits files.\n\n")
    assert "start: x" in functions[2]["description"]
    assert functions[2]["parameters"]["required"] == ["input"]
    rest = {key: value for key, value in out.items() if key not in ("messages", "tools")}
    assert rest == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning_effort": "medium",
        "prompt_cache_key": "thread",
        "verbosity": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "out", "strict": True, "schema": {"a": 1}},
        },
    }


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_output_tokens": 5}, {"max_tokens": 5}),
        ({"temperature": 0.5, "top_p": 1}, {"temperature": 0.5, "top_p": 1}),
        ({"top_k": 3, "min_p": 0.1, "stop": ["x"]}, {"top_k": 3, "min_p": 0.1, "stop": ["x"]}),
        ({"user": "u", "metadata": {"a": "b"}, "truncation": "auto"}, {"user": "u"}),
        ({"text": {"format": {"type": "text"}}}, {}),
        (
            {"text": {"format": {"type": "json_object"}}},
            {"response_format": {"type": "json_object"}},
        ),
        ({"top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
        ({"include": ["message.output_text.logprobs"]}, {"logprobs": True}),
        ({"reasoning": {"effort": None}, "tools": None, "previous_response_id": None}, {}),
        ({"tools": [{"type": "web_search"}], "parallel_tool_calls": True}, {}),
        ({"background": False, "stream": False, "tool_choice": "auto"}, {"stream": False}),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
    ],
)
def test_wishes(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    hello = [{"role": "user", "content": "hi"}]
    assert request(ask(**fields)) == {"model": "m", "messages": hello, **expected}


@pytest.mark.parametrize(
    ("choice", "names", "expected"),
    [
        ("required", ["a", "n__b", "local_shell"], "required"),
        ({"type": "function", "name": "a"}, ["a", "n__b", "local_shell"], "a"),
        ({"type": "function", "name": "b", "namespace": "n"}, ["a", "n__b", "local_shell"], "n__b"),
        ({"type": "local_shell"}, ["a", "n__b", "local_shell"], "local_shell"),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "a"}, {"type": "web_search"}],
            },
            ["a"],
            "required",
        ),
    ],
)
def test_tool_choice(choice: Any, names: list[str], expected: str) -> None:
    tools = [
        function("a"),
        {"type": "namespace", "name": "n", "tools": [function("b")]},
        {"type": "local_shell"},
    ]
    out = request(ask(tools=tools, tool_choice=choice))
    assert [tool["function"]["name"] for tool in out["tools"]] == names
    if expected != "required":
        assert out["tool_choice"] == {"type": "function", "function": {"name": expected}}
    else:
        assert out["tool_choice"] == "required"


def test_long_names_of_a_namespace_stay_apart_and_are_the_same_each_time() -> None:
    tools = [
        {"type": "namespace", "name": "n" * 60, "tools": [function("one"), function("two")]},
    ]
    first, second = [tool["function"]["name"] for tool in request(ask(tools=tools))["tools"]]
    assert first != second
    assert len(first) == len(second) == 64
    asked = Asked.of(ask(tools=tools), id="resp_1", model="m", created_at=0)
    assert asked.tools[second].name == "two"
    history = [said("user", "x"), {"namespace": "n" * 60, **call("c", "two")}, result("c", "")]
    messages = request(ask(tools=tools, input=history))["messages"]
    assert messages[1]["tool_calls"][0]["function"]["name"] == second


def test_g26_images_of_a_tools_result_follow_its_turn() -> None:
    text = {"type": "input_text", "text": "a picture"}
    image = {"type": "input_image", "image_url": PNG, "detail": "high"}
    items = [
        said("user", "look"),
        call("c1"),
        call("c2"),
        result("c1", [text, image]),
        result("c2", ""),
        said("user", "and?"),
    ]
    messages = request(ask(input=items))["messages"]
    assert messages[2:4] == [
        {"role": "tool", "tool_call_id": "c1", "content": "a picture"},
        {"role": "tool", "tool_call_id": "c2", "content": "(no output)"},
    ]
    assert messages[4] == {
        "role": "user",
        "content": [
            {"type": "text", "text": "From the tool call c1:"},
            {"type": "image_url", "image_url": {"url": PNG, "detail": "high"}},
            {"type": "text", "text": "and?"},
        ],
    }
    assert len(messages) == 5


def test_g27_calls_without_text_have_null_content_and_one_message() -> None:
    messages = request(ask(input=[said("user", "x"), call("a"), call("b")]))["messages"]
    assert len(messages) == 2
    assert messages[1]["content"] is None
    assert [each["id"] for each in messages[1]["tool_calls"]] == ["a", "b"]


def test_g31_system_texts_anywhere_leave_one_system_message_first() -> None:
    items = [
        said("system", "one"),
        said("user", "x"),
        said("developer", "later"),
        said("assistant", "y"),
        said("system", "last"),
    ]
    messages = request(ask(instructions="zero", input=items))["messages"]
    assert messages == [
        {"role": "system", "content": "zero\n\none"},
        {"role": "user", "content": "x\n\n<system-reminder>\nlater\n</system-reminder>"},
        {"role": "assistant", "content": "y"},
        {"role": "user", "content": "<system-reminder>\nlast\n</system-reminder>"},
    ]


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("", "{}"),
        (None, "{}"),
        ("null", "{}"),
        ('{"a":  1}', '{"a":  1}'),
        ({"a": 1}, '{"a":1}'),
        ('{"command": "a', '{"arguments":"{\\"command\\": \\"a"}'),
        ("[]", '{"arguments":"[]"}'),
    ],
)
def test_arguments_of_the_history_are_always_a_json_object(written: Any, sent: str) -> None:
    """One broken call must not ruin all later requests of its session."""
    items = [said("user", "x"), {**call("c"), "arguments": written}]
    messages = request(ask(input=items))["messages"]
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == sent


@pytest.mark.parametrize(
    "fields",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"conversation": {"id": "conv_1"}},
        {"background": True},
        {"store": True},
        {"prompt": {"id": "pmpt_1"}},
        {"input": [{"type": "item_reference", "id": "msg_1"}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
    ],
)
def test_what_would_need_state_is_refused_clearly(fields: dict[str, Any]) -> None:
    with pytest.raises(Unsupported) as caught:
        request(ask(**fields))
    assert caught.value.code == "stateless"
    assert caught.value.hint


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]},
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
        {"tools": [{"type": "mcp", "server_label": "x", "server_url": "http://x"}]},
        {"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}},
        {"tools": [{"type": "web_search"}], "tool_choice": "required"},
        {"input": [{"type": "computer_call_output", "call_id": "c", "output": {}}]},
    ],
)
def test_what_only_a_provider_can_run_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        request(ask(**fields))


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"model": None}, "`model`"),
        ({"model": 3}, "`model`"),
        ({"input": None}, "`input` is missing"),
        ({"input": 3}, "`input`"),
        ({"input": ""}, "`input` is empty"),
        ({"input": []}, "`input` is empty"),
        ({"input": [said("user", "")]}, "`input`"),
        ({"input": ["x"]}, "`input[0]`"),
        ({"input": [{"role": "robot", "content": "x"}]}, "`input[0].role`"),
        ({"input": [{"role": "user", "content": [{"type": "x"}]}]}, "`input[0].content[0].type`"),
        (
            {"input": [{"role": "user", "content": [{"type": "text"}]}]},
            "`input[0].content[0].text`",
        ),
        ({"input": [{**call(""), "call_id": ""}]}, "`input[0].call_id`"),
        ({"input": [result("c", None)]}, "`input[0].output`"),
        ({"tools": {}}, "`tools`"),
        ({"tools": [{"type": "function"}]}, "`tools[0].name`"),
        (
            {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": 1}]}]},
            "`tools[0].tools[0].type`",
        ),
        ({"tool_choice": "maybe"}, "`tool_choice`"),
        ({"text": {"format": {"type": "xml"}}}, "`text.format.type`"),
        ({"stream": "yes"}, "`stream`"),
        ({"max_output_tokens": -1}, "`max_output_tokens`"),
        ({"temperature": "hot"}, "`temperature`"),
        ({"instructions": []}, "`instructions`"),
    ],
)
def test_g30_a_mistake_is_told_with_its_place(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(BadRequest) as caught:
        request(ask(**fields))
    assert word in caught.value.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    )
    for key in keys:
        found += places(value[key], (*path, key))
    return found


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(places(CODEX)), json_values)
def test_nothing_but_a_typed_error_comes_of_a_request(place: tuple[Any, ...], value: Any) -> None:
    fields = copy.deepcopy(CODEX)
    holder: Any = fields
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    before = copy.deepcopy(fields)
    try:
        out = request(fields)
        Asked.of(fields, id="resp_1", model="m", created_at=0)
    except (BadRequest, Unsupported):
        return
    finally:
        assert repr(fields) == repr(before)
    json.dumps(out)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(CODEX)), json_values))
def test_nothing_but_a_typed_error_comes_of_any_json(fields: dict[str, Any]) -> None:
    try:
        request(fields)
    except (BadRequest, Unsupported):
        return


def test_what_is_nested_as_deeply_as_can_just_be_read_is_a_typed_error_or_none() -> None:
    """Decoding and encoding have limits that differ by a little."""
    told = False
    for depth in range(940, 1010):
        nested: Any = []
        for _ in range(depth):
            nested = [nested]
        for fields in (
            ask(metadata=nested),
            ask(input=[{**call("c"), "arguments": {"x": nested}}]),
        ):
            try:
                request(fields)
                Asked.of(fields, id="resp_1", model="m", created_at=0)
            except BadRequest as error:
                told = "nested" in error.message
    assert told
