"""`cerberus why`: what became of one request, where its time went, and what it cost."""

from datetime import datetime
from typing import Annotated, Any

import typer

from .daemon_client import DaemonClient
from .options import Json
from .output import figure, say, say_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def why(
    request: Annotated[
        str, typer.Argument(help="The id of a request: the `x-request-id` of its answer.")
    ],
    curl: Annotated[
        bool, typer.Option("--curl", help="Print a curl line that asks the same again.")
    ] = False,
    prompt: Annotated[
        bool, typer.Option("--prompt", help="Show what was asked and answered, where it is kept.")
    ] = False,
    json: Json = False,
) -> None:
    """Show where a request went and why, what it waited for, and what it cost."""
    from urllib.parse import quote

    daemon = DaemonClient()
    path = f"/api/requests/{quote(request, safe='')}"
    if prompt:
        kept = daemon.get(f"{path}/prompt")
        if json:
            say_json(kept)
        else:
            _show_prompt(kept)
        return
    told = daemon.get(path)
    if curl:
        kept = daemon.get(f"{path}/prompt") if told["prompt_kept"] else None
        say(curl_line(told, daemon.url, kept))
    elif json:
        say_json(told)
    else:
        for line in lines(told):
            say(line)


def lines(told: dict[str, Any]) -> list[str]:
    """The record of a request in words. Pure."""
    when = datetime.fromisoformat(told["time"]).astimezone()
    rows = [
        ("asked", _asked(told, when)),
        ("route", _route(told)),
        ("waited", _waited(told)),
        ("prompt", _prompt(told)),
        ("answer", _answer(told)),
        ("energy", _energy(told)),
        ("cost", _cost(told)),
        ("error", told["error"]),
    ]
    return [f"{name:8} {text}" for name, text in rows if text]


def curl_line(told: dict[str, Any], url: str, kept: dict[str, Any] | None = None) -> str:
    """The same request again, without a key: that of the environment, or this machine's.

    With the prompt where it is `kept` whole; else `…` stands in its place. Pure.
    """
    import json
    import shlex

    if told["path"] in _FORMS:
        model = shlex.quote(f"model={told['asked'] or told['model']}")
        return f"curl {url}{told['path']} {_TOKEN} -F {model} -F {_FORMS[told['path']]}=@…"
    if kept is not None and not kept["request_cut"]:
        text = kept["request"]
    else:
        body = {"model": told["asked"] or told["model"], **_CONTENT.get(told["path"], _MESSAGES)}
        if told["stream"]:
            body["stream"] = True
        text = json.dumps(body, ensure_ascii=False)
    version = "-H 'anthropic-version: 2023-06-01' " if told["path"] == "/v1/messages" else ""
    return (
        f"curl {url}{told['path']} "
        f"{_TOKEN} {version}-H 'Content-Type: application/json' --data-raw {shlex.quote(text)}"
    )


_TOKEN = '-H "Authorization: Bearer ${CERBERUS_TOKEN:-$(cerberus token)}"'
_FORMS = {
    "/v1/audio/transcriptions": "file",
    "/v1/audio/translations": "file",
    "/v1/images/edits": "image",
}
_MESSAGES: dict[str, Any] = {"messages": [{"role": "user", "content": "…"}]}
_CONTENT: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "…"},
    "/v1/embeddings": {"input": "…"},
    "/v1/messages": {"max_tokens": 1024, **_MESSAGES},
    "/v1/responses": {"input": "…"},
    "/v1/audio/speech": {"input": "…"},
    "/v1/images/generations": {"prompt": "…"},
    "/v1/rerank": {"query": "…", "documents": ["…"]},
}


def _show_prompt(kept: dict[str, Any]) -> None:
    say(kept["request"] + (" … (cut)" if kept["request_cut"] else ""))
    if kept["answer"] is not None:
        say("")
        say(kept["answer"] + (" … (cut)" if kept["answer_cut"] else ""))


def _asked(told: dict[str, Any], when: datetime) -> str:
    who = told["client"] or "somebody"
    session = f", session {told['session_id']}" if told["session_id"] else ""
    name = told["asked"] or told["model"]
    return f"{when:%Y-%m-%d %H:%M:%S} by {who}{session}: {name} at {told['path']}"


def _route(told: dict[str, Any]) -> str:
    steps = [f"{step['model']} gave way ({step['why']})" for step in told["tried"]]
    if told["error"] is None:
        where = "on this machine" if told["local"] else f"at {told['backend']}"
        steps.append(f"{told['model']} answered {where}")
    else:
        steps.append(f"{told['model']} did not answer to the end")
    return ", then ".join(steps)


def _waited(told: dict[str, Any]) -> str | None:
    parts = []
    if told["queue_ms"]:
        parts.append(f"{_seconds(told['queue_ms'])} for its turn, or for room in memory")
    if told["evicted"]:
        parts.append(f"{', '.join(told['evicted'])} left for it")
    if told["load_ms"] is not None:
        parts.append(f"{_seconds(told['load_ms'])} for the model to load")
    return "; ".join(parts) or None


def _prompt(told: dict[str, Any]) -> str | None:
    parts = []
    if told["prompt_tokens"] is not None:
        cached = f", {told['cached_tokens']} of them cached" if told["cached_tokens"] else ""
        parts.append(f"{told['prompt_tokens']} tokens{cached}")
    if told["prefill_tok_per_sec"] is not None:
        parts.append(f"read at {figure(told['prefill_tok_per_sec'])} tok/s")
    if told["ttft_ms"] is not None:
        parts.append(f"first token after {_seconds(told['ttft_ms'])}")
    return "; ".join(parts) or None


def _answer(told: dict[str, Any]) -> str | None:
    parts = []
    if told["completion_tokens"] is not None:
        mark = "about " if told["tokens_counted"] else ""
        parts.append(f"{mark}{told['completion_tokens']} tokens")
    if told["tok_per_sec"] is not None:
        parts.append(f"{figure(told['tok_per_sec'])} tok/s")
    if told["duration_ms"] is not None:
        parts.append(f"{_seconds(told['duration_ms'])} in all")
    if told["status"] is not None:
        parts.append(f"status {told['status']}")
    return "; ".join(parts) or None


def _energy(told: dict[str, Any]) -> str | None:
    if told["energy_j"] is None:
        return None
    parts = [
        f"{name} {figure(told[key])}"
        for name, key in (("GPU", "energy_gpu_j"), ("CPU", "energy_cpu_j"))
        if told[key] is not None
    ]
    text = f"{figure(told['energy_j'])} J {told['energy']} ({', '.join(parts)})"
    if told["tok_per_j"] is not None:
        text += f"; {figure(told['tok_per_j'])} tok/J"
    return text


def _cost(told: dict[str, Any]) -> str | None:
    currency = told["currency"]
    if told["local"]:
        paid = told["energy_cost"]
        return None if paid is None else f"{_money(paid)} {currency} of electricity"
    if told["cost"] is not None:
        return f"{_money(told['cost'])} {currency} by the price table"
    if told["local"] is None or told["prompt_tokens"] is None:
        return None
    return f'price unknown: set [prices."{told["model"]}"] in config.toml'


def _money(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 or not value else f"{value:.2g}"


def _seconds(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"
