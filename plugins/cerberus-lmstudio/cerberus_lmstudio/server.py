"""LM Studio's REST API.

Paths and shapes: `1_developer/2_rest` of github.com/lmstudio-ai/docs.
"""

from collections.abc import Mapping
from typing import Any

from cerberus_core.errors import Unavailable
from cerberus_core.servers import ASK_LIMIT_S, ModelServer, Refused


class Server(ModelServer):
    """One LM Studio by its address."""

    program = "LM Studio"
    plugin = "lmstudio"
    start = "lms server start"

    async def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        limit_s: float | None = ASK_LIMIT_S,
    ) -> dict[str, Any]:
        told = await super().ask(path, body, headers=headers, limit_s=limit_s)
        if "error" in told:
            # Paths that it doesn't know are answered with 200 and an error.
            raise Refused(200, self.words(told) or "it answered with an error")
        return told

    def refusal(self, status: int, words: str | None) -> Exception:
        if status in (401, 403):
            return Unavailable(
                f"LM Studio refused the API token ({status})",
                hint="Set plugins.lmstudio.api_key or api_key_env to a token that it knows.",
                code="lmstudio_key",
            )
        return super().refusal(status, words)
