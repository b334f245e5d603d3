"""A Messages request as one of Chat Completions. Pure."""

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerberus_core.errors import BadRequest, Unsupported
from cerberus_core.gateway.wires.messages_over_chat import (
    Target,
    count_request,
    estimate_tokens,
    request,
)

PNG = "iVBORw0KGgo="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
IMAGE_PART = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
CACHE = {"cache_control": {"type": "ephemeral"}}
HI = [{"role": "user", "content": "hi"}]


def asked(messages: Any = HI, **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 10, "messages": messages, **more}


def messages_for(messages: Any, target: Target | None = None, **more: Any) -> list[dict[str, Any]]:
    fields = asked(messages, **more)
    out: list[dict[str, Any]] = request(fields, target or Target())["messages"]
    return out


def use(id: str = "t1", name: str = "read", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def result(content: Any = None, id: str = "t1", **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": id, **more}
    return block if content is None else {**block, "content": content}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


# A request as Claude Code sends it, shortened.
CLAUDE_CODE: dict[str, Any] = {
    "model": "claude-x",
    "max_tokens": 32000,
    "stream": True,
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.0; cch=0a1b2;"},
        {"type": "text", "text": "You are Claude Code.", **CACHE},
        {"type": "text", "text": "Be brief.", **CACHE},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                text("<system-reminder>\nSkills: none\n</system-reminder>"),
                text("Edit a.txt"),
            ],
        },
        {"role": "system", "content": "The date is today."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I read it.", "signature": "sig"},
                text("I look."),
                {**use("toolu_1", "Read", file_path="a.txt"), **CACHE},
            ],
        },
        {"role": "user", "content": [{**result("1\tone", "toolu_1"), **CACHE}]},
        {"role": "system", "content": [text("Remember the tests.")]},
    ],
    "tools": [
        {
            "name": "Read",
            "description": "Reads a file.",
            "input_schema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {"file_path": {"type": "string"}},
                "required": ["file_path"],
            },
            "eager_input_streaming": True,
        }
    ],
    "metadata": {"user_id": '{"session_id":"s"}'},
    "thinking": {"type": "adaptive"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "medium"},
}  # fmt: skip


def test_g31_a_system_message_in_the_middle_stays_there_as_the_users_words() -> None:
    before = copy.deepcopy(CLAUDE_CODE)
    out = request(CLAUDE_CODE)
    assert before == CLAUDE_CODE, "the request is changed"
    assert out == {
        "model": "claude-x",
        "messages": [
            {"role": "system", "content": "You are Claude Code.\n\nBe brief."},
            {
                "role": "user",
                "content": "<system-reminder>\nSkills: none\n</system-reminder>\n\nEdit a.txt\n\n"
                "<system-reminder>\nThe date is today.\n</system-reminder>",
            },
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {
                        "id": "toolu_1",
                        "type": "function",
                        "function": {"name": "Read", "arguments": '{"file_path":"a.txt"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "toolu_1", "content": "1\tone"},
            {
                "role": "user",
                "content": "<system-reminder>\nRemember the tests.\n</system-reminder>",
            },
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "Read",
                    "description": "Reads a file.",
                    "parameters": CLAUDE_CODE["tools"][0]["input_schema"],
                },
            }
        ],
        "parallel_tool_calls": True,
        "max_tokens": 32000,
        "stream": True,
        "stream_options": {"include_usage": True},
        "user": '{"session_id":"s"}',
    }


def test_a_users_id_as_long_as_claude_codes_is_left_out() -> None:
    for length, kept in ((64, True), (65, False), (155, False)):
        assert ("user" in request(asked(metadata={"user_id": "u" * length}))) is kept


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("system", [None, "Top.", [text("Top."), {**text("More."), **CACHE}]])
def test_g31_there_is_one_system_message_and_it_is_first(role: str, system: Any) -> None:
    messages = [
        {"role": role, "content": "a"},
        {"role": role, "content": [text("b")]},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": [use()]},
        {"role": role, "content": "between call and result"},
        {"role": "user", "content": [result("d")]},
        {"role": "assistant", "content": "e"},
        {"role": role, "content": "f"},
    ]
    out = messages_for(messages, system=system)
    roles = [message["role"] for message in out]
    assert roles == ["system", "user", "assistant", "tool", "user", "assistant", "user"]
    top = {"None": "", "str": "Top.\n\n", "list": "Top.\n\nMore.\n\n"}
    assert out[0]["content"] == top[type(system).__name__.replace("NoneType", "None")] + "a\n\nb"
    assert "between call and result" in out[4]["content"]


