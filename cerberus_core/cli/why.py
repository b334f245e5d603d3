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
    json: Json = False,
) -> None:
    """Show where a request went and why, what it waited for, and what it cost."""
    from urllib.parse import quote

    daemon = DaemonClient()
    told = daemon.get(f"/api/requests/{quote(request, safe='')}")
    if curl:
        say(curl_line(told, daemon.url))
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
        ("error", told["error"]),
    ]
    return [f"{name:8} {text}" for name, text in rows if text]


def curl_line(told: dict[str, Any], url: str) -> str:
    """The same request again: with the key's command, not the key; the prompt is not kept."""
    import json
    import shlex

    head = f'curl {url}{told["path"]} -H "Authorization: Bearer $(cerberus token)" '
    if told["path"] in _FORMS:
        model = shlex.quote(f"model={told['asked'] or told['model']}")
        return f"{head}-F {model} -F {_FORMS[told['path']]}=@…"
    body = {"model": told["asked"] or told["model"], _CONTENT.get(told["path"], "messages"): "…"}
    if told["stream"]:
        body["stream"] = True
    text = shlex.quote(json.dumps(body, ensure_ascii=False))
    return f"{head}-H 'Content-Type: application/json' -d {text}"


_FORMS = {
    "/v1/audio/transcriptions": "file",
    "/v1/audio/translations": "file",
    "/v1/images/edits": "image",
}
_CONTENT = {
    "/v1/audio/speech": "input",
    "/v1/images/generations": "prompt",
    "/v1/completions": "prompt",
    "/v1/embeddings": "input",
    "/v1/responses": "input",
    "/v1/rerank": "query",
}


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


def _seconds(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"
