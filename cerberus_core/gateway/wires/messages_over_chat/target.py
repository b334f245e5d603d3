"""What a backend's Chat Completions can take."""

import attrs


@attrs.frozen(kw_only=True)
class Target:
    """What a translator must know of the backend and its model."""

    strict: bool = False
    """It refuses fields that OpenAI doesn't document, `top_k` among them."""
    reasons: bool = False
    """It knows `reasoning_effort`, and `reasoning_content` in the history."""
    images: bool = True
    """Its model sees images."""


OPEN = Target()
"""A backend that takes no notice of what it doesn't know: every local engine."""