def test_g26_an_image_in_a_tool_result_reaches_the_model() -> None:
    messages = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [use("t1", "shot"), use("t2", "ls")]},
        {
            "role": "user",
            "content": [result([text("taken"), IMAGE]), result("a.txt", "t2"), text("and?")],
        },
    ]
    assert messages_for(messages)[2:] == [
        {"role": "tool", "tool_call_id": "t1", "content": "taken"},
        {"role": "tool", "tool_call_id": "t2", "content": "a.txt"},
        {
            "role": "user",
            "content": [
                text("From the result of shot (t1):"),
                IMAGE_PART,
                text("and?"),
            ],
        },
    ]
    alone = messages_for([{"role": "user", "content": [result([IMAGE])]}])
    assert alone[0]["content"] == "(images: in the next message)"
    assert alone[1]["content"] == [text("From the result of the tool (t1):"), IMAGE_PART]
    with pytest.raises(Unsupported, match=r"messages\[2\].content\[0\].content\[1\]"):
        messages_for(messages, Target(images=False))


@pytest.mark.parametrize(
    ("block", "content"),
    [
        (result("plain"), "plain"),
        (result([text("a"), text("b")]), "a\n\nb"),
        (result("no such file", is_error=True), "Error: no such file"),
        (result("Error: gone", is_error=True), "Error: gone"),
        (result("fine", is_error=False), "fine"),
    ],
)
def test_g26_text_alone_stays_a_string_and_the_mark_of_an_error_survives(
    block: dict[str, Any], content: str
) -> None:
    assert messages_for([{"role": "user", "content": [block]}]) == [
        {"role": "tool", "tool_call_id": "t1", "content": content}
    ]


@pytest.mark.parametrize("content", [None, "", [], [text("")]])
def test_a14_an_empty_result_has_words(content: Any) -> None:
    [tool] = messages_for([{"role": "user", "content": [result(content)]}])
    assert tool["content"] == "(no output)"
    [tool] = messages_for([{"role": "user", "content": [result(content, is_error=True)]}])
    assert tool["content"] == "Error: (no output)"


def test_g27_a_turn_of_calls_alone_has_an_empty_text() -> None:
    [message] = messages_for([{"role": "assistant", "content": [use(a=1), use("t2", "ls")]}])
    assert message["content"] == ""
    assert [(c["id"], c["function"]) for c in message["tool_calls"]] == [
        ("t1", {"name": "read", "arguments": '{"a":1}'}),
        ("t2", {"name": "ls", "arguments": "{}"}),
    ]


def test_g13_the_history_of_parallel_calls_goes_back_as_valid_json() -> None:
    history = [
        {"role": "assistant", "content": [use("x", "f", a=1), use("y", "f", b="é\n")]},
        {"role": "user", "content": [result("1", "x"), result("2", "y")]},
    ]
    assistant, *tools = messages_for(history)
    arguments = [json.loads(c["function"]["arguments"]) for c in assistant["tool_calls"]]
    assert arguments == [{"a": 1}, {"b": "é\n"}]
    assert [tool["tool_call_id"] for tool in tools] == ["x", "y"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("hi", "hi"),
        ([text("a"), text("b")], "a\n\nb"),
        ([text("see"), IMAGE], [text("see"), IMAGE_PART]),
        (
            [{"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}}],
            [{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}],
        ),
        (
            [
                {
                    "type": "document",
                    "title": "Notes",
                    "source": {"type": "text", "media_type": "text/plain", "data": "one"},
                }
            ],
            "Notes\n\none",
        ),
        (
            [{"type": "document", "source": {"type": "content", "content": [text("p1"), IMAGE]}}],
            [text("p1"), IMAGE_PART],
        ),
        (
            [{"type": "search_result", "title": "T", "source": "s", "content": [text("found")]}],
            "T\ns\nfound",
        ),
        ([], ""),
        (None, ""),
    ],
)
def test_what_a_user_may_say(content: Any, expected: Any) -> None:
    assert messages_for([{"role": "user", "content": content}]) == [
        {"role": "user", "content": expected}
    ]


def test_turns_of_one_role_are_one_message() -> None:
    messages = [
        {"role": "user", "content": "a"},
        {"role": "user", "content": [text("b")]},
        {"role": "assistant", "content": "c"},
        {"role": "assistant", "content": [use()]},
    ]
    user, assistant = messages_for(messages)
    assert user == {"role": "user", "content": "a\n\nb"}
    assert (assistant["content"], len(assistant["tool_calls"])) == ("c", 1)


def test_thinking_goes_back_only_where_it_is_known() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    secret = {"type": "redacted_thinking", "data": "x"}
    messages = [{"role": "assistant", "content": [thought, secret, text("a")]}]
    assert messages_for(messages) == [{"role": "assistant", "content": "a"}]
    [message] = messages_for(messages, Target(reasons=True))
    assert message == {"role": "assistant", "content": "a", "reasoning_content": "hm"}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, {"tool_choice": "auto", "parallel_tool_calls": True}),
        ({"type": "any"}, {"tool_choice": "required", "parallel_tool_calls": True}),
        ({"type": "none"}, {"tool_choice": "none", "parallel_tool_calls": True}),
        (
            {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
            {
                "tool_choice": {"type": "function", "function": {"name": "f"}},
                "parallel_tool_calls": False,
            },
        ),
        (None, {"parallel_tool_calls": True}),
    ],
)
def test_the_choice_of_a_tool(choice: Any, expected: dict[str, Any]) -> None:
    tools = [{"name": "f", "type": "custom", "input_schema": {"type": "object"}, "strict": True}]
    out = request(asked(tools=tools, tool_choice=choice))
    function = {"name": "f", "parameters": {"type": "object"}, "strict": True}
    assert out["tools"] == [{"type": "function", "function": function}]
    assert {k: v for k, v in out.items() if k in ("tool_choice", "parallel_tool_calls")} == expected
    without = request(asked(tools=[], tool_choice=choice))
    assert without.keys() == {"model", "messages", "max_tokens"}


