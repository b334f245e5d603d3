"""Which projector belongs to which model."""

import re
from collections.abc import Sequence

import attrs

from cerberus_llamacpp.gguf import Header

from .walk import File

_MARK = re.compile(r"mm-?proj(ector)?", re.IGNORECASE)
_FILLER = frozenset({"", "f16", "f32", "bf16", "fp16", "fp32", "q8", "0", "model"})
_BEST_FIRST = {"f16": 0, "bf16": 1, "q8_0": 2, "f32": 3}


@attrs.frozen
class Projector:
    file: File
    header: Header

    @property
    def width(self) -> int | None:
        """Length of the embeddings that it makes; its model must have the same."""
        for kind in ("vision", "audio"):
            width = self.header.metadata.get(f"clip.{kind}.projection_dim")
            if isinstance(width, int):
                return width
        return None

    @property
    def model_words(self) -> str:
        """What its name says about the model; "" for a bare `mmproj-F16`."""
        words = re.split(r"[-_. ]+", _MARK.sub(" ", self.file.name.casefold()))
        return _plain("".join([word for word in words if word not in _FILLER]))

    @property
    def order(self) -> tuple[int, str]:
        lower = self.file.name.lower()
        ranks = [rank for word, rank in _BEST_FIRST.items() if word in lower]
        return (min(ranks, default=9), self.file.name)


def is_projector(name: str, header: Header) -> bool:
    """By what its metadata say, or by its name."""
    if header.text("general.type") == "mmproj" or header.architecture == "clip":
        return True
    return _MARK.search(name) is not None


def projector_for(
    name: str, header: Header, projectors: Sequence[Projector], alone: bool
) -> File | None:
    """The projector among those in the model's folder that fits, or None.

    Embedding lengths must not contradict. Then its name must name the model,
    or nobody; one that names something else fits only a model that is `alone`
    in its folder.
    """
    width = header.number("embedding_length")
    best: tuple[int, tuple[int, str]] | None = None
    chosen: File | None = None
    for projector in projectors:
        if None not in (width, projector.width) and width != projector.width:
            continue
        words = projector.model_words
        if words and words in _plain(name):
            rank = 0
        elif not words:
            rank = 1
        elif alone:
            rank = 2
        else:
            continue
        if best is None or (rank, projector.order) < best:
            best, chosen = (rank, projector.order), projector.file
    return chosen


def _plain(text: str) -> str:
    return "".join([letter for letter in text.casefold() if letter.isalnum()])
