"""Which files make one model: `name-00001-of-00003.gguf` and its sisters."""

import re
from collections.abc import Iterable
from pathlib import Path

import attrs

from .walk import File

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})", re.DOTALL)


@attrs.frozen
class Group:
    """The files of one model, in order, and the names of the parts that are missing."""

    name: str
    files: tuple[File, ...]
    missing: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return self.files[0].path.parent


def shard_of(name: str) -> tuple[str, int, int] | None:
    """(name of the whole, number, count) of a shard; None for any other file.

    >>> shard_of("qwen-00002-of-00003")
    ('qwen', 2, 3)
    >>> shard_of("best-of-breed")
    """
    match = _SHARD.fullmatch(name)
    if match is None:
        return None
    number, count = int(match["number"]), int(match["count"])
    return (match["stem"], number, count) if 1 <= number <= count else None


def grouped(files: Iterable[File]) -> list[Group]:
    """Files as models, in the order of their first file."""
    wholes: dict[tuple[Path, str, int], dict[int, File]] = {}
    for index, file in enumerate(files):
        shard = shard_of(file.name)
        if shard is None:
            wholes[file.path.parent, file.name, -index] = {1: file}
        else:
            stem, number, count = shard
            wholes.setdefault((file.path.parent, stem, count), {})[number] = file
    return [_group(name, max(count, 1), parts) for (_, name, count), parts in wholes.items()]


def _group(name: str, count: int, parts: dict[int, File]) -> Group:
    # A count of 99,999 with one file there is a name to distrust, not a list to print.
    missing = [number for number in range(1, count + 1) if number not in parts]
    names = tuple([f"{name}-{number:05d}-of-{count:05d}.gguf" for number in missing[:3]])
    if len(missing) > len(names):
        names += (f"{len(missing) - len(names)} more",)
    return Group(name, tuple([parts[number] for number in sorted(parts)]), names)