def test_a_search_for_tools_is_left_out_since_all_are_shown() -> None:
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    tools = [search, {"name": "f", "input_schema": {}, "defer_loading": True}]
    assert [t["function"]["name"] for t in request(asked(tools=tools))["tools"]] == ["f"]


def test_sampling_and_stops() -> None:
    out = request(
        asked(
            temperature=0.5, top_p=0.9, top_k=40, stop_sequences=["###"],
            metadata={"user_id": "u"}, min_p=0.1, seed=7, n=3, stream=False, logprobs=None,
            service_tier="auto", container=None,
        )
    )  # fmt: skip
    del out["messages"]
    assert out == {
        "model": "m", "max_tokens": 10, "temperature": 0.5, "top_p": 0.9, "top_k": 40,
        "stop": ["###"], "user": "u", "min_p": 0.1, "seed": 7,
    }  # fmt: skip
    strict = request(asked(top_k=40, min_p=0.1, top_p=0.9), Target(strict=True))
    assert strict.keys() == {"model", "messages", "max_tokens", "top_p"}


@pytest.mark.parametrize("where", ["output_config", "output_format"])
def test_output_by_a_schema(where: str) -> None:
    form = {"type": "json_schema", "schema": {"type": "object"}}
    more = {where: {"format": form} if where == "output_config" else form}
    assert request(asked(**more))["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
    }


@pytest.mark.parametrize(
    ("fields", "target", "expected"),
    [
        ({"thinking": {"type": "adaptive"}}, Target(), {}),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
            Target(),
            {"thinking_budget_tokens": 2048},
        ),
        (
            {"thinking": {"type": "disabled"}, "chat_template_kwargs": {"a": 1}},
            Target(),
            {"chat_template_kwargs": {"enable_thinking": False, "a": 1}},
        ),
        ({"thinking": {"type": "disabled"}}, Target(strict=True), {}),
        ({"output_config": {"effort": "max"}}, Target(), {}),
        ({"output_config": {"effort": "max"}}, Target(reasons=True), {"reasoning_effort": "high"}),
        ({"output_config": {"effort": "low"}}, Target(reasons=True), {"reasoning_effort": "low"}),
    ],
)
def test_how_much_to_think(
    fields: dict[str, Any], target: Target, expected: dict[str, Any]
) -> None:
    out = request(asked(**fields), target)
    assert {
        k: v for k, v in out.items() if k not in ("model", "messages", "max_tokens")
    } == expected


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"messages": None}, "`messages` is missing"),
        ({"messages": []}, "`messages` is empty"),
        ({"messages": "hi"}, "`messages` must be a list"),
        ({"messages": ["hi"]}, "`messages[0]` must be an object"),
        ({"messages": [{"content": "a"}]}, "`messages[0].role` is missing"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "`messages[0].role` must be"),
        ({"messages": [{"role": ["user"], "content": "a"}]}, "`messages[0].role` must be"),
        ({"messages": [{"role": "user", "content": 5}]}, "`messages[0].content` must be"),
        (
            {"messages": [*HI, {"role": "user", "content": [text("a"), {"text": "b"}]}]},
            "`messages[1].content[1].type` is missing",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]},
            "`messages[0].content[0].text` must be a string",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
            "`messages[0].content[0].source` must be an object",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
            "`messages[0].content[0].tool_use_id` is missing",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{**use(), "input": [1]}]}]},
            "`messages[0].content[0].input` must be an object",
        ),
        ({"system": 5}, "`system` must be a string or"),
        ({"system": [IMAGE]}, '`system[0].type` must be "text"'),
        ({"max_tokens": None}, "`max_tokens` is missing"),
        ({"max_tokens": -1}, "`max_tokens` must be a whole number"),
        ({"max_tokens": True}, "`max_tokens` must be a whole number"),
        ({"stream": "yes"}, "`stream` must be true or false"),
        ({"temperature": "hot"}, "`temperature` must be a number"),
        ({"stop_sequences": ["a", 1]}, "`stop_sequences[1]` must be a string"),
        ({"metadata": {"user_id": 1}}, "`metadata.user_id` must be a string"),
        ({"tools": [{"name": "f"}]}, "`tools[0].input_schema` is missing"),
        ({"tool_choice": {"type": "some"}}, "`tool_choice.type` must be"),
        ({"tool_choice": "auto"}, "`tool_choice` must be an object"),
        ({"output_config": {"format": {"type": "xml"}}}, "`output_config.format.type` must be"),
        ({"thinking": {}}, "`thinking.type` is missing"),
    ],
)  # fmt: skip
def test_g30_what_is_wrong_is_told_with_its_path(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        request(asked() | change)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0]"),
        ({"mcp_servers": [{"type": "url", "url": "https://x.example"}]}, "mcp_servers"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "document",
                                "source": {
                                    "type": "base64",
                                    "media_type": "application/pdf",
                                    "data": "",
                                },
                            }
                        ],
                    }
                ]
            },
            "messages[0].content[0].source.type",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}],
                    }
                ]
            },
            "messages[0].content[0].source",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "server_tool_use"}]}]},
            "messages[0].content[0].type",
        ),
        ({"messages": [{"role": "assistant", "content": [IMAGE]}]}, "messages[0].content[0]"),
    ],
)
def test_what_the_model_can_not_be_given_is_refused_and_not_dropped(
    change: dict[str, Any], words: str
) -> None:
    with pytest.raises(Unsupported) as caught:
        request(asked() | change)
    assert f"`{words}`" in caught.value.message


