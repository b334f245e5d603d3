"""Processes that never outlive the daemon, in groups that are stopped whole.

    child = await spawn(["llama-server", …], log=folder / "model.log")
    …
    await child.stop(grace_s=10)

Between the daemon and the program stands a guard (`guard.py`), tied to the
daemon by a pipe: when the daemon dies, however it dies, the pipe closes and
the guard stops the program with everything it started. So no pid files are
kept and no number is ever signalled that might by now be somebody else's.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import anyio
import psutil

_GUARD = Path(__file__).with_name("guard.py")
GUARD_SLACK_S = 5.0
"""Seconds beyond any grace that a guard gets to obey an order."""
START_LIMIT_S = 30.0
"""Seconds that a guard gets to start its program."""
MOST_LINES = 10_000
"""Lines of standard output that wait to be taken; further ones are dropped."""


class Exit(NamedTuple):
    """How a process ended: an exit code, a signal, or (both None) nobody knows."""

    code: int | None = None
    signal: int | None = None

    def __str__(self) -> str:
        if self.code is not None:
            return f"exit code {self.code}"
        if self.signal is None:
            return "its guard was killed"
        try:
            return f"signal {self.signal} ({signal.Signals(self.signal).name})"
        except ValueError:
            return f"signal {self.signal}"


class Child:
    """A running program with its group. Made by `spawn`; ends by itself, by `stop` or `end`.

    One task of its own follows it until it has ended and is reaped. Whoever
    spawned it must `stop` or `end` it, or see `wait` return.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, log: Path, guard_slack_s: float
    ) -> None:
        self.log = log
        self._guard_slack_s = guard_slack_s
        self.pid: int | None = None
        """The program's number (not the guard's), which is its group's too."""
        self._process = process
        self.started: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        """Why the program could not be started; None if it was."""
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._exit: Exit | None = None
        self._follower = asyncio.create_task(self._follow(), name=f"follow {log.name}")

    @property
    def exit(self) -> Exit | None:
        """How it ended; None while it runs."""
        return self._exit if self._follower.done() else None

    async def line(self) -> str | None:
        """The next line of its standard output (with `relay`); None once it has ended."""
        line = await self._lines.get()
        if line is None:
            self._lines.put_nowait(None)
        return line

    async def wait(self) -> Exit:
        """Wait until it and its group have ended and are reaped."""
        await asyncio.wait([self._follower])
        self._follower.result()
        assert self._exit is not None
        return self._exit

    async def stop(self, grace_s: float) -> Exit:
        """SIGTERM to the group, `grace_s` seconds, SIGKILL. Harmless if it has ended."""
        return await self._obeyed(f"stop {grace_s}", grace_s)

    async def end(self) -> Exit:
        """SIGKILL to the group; returns when it has ended and is reaped."""
        return await self._obeyed("kill", 0)

    async def last_words(self, lines: int = 20) -> str:
        """The end of its log; empty if there is none."""
        return await asyncio.to_thread(tail, self.log, lines)

    async def _obeyed(self, command: str, grace_s: float) -> Exit:
        self._order(command)
        limit = grace_s + self._guard_slack_s
        done, _ = await asyncio.wait([self._follower], timeout=limit)
        if not done and self._process.returncode is None:
            # The guard itself hangs (stopped by somebody, say).
            await asyncio.to_thread(_kill_with_children, self._process.pid)
        return await self.wait()

    def _order(self, command: str) -> None:
        pipe = self._process.stdin
        if pipe is not None and not pipe.is_closing() and not self._follower.done():
            pipe.write(f"{command}\n".encode())

    async def _follow(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        async for raw in self._process.stdout:
            word, _, rest = raw.decode(errors="replace").rstrip("\n").partition(" ")
            if word == "out":
                if self._lines.qsize() < MOST_LINES:
                    self._lines.put_nowait(rest)
            elif word == "pid":
                self.pid = int(rest)
                self.started.set_result(None)
            elif word == "failed":
                self.started.set_result(rest)
                self._exit = Exit(code=127)
            elif word in ("exit", "signal"):
                number = int(rest)
                self._exit = Exit(code=number) if word == "exit" else Exit(signal=number)
        await self._process.wait()
        self._process.stdin.close()
        if self._exit is None:
            # Somebody killed the guard: what it watched has no parent any more.
            if self.pid is not None:
                _kill_group(self.pid)
            self._exit = Exit()
        if not self.started.done():
            self.started.set_result("its guard ended at once")
        self._lines.put_nowait(None)


async def spawn(
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    relay: bool = False,
    log_bytes: int = 1 << 20,
    orphan_grace_s: float = 2.0,
    start_limit_s: float = START_LIMIT_S,
    guard_slack_s: float = GUARD_SLACK_S,
) -> Child:
    """Start `argv` in a process group of its own, under a guard.

    Its output goes to `log` (begun anew; at most `log_bytes`, and one older
    file `….1`), standard output to `Child.line` instead with `relay`. Its
    standard input is empty. `env` defaults to this process's. Secrets belong
    there, never in `argv`. `orphan_grace_s`: seconds between SIGTERM and
    SIGKILL when the daemon is gone. No wait for the guard is without a limit.

    Raises OSError where the program can't be started. Cancelled, nothing is left.
    """
    options = {
        "argv": list(argv),
        "log": str(log),
        "log_bytes": log_bytes,
        "relay": relay,
        "orphan_grace_s": orphan_grace_s,
    }
    making = asyncio.ensure_future(_guarded(json.dumps(options), log, env, guard_slack_s))
    try:
        child = await asyncio.shield(making)
    except asyncio.CancelledError:
        # A guard is made in no time: seen to its end, it can be undone without a rest.
        with anyio.CancelScope(shield=True), contextlib.suppress(OSError):
            await (await making).end()
        raise
    try:
        async with asyncio.timeout(start_limit_s):
            failure = await asyncio.shield(child.started)
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await child.end()
        if isinstance(error, TimeoutError):
            raise OSError(f"{argv[0]}: not started within {start_limit_s:g} s") from None
        raise
    if failure is not None:
        await child.end()
        raise OSError(failure)
    return child


async def _guarded(
    options: str, log: Path, env: Mapping[str, str] | None, guard_slack_s: float
) -> Child:
    await asyncio.to_thread(log.parent.mkdir, parents=True, exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(_GUARD),
        options,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=env,
        start_new_session=True,
    )
    return Child(process, log, guard_slack_s)


def tail(path: Path, lines: int = 20, limit: int = 8192) -> str:
    """The last `lines` lines of a text file, at most `limit` bytes; empty if unreadable."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit))
            text = file.read(limit).decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def _kill_with_children(guard: int) -> None:
    """End a guard that obeys no more, and the group of what it started. Blocks.

    The guard first stands still, so that a number of its children is nobody else's.
    """
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(guard)
        process.suspend()
        for child in process.children():
            _kill_group(child.pid)
        process.kill()


if sys.platform == "win32":

    def _kill_group(pid: int) -> None:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)

else:

    def _kill_group(pid: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
