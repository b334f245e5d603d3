"""Clients that speak Anthropic Messages, backends that speak OpenAI Chat Completions. Pure.

What has no counterpart:

* Dropped, since it changes no answer's meaning: `cache_control`, `context_management`,
  `container`, `service_tier`, `speed` and their like; signatures of thinking; Claude
  Code's billing line in `system`, which is never the same twice and so would spoil
  every engine's prompt cache.
* Refused, since the answer would be another: tools that run at the provider (web search,
  code execution, MCP servers), documents that aren't text, files by id.
* System messages in the middle stay where they are, as marked text of the user's turn;
  those before the first turn go into the system message.
* An empty tool result says "(no output)" (some models stop at an empty one), a failed
  one begins with "Error", and its images follow in a user's message.
"""

from .answer import answer
from .count import count_request, estimate_tokens
from .request import request
from .stream import MessagesOverChat
from .target import Target
from .words import Asked

__all__ = [
    "Asked",
    "MessagesOverChat",
    "Target",
    "answer",
    "count_request",
    "estimate_tokens",
    "request",
]
