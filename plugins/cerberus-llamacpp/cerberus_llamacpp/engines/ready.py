"""Wait until an engine answers, and be sure that it is the engine that answers."""

import asyncio
from collections.abc import Callable
from typing import Any

import attrs
import httpx

from cerberus_core.errors import LoadFailed
from cerberus_core.platform import Child

from .launch import Started
from .vitals import owns, signs

_POLL_S = (0.05, 0.1, 0.2, 0.25)


class EngineDied(Exception):
    """It ended before it was ready."""


class Stalled(Exception):
    """No sign of life for too long."""


@attrs.frozen
class Ready:
    url: str
    ctx: int | None
    """Tokens of context for one request."""
    system_first: bool = False
    """Its chat template takes a system message at the beginning alone."""


async def until_ready(
    started: Started, key: str, stall_s: float, alive: Callable[[], None]
) -> Ready:
    """Returns once requests can be sent. `alive` is called at each sign of life.

    Raises `EngineDied` the moment the process ends, and `Stalled` after
    `stall_s` seconds in which log, memory and reading all stood still.
    """
    child = started.child
    ended = asyncio.ensure_future(child.wait())
    answers = asyncio.ensure_future(_answers(started, key))
    try:
        pulse = _Pulse(child, stall_s)
        step = 0
        while True:
            wait_s = _POLL_S[min(step, len(_POLL_S) - 1)]
            step += 1
            await asyncio.wait(
                {ended, answers}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED
            )
            if ended.done():
                raise EngineDied(str(ended.result()))
            if answers.done():
                return answers.result()
            if await pulse.beats():
                alive()
    finally:
        for task in (ended, answers):
            task.cancel()
        await asyncio.gather(ended, answers, return_exceptions=True)


class _Pulse:
    def __init__(self, child: Child, stall_s: float) -> None:
        self._child, self._stall_s = child, stall_s
        self._best = (0, 0, 0)
        self._last = asyncio.get_running_loop().time()

    async def beats(self) -> bool:
        now = asyncio.get_running_loop().time()
        seen = await asyncio.to_thread(signs, self._child)
        if any(new > old for new, old in zip(seen, self._best, strict=True)):
            self._best = tuple(map(max, seen, self._best))  # type: ignore[assignment]
            self._last = now
            return True
        if now - self._last > self._stall_s:
            raise Stalled
        return False


async def _answers(started: Started, key: str) -> Ready:
    url = await started.where()
    port = httpx.URL(url).port or 0
    step = 0
    # trust_env=False: a proxy of the environment has no business on loopback.
    async with httpx.AsyncClient(base_url=url, timeout=5.0, trust_env=False) as client:
        while True:
            # Before anything is asked: a stranger on the port gets not even the key.
            ours = await asyncio.to_thread(owns, started.child, port)
            if ours is not False:
                props = await _props(client, key, known=ours is True)
                if props is not None:
                    settings = props.get("default_generation_settings") or {}
                    ctx = settings.get("n_ctx")
                    return Ready(
                        url,
                        ctx if isinstance(ctx, int) and ctx > 0 else None,
                        await _system_first(client, key),
                    )
            await asyncio.sleep(_POLL_S[min(step, len(_POLL_S) - 1)])
            step += 1


async def _props(client: httpx.AsyncClient, key: str, *, known: bool) -> dict[str, Any] | None:
    """`/props` of an engine that is ready and has our key; None if it isn't (yet).

    Where the owner of the port is not `known`, it must refuse whoever has no
    key before it is shown ours. Raises `LoadFailed` if it refuses ours.
    """
    try:
        if (await client.get("/health")).status_code != 200:
            return None
        if not known and (await client.get("/props")).status_code not in (401, 403):
            return None
        answer = await client.get("/props", headers={"Authorization": f"Bearer {key}"})
        if answer.status_code in (401, 403) and known:
            raise LoadFailed("the engine answers, and refuses the key that it was given")
        props = answer.json() if answer.status_code == 200 else None
    except (httpx.HTTPError, ValueError):
        return None
    return props if isinstance(props, dict) else None


_SAID = "Be so kind."
_TURNS = [
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "Again."},
]
_SYSTEM = {"role": "system", "content": _SAID}


async def _system_first(client: httpx.AsyncClient, key: str) -> bool:
    """Whether the template says something at the beginning that it doesn't say in the middle."""
    at_first = await _says(client, key, [_SYSTEM, *_TURNS])
    return at_first and not await _says(client, key, [*_TURNS[:2], _SYSTEM, *_TURNS[2:]])


async def _says(client: httpx.AsyncClient, key: str, messages: list[dict[str, str]]) -> bool:
    """Whether the system message stands in the prompt that the engine makes of these."""
    headers = {"Authorization": f"Bearer {key}"}
    try:
        answer = await client.post("/apply-template", json={"messages": messages}, headers=headers)
        return answer.status_code == 200 and _SAID in answer.json()["prompt"]
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return False
