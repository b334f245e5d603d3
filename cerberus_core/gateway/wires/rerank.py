"""/v1/rerank: what a request must have, and answers of several servers made into one shape. Pure.

Requests pass as they are: llama.cpp, Jina and Cohere name the same fields. Answers
differ: llama.cpp's older servers and Text Embeddings Inference send a bare list,
scores are `relevance_score` or `score`, documents texts or objects, and the tokens
are told in three places. The one shape is Jina's, which llama.cpp follows:

    {"object": "list", "model": …, "results": [{"index", "relevance_score", "document"?}],
     "usage": {"prompt_tokens", "total_tokens"}}

Best first. `usage` is null where nobody told it. Documents come where `return_documents` asks
for them, whether the server returns them or not, and where it is unset and the server does.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from cerberus_core.errors import BadRequest, UpstreamFailed

from .check import a_bool, a_list, a_name, a_natural, a_text, an_object, wrong


@attrs.frozen(kw_only=True)
class Asked:
    """What of the request its answer needs."""

    model: str
    documents: int
    top_n: int | None
    """The most results; None for all."""
    texts: tuple[str, ...] | None = None
    """Of the documents, where they are wanted in the answer."""
    bare: bool = False
    """They are not wanted."""


def parse(fields: Mapping[str, Any]) -> Asked:
    """Raises `BadRequest`."""
    model = fields.get("model")
    if model is None or model == "":
        raise BadRequest(
            "`model` is missing", hint="GET /v1/models lists the names.", code="model_missing"
        )
    for key in ("query", "documents"):
        if fields.get(key) is None:
            raise BadRequest(
                f"`{key}` is missing",
                hint='Send an object such as {"model": "…", "query": "…", "documents": ["…"]}.',
            )
    a_text(fields["query"], "query")
    documents = a_list(fields["documents"], "documents")
    if not documents:
        raise BadRequest("`documents` is empty", hint="Send at least one text.")
    texts = [_text(document, f"documents[{index}]") for index, document in enumerate(documents)]
    top_n = fields.get("top_n")
    if top_n is not None and a_natural(top_n, "top_n") < 1:
        raise wrong("top_n", "1 or more")
    wanted = fields.get("return_documents")
    if wanted is not None:
        a_bool(wanted, "return_documents")
    return Asked(
        model=a_name(model, "model"),
        documents=len(documents),
        top_n=top_n,
        texts=tuple(texts) if wanted else None,
        bare=wanted is False,
    )


def _text(document: Any, path: str) -> str:
    if isinstance(document, str):
        return document
    return a_text(an_object(document, path).get("text"), f"{path}.text")


def answer(body: Any, asked: Asked) -> dict[str, Any]:
    """Any server's answer in the one shape. Raises `UpstreamFailed`."""
    whole: Mapping[str, Any] = body if isinstance(body, Mapping) else {"results": body}
    given = whole.get("results")
    if not isinstance(given, list):
        raise UpstreamFailed("The endpoint's answer holds no `results`")
    results = [_result(each, asked) for each in given]
    results.sort(key=lambda result: -result["relevance_score"])
    out: dict[str, Any] = {
        "object": "list",
        "model": asked.model,
        "results": results if asked.top_n is None else results[: asked.top_n],
        "usage": _usage(whole),
    }
    if isinstance(whole.get("id"), str):
        out["id"] = whole["id"]
    return out


def _result(value: Any, asked: Asked) -> dict[str, Any]:
    result = value if isinstance(value, Mapping) else {}
    index = result.get("index")
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < asked.documents:
        raise UpstreamFailed("The endpoint ranked a document that was not in the request")
    score = result.get("relevance_score", result.get("score"))
    if not isinstance(score, int | float) or isinstance(score, bool) or score != score:
        raise UpstreamFailed("The endpoint ranked a document without a score")
    out: dict[str, Any] = {"index": index, "relevance_score": score}
    document = None if asked.bare else result.get("document", result.get("text"))
    if document is None and asked.texts is not None:
        document = asked.texts[index]
    if isinstance(document, str):
        out["document"] = {"text": document}
    elif isinstance(document, Mapping):
        out["document"] = dict(document)
    return out


def _usage(whole: Mapping[str, Any]) -> dict[str, Any] | None:
    """Of `usage` (llama.cpp, Jina) or `meta` (Cohere)."""
    usage = whole.get("usage")
    if isinstance(usage, Mapping):
        total = _count(usage.get("total_tokens"))
        prompt = _count(usage.get("prompt_tokens"))
        if prompt is not None or total is not None:
            prompt = total if prompt is None else prompt
            return {"prompt_tokens": prompt, "total_tokens": prompt if total is None else total}
    meta = whole.get("meta")
    for key in ("tokens", "billed_units"):
        told = meta.get(key) if isinstance(meta, Mapping) else None
        count = _count(told.get("input_tokens")) if isinstance(told, Mapping) else None
        if count is not None:
            return {"prompt_tokens": count, "total_tokens": count}
    return None


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return None
    return int(value) if value < 2**53 else None  # Cohere sends 12.0
