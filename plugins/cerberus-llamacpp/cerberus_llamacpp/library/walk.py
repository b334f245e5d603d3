"""Every GGUF file under a folder, links followed, loops not."""

import os
from collections.abc import Iterator
from pathlib import Path

import attrs


@attrs.frozen
class File:
    """A file with the facts that tell whether it changed."""

    path: Path
    size: int
    mtime_ns: int
    identity: tuple[int, int]
    """Device and inode: the same for every link to one file."""

    @property
    def name(self) -> str:
        """Its name without the suffix, always fit to print and to encode."""
        return os.fsencode(self.path.name).decode(errors="replace")[: -len(".gguf")]


def walk(root: Path) -> Iterator[File]:
    """The `.gguf` files under `root`, in the order of their paths.

    Hidden folders are left out (downloads begin their life in one), links to
    nowhere too. A folder that can't be read has no files.
    """
    seen: set[tuple[int, int]] = set()
    pending = [root]
    while pending:
        folder = pending.pop()
        try:
            stat = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        if (stat.st_dev, stat.st_ino) in seen:
            continue
        seen.add((stat.st_dev, stat.st_ino))
        folders = []
        for entry in entries:
            try:
                if entry.is_dir():
                    if not entry.name.startswith("."):
                        folders.append(folder / entry.name)
                elif entry.name.lower().endswith(".gguf") and entry.is_file():
                    # Not entry.stat(): on Windows it knows no inode.
                    facts = os.stat(entry.path)
                    identity = (facts.st_dev, facts.st_ino)
                    yield File(folder / entry.name, facts.st_size, facts.st_mtime_ns, identity)
            except OSError:
                continue
        pending.extend(reversed(folders))
