"""Look through the folders and say which models are there."""

import os
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

import attrs

from cerberus_llamacpp.gguf import GGUFError, Header, read_header

from .found import Found
from .projectors import Projector, is_projector, projector_for
from .shards import Group, grouped
from .walk import File, walk

_NO_MODELS = frozenset({"adapter", "imatrix", "dataset", "vocab"})


class Library:
    """The models under `roots`. A header is read once for each path, size and time."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = tuple(roots)
        self._headers: dict[File, Header | str] = {}
        self.looking_at: Path | None = None
        """What the scan that runs is reading."""

    def scan(self) -> dict[str, Found]:
        """Name → model, broken ones included. Blocks: call it in a thread.

        A name that was met before gets its folder added (`name@folder`): the
        first in the order of folders and paths keeps the plain one.
        """
        fresh: dict[File, Header | str] = {}
        projectors: dict[Path, list[Projector]] = defaultdict(list)
        models: dict[str, Found] = {}
        for root, group in self._groups():
            headers = [self._read(file, fresh) for file in group.files]
            first = headers[0]
            if isinstance(first, Header):
                if first.text("general.type") in _NO_MODELS:
                    continue
                if is_projector(group.files[0].name, first):
                    projectors[group.folder].append(Projector(group.files[0], first))
                    continue
            name = _free_name(group, root, models)
            models[name] = _found(name, group, headers)
        self._headers = fresh
        return _with_projectors(models, projectors)

    def _groups(self) -> Iterator[tuple[Path, Group]]:
        seen: set[tuple[int, int]] = set()
        for root in self.roots:
            self.looking_at = root
            for group in grouped(walk(root)):
                if group.files[0].identity not in seen:
                    seen.add(group.files[0].identity)
                    yield root, group

    def _read(self, file: File, fresh: dict[File, Header | str]) -> Header | str:
        verdict = self._headers.get(file)
        if verdict is None:
            self.looking_at = file.path
            try:
                verdict = read_header(file.path)
            except GGUFError as error:
                verdict = str(error)
        fresh[file] = verdict
        return verdict


def _found(name: str, group: Group, headers: Sequence[Header | str]) -> Found:
    first = headers[0]
    return Found(
        name=name,
        shards=tuple([file.path for file in group.files]),
        size=sum([file.size for file in group.files]),
        header=first if isinstance(first, Header) else None,
        problem=_problem(group, headers),
    )


def _problem(group: Group, headers: Sequence[Header | str]) -> str | None:
    if group.missing:
        verb = "is" if len(group.missing) == 1 else "are"
        return f"{', '.join(group.missing)} {verb} missing"
    for file, header in zip(group.files, headers, strict=True):
        if isinstance(header, str):
            return header if len(headers) == 1 else f"{file.path.name}: {header}"
    first = headers[0]
    assert isinstance(first, Header)
    if first.architecture is None:
        return "damaged: its header names no architecture"
    if first.tensors == 0 and len(headers) == 1:
        return "holds no weights"
    return None


def _free_name(group: Group, root: Path, taken: Container[str]) -> str:
    if group.name not in taken:
        return group.name
    inside = group.folder.relative_to(root)
    # A folder's name may hold bytes that are no text.
    place = os.fsencode(root.name if inside == Path() else inside).decode(errors="replace")
    name = f"{group.name}@{place}"
    number = 2
    while name in taken:
        name = f"{group.name}@{place}-{number}"
        number += 1
    return name


def _with_projectors(
    models: dict[str, Found], projectors: dict[Path, list[Projector]]
) -> dict[str, Found]:
    count: dict[Path, int] = defaultdict(int)
    for model in models.values():
        count[model.path.parent] += 1
    for name, model in models.items():
        near = projectors.get(model.path.parent)
        if near and model.header is not None and model.pooling is None:
            alone = count[model.path.parent] == 1
            chosen = projector_for(model.name, model.header, near, alone)
            if chosen is not None:
                models[name] = attrs.evolve(
                    model, projector=chosen.path, projector_size=chosen.size
                )
    return models
