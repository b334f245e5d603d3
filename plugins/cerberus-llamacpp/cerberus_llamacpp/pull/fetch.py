"""Fetch one file, going on where an earlier try ended.

`hf_hub_download` throws away what it has when it fails (huggingface_hub 2), so
the file is kept here, and only the client's transfer (`http_get`: ranges,
retries, redirects, tokens) is used. Pieces of 1 MiB instead of its 10: a piece
that is cut is lost, and a slow line shall show progress.
"""

import hashlib
from pathlib import Path

from cerberus_core.errors import Unavailable

from .choose import RemoteFile
from .count import Count

_PIECE = 1 << 20


def fetch(url: str, part: Path, file: RemoteFile, count: Count) -> None:
    """Make `part` the whole of `file`. Raises `Unavailable` if it came damaged."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils._headers import build_hf_headers

    if file.size is not None and file.size > constants.MAX_HTTP_DOWNLOAD_SIZE:
        raise Unavailable(
            f"{file.name} is too large: the hub gives files of more than 50 GB in one piece"
            " to its own client only",
            hint="Pull a quantisation that is split into parts.",
        )
    constants.DOWNLOAD_CHUNK_SIZE = _PIECE
    part.parent.mkdir(parents=True, exist_ok=True)
    part.touch()
    with part.open("r+b") as target:
        have = target.seek(0, 2)
        if file.size is not None and have > file.size:
            have = 0
            target.truncate(0)
            target.seek(0)
        http_get(
            url,
            target,
            resume_size=have,
            headers=build_hf_headers(),
            expected_size=file.size,
            displayed_filename=file.name,
            tqdm_class=count.bar(),
        )
    if file.sha256 is not None and _sha256(part) != file.sha256:
        part.unlink()
        raise Unavailable(f"{file.name} came damaged (its SHA-256 is wrong)", hint="Pull again.")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
