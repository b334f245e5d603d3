"""Rerank: requests, and the answers of several servers in one shape. Pure."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerberus_core.errors import BadRequest, UpstreamFailed
from cerberus_core.gateway.wires.rerank import Asked, answer, parse

ASK: dict[str, Any] = {"model": "m", "query": "q", "documents": ["a", "b", "c"]}
ASKED = Asked(model="pub", documents=3, top_n=None)
BEST_FIRST = [{"index": 2, "relevance_score": 0.9}, {"index": 0, "relevance_score": -3}]

LLAMA_CPP = {
    "model": "file.gguf",
    "object": "list",
    "usage": {"prompt_tokens": 9, "total_tokens": 9},
    "results": [{"index": 0, "relevance_score": -3}, {"index": 2, "relevance_score": 0.9}],
}
TEI = [{"index": 2, "score": 0.9}, {"index": 0, "score": -3}]
JINA = {
    "model": "jina",
    "usage": {"total_tokens": 9},
    "results": [
        {"index": 2, "relevance_score": 0.9, "document": {"text": "c"}},
        {"index": 0, "relevance_score": -3, "document": "a"},
    ],
}
COHERE = {
    "id": "x1",
    "results": BEST_FIRST,
    "meta": {
        "api_version": {"version": "2"},
        "billed_units": {"search_units": 1},
        "tokens": {"input_tokens": 9.0},
    },
}


@pytest.mark.parametrize("body", [LLAMA_CPP, TEI, JINA, COHERE])
def test_every_servers_answer_has_one_shape(body: Any) -> None:
    out = answer(body, ASKED)
    plain = [{key: each[key] for key in ("index", "relevance_score")} for each in out["results"]]
    assert plain == BEST_FIRST
    assert (out["object"], out["model"]) == ("list", "pub")
    known = {"prompt_tokens": 9, "total_tokens": 9}
    assert out["usage"] == (None if body is TEI else known)


def test_documents_and_ids_are_kept_and_documents_are_objects() -> None:
    documents = [each["document"] for each in answer(JINA, ASKED)["results"]]
    assert documents == [{"text": "c"}, {"text": "a"}]
    assert answer(COHERE, ASKED)["id"] == "x1"


def test_a_server_that_takes_no_notice_of_top_n_is_cut_to_it() -> None:
    asked = parse({**ASK, "top_n": 1})
    assert answer(LLAMA_CPP, asked)["results"] == BEST_FIRST[:1]


def test_what_a_request_says() -> None:
    assert parse(ASK) == Asked(model="m", documents=3, top_n=None)
    fields = {**ASK, "documents": [{"text": "a"}, "b"], "return_documents": True, "top_n": 5}
    assert parse(fields) == Asked(model="m", documents=2, top_n=5, texts=("a", "b"))


def test_documents_come_where_they_are_asked_for_and_only_there() -> None:
    for wanted, expected in ((True, [{"text": "c"}, {"text": "a"}]), (False, [None, None])):
        asked = parse({**ASK, "return_documents": wanted})
        for body in (TEI, JINA):
            assert [each.get("document") for each in answer(body, asked)["results"]] == expected


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"model": ""}, "`model` is missing"),
        ({"query": None}, "`query` is missing"),
        ({"query": []}, "`query`"),
        ({"documents": None}, "`documents` is missing"),
        ({"documents": "a"}, "`documents`"),
        ({"documents": []}, "`documents` is empty"),
        ({"documents": ["a", {}]}, "`documents[1].text`"),
        ({"documents": [3]}, "`documents[0]`"),
        ({"top_n": 0}, "`top_n`"),
        ({"top_n": "3"}, "`top_n`"),
    ],
)
def test_g30_a_mistake_is_told_with_its_place(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse({**ASK, **fields})
    assert word in caught.value.message


@pytest.mark.parametrize(
    "body",
    [
        {},
        "x",
        {"results": {}},
        {"results": [{"index": 3, "relevance_score": 1}]},
        {"results": [{"index": True, "relevance_score": 1}]},
        {"results": [{"index": 0}]},
        {"results": [3]},
    ],
)
def test_an_answer_that_ranks_nothing_sensible_is_the_endpoints_failure(body: Any) -> None:
    with pytest.raises(UpstreamFailed):
        answer(body, ASKED)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["results", "index", "score", "usage", "meta", "total_tokens"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(json_values, st.dictionaries(st.sampled_from([*ASK, "top_n"]), json_values))
def test_nothing_but_a_typed_error_comes_of_any_json(body: Any, fields: dict[str, Any]) -> None:
    try:
        parse({**ASK, **fields})
        answer(body, ASKED)
    except (BadRequest, UpstreamFailed):
        return
