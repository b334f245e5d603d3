"""The program `lms`, for what an older LM Studio's REST API can't do."""

import asyncio
from collections.abc import Sequence

from cerberus_core.errors import LoadFailed, Unavailable

MOST_CHARS = 2000


async def run(lms: str | None, arguments: Sequence[str], *, limit_s: float | None) -> str:
    """What it prints. Raises `LoadFailed` with its last words, `Unavailable` without it.

    When cancelled, or after `limit_s`, it is ended.
    """
    if lms is None:
        raise Unavailable(
            "This LM Studio is older than 0.4.0, and `lms` is not on PATH",
            hint="Update LM Studio, or run `~/.lmstudio/bin/lms bootstrap`.",
        )
    try:
        process = await asyncio.create_subprocess_exec(
            lms,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,  # it asks no questions of nobody
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise Unavailable(f"{lms} can't be run: {error}", hint="`lms version`") from None
    try:
        async with asyncio.timeout(limit_s):
            output, _ = await process.communicate()
    except TimeoutError:
        raise Unavailable(
            f"`lms {arguments[0]}` did not end within {limit_s:g} s", hint="Does LM Studio hang?"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = output.decode(errors="replace").strip()
    if process.returncode:
        words = text[-MOST_CHARS:] or f"exit code {process.returncode}"
        raise LoadFailed(f"`lms {arguments[0]}` failed: {words}", hint="`lms log stream`")
    return text
