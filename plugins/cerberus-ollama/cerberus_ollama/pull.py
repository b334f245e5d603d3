"""`POST /api/pull`: Ollama fetches, we watch. What was broken off goes on by itself."""

from collections.abc import Callable

from cerberus_core.errors import BadRequest, Unavailable
from cerberus_core.servers import Refused
from cerberus_core.values import PullProgress

from .server import Server

SILENCE_S = 300.0
"""Seconds that a pull may say nothing: checking a large file's sum is silent."""


async def pull(server: Server, ref: str, report: Callable[[PullProgress], None]) -> None:
    """Returns when Ollama says `success`."""
    if not ref.strip():
        raise BadRequest("Which model?", hint="Write ollama:name or ollama:name:tag.")
    done = False
    try:
        body = {"model": ref, "stream": True}
        async for told in server.lines("/api/pull", body, silence_s=SILENCE_S):
            if isinstance(told.get("error"), str):
                raise Refused(200, told["error"])
            digest = told.get("digest")
            if isinstance(digest, str):  # other lines are steps, not files
                report(_progress(digest, told))
            done = told.get("status") == "success"
    except Refused as error:
        raise Unavailable(
            f"Ollama could not pull {ref}: {error}",
            hint="See the names at https://ollama.com/library.",
        ) from None
    if not done:
        raise Unavailable(
            f"Ollama broke off the pull of {ref}", hint="The same command goes on with it."
        )


def _progress(digest: str, told: dict[str, object]) -> PullProgress:
    def number(key: str) -> int | None:
        value = told.get(key)
        good = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        return value if good and isinstance(value, int) else None

    return PullProgress(
        file=digest.removeprefix("sha256:")[:12],
        done=number("completed") or 0,
        total=number("total"),
    )
