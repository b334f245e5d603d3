"""One running engine, from the start of its process to its end."""

import re
import secrets
from collections.abc import Callable

import anyio

from cerberus_core.errors import LoadFailed
from cerberus_core.platform import Child

from .launch import Kind, Launch
from .ready import EngineDied, Ready, Stalled, until_ready

_TAKEN = re.compile(r"address (is )?already in use|address in use|couldn't bind", re.IGNORECASE)
_LAST_LINES = 12


class Engine:
    """A process that answers for one model."""

    def __init__(self, child: Child, ready: Ready, headers: dict[str, str]) -> None:
        self._child = child
        self.url = ready.url
        self.ctx = ready.ctx
        self.system_first = ready.system_first
        self.headers = headers

    @property
    def pid(self) -> int | None:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child.exit is None

    async def gone(self) -> str:
        """Wait for its end; how it ended, and its last words."""
        how = await self._child.wait()
        return _with_words(f"the engine ended with {how}", await self._words())

    async def stop(self, grace_s: float) -> None:
        """Returns when it is gone and reaped, its memory given back."""
        await self._child.stop(grace_s)

    async def _words(self) -> str:
        return await self._child.last_words(_LAST_LINES)


async def start(kind: Kind, launch: Launch, stall_s: float, alive: Callable[[], None]) -> Engine:
    """Start an engine and return it once it answers.

    Raises `LoadFailed`. Then, and when cancelled, nothing is left running.
    """
    for attempt in range(1, kind.attempts + 1):
        key = secrets.token_urlsafe(32)
        try:
            started = await kind.start(launch, key)
        except OSError as error:
            raise LoadFailed(f"the {kind.label} can't be started: {error}") from error
        child = started.child
        try:
            ready = await until_ready(started, key, stall_s, alive)
        except EngineDied as death:
            words = await child.last_words(_LAST_LINES)
            if _TAKEN.search(words) and attempt < kind.attempts:
                continue
            message = f"the {kind.label} ended with {death} while loading {launch.alias}"
            hint = f"Its whole log: {child.log}"
            if launch.chat_template is not None and "template" in words:
                message += f": {launch.chat_template} is no template that llama.cpp can use"
            raise LoadFailed(_with_words(message, words), hint=hint) from death
        except Stalled as stall:
            await _end(child)
            message = (
                f"{launch.alias} did not load: no sign of life for {stall_s:g} s"
                " (plugins.llamacpp.stall_s); its engine was stopped"
            )
            words = await child.last_words(_LAST_LINES)
            raise LoadFailed(
                _with_words(message, words), hint="Try again, or raise stall_s."
            ) from stall
        except BaseException:
            await _end(child)
            raise
        return Engine(child, ready, {"Authorization": f"Bearer {key}"})
    raise AssertionError("unreachable")


async def _end(child: Child) -> None:
    # The wait may not be cut short, or a zombie is left.
    with anyio.CancelScope(shield=True):
        await child.end()


def _with_words(message: str, words: str) -> str:
    return f"{message}; its last words:\n{words}" if words else message
