"""Ollama's own HTTP API.

Paths and shapes: `docs/api.md` of github.com/ollama/ollama.
"""

from cerberus_core.errors import Overloaded
from cerberus_core.servers import ModelServer


class Server(ModelServer):
    """One Ollama by its address. Raises `Overloaded` too, where its queue is full."""

    program = "Ollama"
    plugin = "ollama"
    start = "ollama serve"

    def refusal(self, status: int, words: str | None) -> Exception:
        if status == 503:
            told = words or f"it answered {status}"
            return Overloaded(f"Ollama is busy: {told}", hint="OLLAMA_MAX_QUEUE is its limit.")
        return super().refusal(status, words)
