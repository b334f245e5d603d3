"""What a reference asks for, and which files of a repository answer it. Pure."""

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

import attrs

from cerberus_core.errors import BadRequest, NotFound
from cerberus_llamacpp.library.shards import shard_of

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_PAGE = re.compile(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/", re.IGNORECASE)
_REVISION = re.compile(r"^([^/]+/[^/]+)/(?:tree|blob|resolve)/[^/]+")
_QUANT = re.compile(
    r"(?:^|[-_.])((?:UD-)?(?:I?Q\d\w*|TQ\d_\d|BF16|FP?16|FP?32|MXFP4\w*))(?=$|[-.])", re.IGNORECASE
)
_BEST_FIRST = ("q4_k_m", "q4_k_s", "q4_0", "q4_1", "iq4_xs", "q5_k_m", "q6_k", "q8_0")
_PROJECTORS_FIRST = ("f16", "bf16", "q8_0", "f32")


@attrs.frozen
class Wish:
    """A repository, and perhaps a quantisation or one file of it."""

    repo: str
    quant: str | None = None
    file: str | None = None


@attrs.frozen
class RemoteFile:
    """A file of the repository; `size` in bytes, None where the hub does not say."""

    path: str
    size: int | None
    sha256: str | None = None

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


def parse(ref: str) -> Wish:
    """`org/repo`, `org/repo:quant`, `org/repo/path/file.gguf`, or its page on the hub.

    Raises `BadRequest`.
    """
    place, _, quant = _without_host(ref).partition(":")
    parts = place.split("/")
    path = parts[2:]
    named = len(parts) >= 2 and all(_NAME.fullmatch(part) for part in parts[:2])
    if not named or (path and (quant or not path[-1].lower().endswith(".gguf"))):
        raise BadRequest(
            f"{ref!r} names no model to pull",
            hint="Write org/repo, org/repo:quant, org/repo/file.gguf, a page's address or starter.",
        )
    return Wish("/".join(parts[:2]), quant or None, "/".join(path) or None)


def _without_host(ref: str) -> str:
    """`org/repo…` of an address as a browser shows it."""
    page = _PAGE.match(ref)
    if page is not None:
        path = ref[page.end() :].partition("?")[0].partition("#")[0].rstrip("/")
        return _REVISION.sub(r"\1", path)
    if "://" in ref:
        raise BadRequest(
            f"{ref!r} is no page of a model on the hub",
            hint="Write org/repo, or https://huggingface.co/org/repo; put a GGUF file from "
            "elsewhere into the models folder.",
        )
    return ref


def choose(wish: Wish, files: Iterable[RemoteFile]) -> list[RemoteFile]:
    """The files to fetch: the model's (shards in order), then its projector.

    Raises `NotFound`, naming what there is.
    """
    ggufs = [file for file in files if file.name.lower().endswith(".gguf") and _inside(file.path)]
    projectors = [file for file in ggufs if "mmproj" in file.name.lower()]
    groups: dict[str, list[RemoteFile]] = {}
    for file in sorted(ggufs, key=lambda file: file.path):
        if file not in projectors:
            groups.setdefault(_whole(file.path), []).append(file)
    if not groups:
        raise NotFound(
            f"{wish.repo} holds no GGUF file", hint='Look for a repository with "GGUF" in its name.'
        )
    chosen = list(_pick(wish, groups))
    if projectors:
        chosen.append(min(projectors, key=lambda file: _rank(file.name, _PROJECTORS_FIRST)))
    return chosen


def quant_of(name: str) -> str | None:
    """The quantisation that a file name (without suffix) tells, as written."""
    found = _QUANT.findall(name)
    return found[-1] if found else None


def _pick(wish: Wish, groups: dict[str, list[RemoteFile]]) -> Sequence[RemoteFile]:
    if wish.file is not None:
        whole = _whole(wish.file)
        if whole not in groups:
            raise NotFound(f"{wish.repo} has no file {wish.file}", hint=_there_is(groups))
        return groups[whole]
    if wish.quant is not None:
        asked = wish.quant.lower()
        for whole, files in groups.items():
            if (quant_of(PurePosixPath(whole).name) or "").lower() == asked:
                return files
        raise NotFound(f"{wish.repo} has no quantisation {wish.quant}", hint=_there_is(groups))
    return groups[min(groups, key=lambda whole: _rank(PurePosixPath(whole).name, _BEST_FIRST))]


def _whole(path: str) -> str:
    stem = path[: -len(".gguf")]
    shard = shard_of(stem)
    return shard[0] if shard else stem


def _rank(name: str, order: tuple[str, ...]) -> tuple[int, str]:
    quant = (quant_of(name.removesuffix(".gguf")) or "").lower()
    return (order.index(quant) if quant in order else len(order), name)


def _there_is(groups: dict[str, list[RemoteFile]]) -> str:
    names = [PurePosixPath(whole).name for whole in groups]
    return "There is: " + ", ".join([quant_of(name) or name for name in names])


def _inside(path: str) -> bool:
    # What a server says is no path to trust.
    parts = path.replace("\\", "/").split("/")
    return not any(part in ("", ".", "..") for part in parts)
