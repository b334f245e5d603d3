"""Children under a guard: they end when asked, when they die, and when the daemon does."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import psutil
import pytest
from anyio.to_thread import run_sync as in_thread

from cerberus_core.platform import Child, Exit, spawn, tail
from cerberus_core.platform.processes import MOST_LINES

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="process groups and signals"),
]

STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.05; done"


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


def until(fact: Callable[[], bool], limit_s: float = 5.0) -> None:
    deadline = time.monotonic() + limit_s
    while not fact():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def guard_of(child: Child) -> psutil.Process:
    guard = psutil.Process(child.pid).parent()
    assert guard is not None
    return guard


async def test_says_how_it_ended_and_what_it_wrote(tmp_path: Path) -> None:
    child = await spawn(["sh", "-c", "echo one; echo two >&2; exit 3"], log=tmp_path / "l" / "x")
    assert await child.wait() == Exit(code=3)
    assert sorted((await child.last_words()).splitlines()) == ["one", "two"]
    assert str(child.exit) == "exit code 3"


async def test_tells_a_signal_from_an_exit_code(tmp_path: Path) -> None:
    child = await spawn(["sh", "-c", "kill -9 $$"], log=tmp_path / "x")
    assert str(await child.wait()) == "signal 9 (SIGKILL)"


async def test_lines_of_standard_output_come_apart_from_the_log(tmp_path: Path) -> None:
    argv = ["sh", "-c", "echo a; echo noise >&2; echo é; printf unended"]
    child = await spawn(argv, log=tmp_path / "x", relay=True)
    lines = []
    while (line := await child.line()) is not None:
        lines.append(line)
    assert lines == ["a", "é", "unended"]
    assert await child.line() is None
    await child.wait()
    assert await child.last_words() == "noise"


async def test_a_program_that_is_not_there_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no such program"):
        await spawn([str(tmp_path / "no such program")], log=tmp_path / "x")
    assert children() == []


async def test_a_polite_program_is_ended_by_sigterm(tmp_path: Path) -> None:
    child = await spawn(["sleep", "60"], log=tmp_path / "x")
    assert await child.stop(grace_s=30) == Exit(signal=signal.SIGTERM)
    assert await child.stop(grace_s=30) == Exit(signal=signal.SIGTERM)


async def test_m09_one_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    child = await spawn(["sh", "-c", STUBBORN], log=tmp_path / "x", relay=True)
    assert await child.line() == "up"
    assert await child.stop(grace_s=0.2) == Exit(signal=signal.SIGKILL)


async def test_m09_no_zombies_after_twenty_stops_and_twenty_crashes(tmp_path: Path) -> None:
    for number in range(20):
        stopped = await spawn(["sleep", "60"], log=tmp_path / f"s{number}")
        crashed = await spawn(["sh", "-c", "kill -SEGV $$"], log=tmp_path / f"c{number}")
        await asyncio.gather(stopped.stop(grace_s=5), crashed.wait())
    assert children() == []


async def test_the_whole_group_goes_grandchildren_included(tmp_path: Path) -> None:
    # The program says its child's pid once the child has said that it is up.
    script = f'sh -c "{STUBBORN}" > up & while ! grep -q up up; do sleep 0.01; done; echo $!; wait'
    child = await spawn(["sh", "-c", f"cd {tmp_path}; {script}"], log=tmp_path / "x", relay=True)
    try:
        grandchild = int(await child.line() or "")
    finally:
        await child.stop(grace_s=0.2)
    until(lambda: not running(grandchild))


async def test_a_crash_takes_what_the_program_had_started_with_it(tmp_path: Path) -> None:
    child = await spawn(
        ["sh", "-c", "sleep 60 & echo $!; kill -9 $$"], log=tmp_path / "x", relay=True
    )
    grandchild = int(await child.line() or "")
    await child.wait()
    until(lambda: not running(grandchild))


async def test_the_end_does_not_wait_for_a_running_grace(tmp_path: Path) -> None:
    child = await spawn(["sh", "-c", STUBBORN], log=tmp_path / "x", relay=True)
    await child.line()
    stopping = asyncio.create_task(child.stop(grace_s=60))
    await asyncio.sleep(0)
    assert await child.end() == Exit(signal=signal.SIGKILL)
    assert await stopping == Exit(signal=signal.SIGKILL)


async def test_a_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    for steps in range(0, 40, 2):
        task = asyncio.create_task(spawn(["sleep", "60"], log=tmp_path / "x"))
        for _ in range(steps):
            await asyncio.sleep(0.002)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).stop(grace_s=5)
        assert children() == []


async def test_a_killed_guard_takes_its_program_along(tmp_path: Path) -> None:
    child = await spawn(["sleep", "60"], log=tmp_path / "x")
    guard_of(child).kill()
    assert str(await child.wait()) == "its guard was killed"
    until(lambda: not running(child.pid or 0))


@pytest.mark.parametrize("ending", ["stop", "end"])
async def test_a_guard_that_stands_still_holds_nobody_up(tmp_path: Path, ending: str) -> None:
    script = f'sh -c "{STUBBORN}" & echo $!; wait'
    child = await spawn(["sh", "-c", script], log=tmp_path / "x", relay=True, guard_slack_s=0.2)
    grandchild = int(await child.line() or "")
    guard_of(child).suspend()
    with anyio.fail_after(5):
        how = await (child.stop(grace_s=0.1) if ending == "stop" else child.end())
    assert str(how) == "its guard was killed"
    until(lambda: not (running(child.pid or 0) or running(grandchild)))
    assert children() == []


async def stopped_guard() -> psutil.Process:
    """The next guard that is made, stopped before it has started its program."""
    while True:
        for process in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                process.suspend()
                return process
        await asyncio.sleep(0)


async def test_a_guard_that_never_starts_its_program_is_an_oserror(tmp_path: Path) -> None:
    stopping = asyncio.create_task(stopped_guard())
    with anyio.fail_after(5), pytest.raises(OSError, match=r"sleep: not started within 0\.3 s"):
        await spawn(["sleep", "60"], log=tmp_path / "x", start_limit_s=0.3, guard_slack_s=0.1)
    await stopping
    assert children() == []


async def test_a_start_under_a_guard_that_stands_still_can_be_cancelled(tmp_path: Path) -> None:
    starting = asyncio.create_task(spawn(["sleep", "60"], log=tmp_path / "x", guard_slack_s=0.1))
    await stopped_guard()
    starting.cancel()
    with anyio.fail_after(5), pytest.raises(asyncio.CancelledError):
        await starting
    assert children() == []


async def test_lines_that_nobody_takes_are_dropped(tmp_path: Path) -> None:
    argv = ["sh", "-c", f"seq {2 * MOST_LINES}"]
    child = await spawn(argv, log=tmp_path / "x", relay=True)
    await child.wait()
    lines = 0
    while await child.line() is not None:
        lines += 1
    assert lines == MOST_LINES


async def test_the_log_is_bounded_and_keeps_its_end(tmp_path: Path) -> None:
    log = tmp_path / "x"
    argv = ["sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done"]
    await (await spawn(argv, log=log, log_bytes=4096)).wait()
    assert log.stat().st_size <= 4096
    assert await in_thread(tail, Path(f"{log}.1")) != ""
    assert await in_thread(tail, log, 1) == "line 2999"


async def test_the_log_of_the_run_before_is_kept_beside(tmp_path: Path) -> None:
    log = tmp_path / "x"
    for word in ("first", "second"):
        await (await spawn(["echo", word], log=log)).wait()
    assert await in_thread(tail, log) == "second"
    assert await in_thread(tail, Path(f"{log}.1")) == "first"


async def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    log = tmp_path / "x"
    log.mkdir()
    (log / "in the way").touch()
    (tmp_path / "x.1").touch()
    child = await spawn(["sh", "-c", "seq 50000; exit 7"], log=log)
    assert await child.wait() == Exit(code=7)


DAEMON = """
    import asyncio, sys
    from pathlib import Path
    from cerberus_core.platform import spawn

    async def main():
        deaf = "trap '' TERM HUP; while :; do sleep 0.05; done"
        argv = ["sh", "-c", f'sh -c "{deaf}" & echo $!; wait']
        child = await spawn(argv, log=Path(sys.argv[1]), relay=True, orphan_grace_s=0.5)
        print(child.pid, await child.line(), flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_m07_nothing_outlives_a_killed_daemon(tmp_path: Path, number: int) -> None:
    argv = [sys.executable, "-c", textwrap.dedent(DAEMON), str(tmp_path / "x")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        pids = [int(word) for word in daemon.stdout.readline().split()]
        guard = psutil.Process(pids[0]).ppid()
        assert all(running(pid) for pid in (*pids, guard))
        daemon.send_signal(number)
    until(lambda: not any(running(pid) for pid in (*pids, guard)))


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG")
def test_m07_daemon_and_guard_killed_in_one_stroke(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", textwrap.dedent(DAEMON), str(tmp_path / "x")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        program, grandchild = (int(word) for word in daemon.stdout.readline().split())
        os.kill(psutil.Process(program).ppid(), signal.SIGKILL)
        daemon.kill()
    until(lambda: not running(program))
    # The kernel reaches the program itself alone; what that had started is its own matter.
    os.kill(grandchild, signal.SIGKILL)


def test_the_tail_of_nothing_is_empty(tmp_path: Path) -> None:
    assert tail(tmp_path / "nowhere") == ""