def test_a_request_for_counting_needs_no_max_tokens() -> None:
    fields = asked(tools=[{"name": "f", "input_schema": {}}], system="s")
    del fields["max_tokens"]
    out = count_request(fields)
    assert out.keys() == {"model", "messages", "tools", "parallel_tool_calls"}


def test_an_estimate_counts_what_the_model_would_read() -> None:
    def estimate(content: Any, **more: Any) -> int:
        return estimate_tokens(asked([{"role": "user", "content": content}], **more))

    english = "The quick brown fox jumps over the lazy dog. " * 100  # 1000 tokens or so
    assert 900 < estimate(english) < 1500
    assert 200 < estimate("北京大学" * 100) < 500
    assert estimate("a" * 7000) == pytest.approx(2 * estimate("a" * 3500), rel=0.01)
    image = estimate([{**IMAGE, "source": {**IMAGE["source"], "data": "A" * 4_000_000}}])  # type: ignore[dict-item]
    assert 1000 < image < 2000, "a picture is not read as its base64"
    tools = [{"name": "f", "description": english, "input_schema": {"type": "object"}}]
    assert estimate("hi", tools=tools) > 900
    assert estimate("hi", system=english) > 900
    assert estimate("") >= 1
    assert estimate('{"a":1},' * 100) > 2 * estimate("abcdefgh" * 100)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["text", "image", "tool_result", "tool_use", "user", "system", "", "é"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            [
                "type", "text", "source", "content", "role", "id", "name", "input", "data",
                "tool_use_id", "is_error", "title", "thinking", "input_schema", "url",
            ]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else []
    )
    for key, child in children:
        found += _places(child, (*path, key))
    return found


PLACES = _places(CLAUDE_CODE)[1:]


def answered(fields: Any) -> None:
    """Whatever it is, it is translated or refused in words, and left as it was."""
    before = copy.deepcopy(fields)
    for target in (Target(), Target(strict=True, reasons=True, images=False)):
        for function in (request, estimate_tokens):
            with contextlib.suppress(BadRequest, Unsupported):
                json.dumps(function(fields, target))
    assert fields == before


@settings(max_examples=150)
@given(place=st.sampled_from(PLACES), value=JUNK)
def test_a_request_with_junk_in_it_is_answered_in_words(place: tuple[Any, ...], value: Any) -> None:
    fields = copy.deepcopy(CLAUDE_CODE)
    inside: Any = fields
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    answered(fields)


@settings(max_examples=150)
@given(
    fields=st.dictionaries(
        st.sampled_from([*CLAUDE_CODE, "tool_choice", "stop_sequences", "output_format", "x"]),
        JUNK,
        max_size=6,
    ),
    blocks=st.lists(JUNK, max_size=3),
    role=st.sampled_from(["user", "assistant", "system"]),
)
def test_junk_is_answered_in_words(fields: dict[str, Any], blocks: list[Any], role: str) -> None:
    answered(fields)
    answered(asked([{"role": role, "content": blocks}]))
