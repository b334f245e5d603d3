"""`cerberus chat`: one question, or a conversation."""

import json as jsonlib
import sys
from typing import Annotated, Any

import typer

from .daemon_client import DaemonClient
from .options import Json
from .output import figure, printable, say, say_json, show_error, warn

app = typer.Typer(add_completion=False, rich_markup_mode=None)

HELP = "/new starts over, /bye or Ctrl-D ends, Ctrl-C stops an answer."


@app.command()
def chat(
    prompt: Annotated[
        str | None, typer.Argument(help="What to ask; without it a conversation begins.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Which model.")] = None,
    system: Annotated[str | None, typer.Option(help="A system prompt.")] = None,
    json: Json = False,
) -> None:
    """Talk to a model through the daemon; the answer streams, its speed follows.

    Without a prompt, and with something piped in, that is the prompt.
    """
    if prompt is None and not sys.stdin.isatty():
        prompt = sys.stdin.read().strip()
    if prompt is not None and not prompt.strip():
        from cerberus_core.errors import CerberusError

        raise CerberusError(
            "There is nothing to ask", hint='Write `cerberus chat "…"`.', code="usage"
        )
    daemon = DaemonClient()
    talk = Talk(daemon, model or _choose(daemon), system)
    if prompt is not None:
        answer = talk.ask(prompt, show=not json)
        if json:
            say_json(answer)
        if answer["stopped"]:
            raise typer.Exit(130)
    else:
        _converse(talk)


class Talk:
    """A conversation with one model."""

    def __init__(self, daemon: DaemonClient, model: str, system: str | None) -> None:
        self.model = model
        self._daemon = daemon
        self._start = [{"role": "system", "content": system}] if system else []
        self.messages: list[dict[str, Any]] = list(self._start)

    def start_over(self) -> None:
        self.messages = list(self._start)

    def ask(self, text: str, *, show: bool) -> dict[str, Any]:
        """Ask and stream; {"model", "text", "usage", "stopped"}.

        The conversation grows by both sides. An answer that is stopped with Ctrl-C
        stays as far as it came.
        """
        self.messages.append({"role": "user", "content": text})
        pieces: list[str] = []
        usage: dict[str, Any] = {}
        body = {
            "model": self.model,
            "messages": self.messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        lines = self._daemon.lines("POST", "/v1/chat/completions", body)
        stopped = done = False
        try:
            for line in lines:
                done = done or line == b"data: [DONE]"
                piece = self._take(line, usage, show)
                if piece:
                    pieces.append(piece)
                    if show:
                        sys.stdout.write(printable(piece))
                        sys.stdout.flush()
        except KeyboardInterrupt:
            stopped = True
        finally:
            lines.close()  # type: ignore[attr-defined]
            if not pieces:
                self.messages.pop()
        answer = "".join(pieces)
        if pieces:
            self.messages.append({"role": "assistant", "content": answer})
        if show:
            say()
        if not (done or stopped):
            from cerberus_core.errors import DaemonUnreachable

            raise DaemonUnreachable(
                "The daemon broke off its answer", hint="`cerberus status` says whether it runs."
            )
        if show:
            warn("(stopped)" if stopped else _speed(usage))
        return {"model": self.model, "text": answer, "usage": usage or None, "stopped": stopped}

    def _take(self, line: bytes, usage: dict[str, Any], show: bool) -> str:
        if line.startswith(b": loading") and show and sys.stderr.isatty():
            sys.stderr.write(f"\r{line[2:].decode(errors='replace')} \r")
        if not line.startswith(b"data: ") or line == b"data: [DONE]":
            return ""
        event = jsonlib.loads(line[6:])
        if "error" in event:
            from cerberus_core.errors import Unavailable

            error = event["error"]
            raise Unavailable(error["message"], hint=error.get("hint"), code=error.get("code"))
        if event.get("usage"):
            usage.update(event["usage"])
        choices = event.get("choices") or [{}]
        delta = choices[0].get("delta") or {}
        return str(delta.get("content") or "")


def _converse(talk: Talk) -> None:
    import contextlib

    from cerberus_core.errors import CerberusError, DaemonUnreachable

    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - line editing for input()
    warn(f"Talking to {talk.model}. {HELP}")
    while True:
        try:
            text = input("> ").strip()
            if text in ("/bye", "/exit", "/quit"):
                return
            if text == "/new":
                talk.start_over()
                warn("A new conversation.")
            elif text.startswith("/"):
                warn(HELP)
            elif text:
                talk.ask(text, show=True)
        except EOFError:
            say()
            return
        except KeyboardInterrupt:
            warn(f"\n{HELP}")
        except DaemonUnreachable:
            raise
        except CerberusError as error:
            show_error(error, as_json=False)


def _choose(daemon: DaemonClient) -> str:
    """What the daemon says is the one to talk to."""
    from urllib.parse import quote

    from cerberus_core.errors import CerberusError, DaemonUnreachable, NotFound

    listed = daemon.get("/api/models")
    default = listed["default"]
    if default is None:
        raise NotFound(
            "There is no model to chat with",
            hint="`cerberus models pull starter` fetches a small one.",
        )
    if all(model["id"] != default for model in listed["models"]):
        try:
            daemon.get(f"/v1/models/{quote(default)}")
        except DaemonUnreachable:
            raise
        except CerberusError as error:
            whose = f"{default!r} is `default_model` of the settings."
            error.hint = f"{whose} {error.hint}" if error.hint else whose
            raise
    return str(default)


def _speed(usage: dict[str, Any]) -> str:
    own = usage.get("cerberus") or {}
    facts = []
    if usage.get("completion_tokens") is not None:
        facts.append(f"{usage['completion_tokens']} tokens")
    if own.get("tok_per_sec") is not None:
        facts.append(f"{figure(own['tok_per_sec'])} tok/s")
    if own.get("ttft_ms") is not None:
        facts.append(f"first token {own['ttft_ms']} ms")
    if (own.get("queue_ms") or 0) >= 100:  # less is no wait that anybody felt
        facts.append(f"waited {own['queue_ms'] / 1000:.1f} s")
    if own.get("load_ms"):
        facts.append(f"loaded in {own['load_ms'] / 1000:.1f} s")
    if own.get("energy_j") is not None:
        facts.append(_energy(own))
    if own.get("tok_per_j") is not None:
        facts.append(f"{figure(own['tok_per_j'])} tok/J")
    return " · ".join(facts)


def _energy(own: dict[str, Any]) -> str:
    """`~12.3 J (GPU 10.1, CPU 2.2)`; ~ marks an estimate."""
    mark = "~" if own.get("energy") == "estimated" else ""
    parts = [
        f"{name} {figure(own[key])}"
        for name, key in (("GPU", "energy_gpu_j"), ("CPU", "energy_cpu_j"))
        if own.get(key) is not None
    ]
    return f"{mark}{figure(own['energy_j'])} J ({', '.join(parts)})"
