"""A file that can't be read to its end, as on a disk that is gone, holds nobody up."""

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from cerberus_llamacpp.library import Library, SharedScan
from cerberus_llamacpp.library.walk import File, walk
from cerberus_llamacpp.testing import write_gguf

from cerberus_core.errors import Unavailable
from cerberus_core.platform.threads import LEFT_BEHIND

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="pipes with a name"),
]


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of models, one of which turns into a pipe before it is read."""
    write_gguf(tmp_path / "good.gguf")
    pipe = write_gguf(tmp_path / "hangs.gguf")

    def walk_and_swap(root: Path) -> Iterator[File]:
        files = list(walk(root))
        if pipe.is_file():
            pipe.unlink()
            os.mkfifo(pipe)
        yield from files

    monkeypatch.setitem(Library._groups.__globals__, "walk", walk_and_swap)
    yield tmp_path
    if pipe.is_fifo():
        let_go(pipe)


def scans() -> int:
    """Threads that were left to what hangs."""
    return sum(thread.name == LEFT_BEHIND for thread in threading.enumerate())


def let_go(pipe: Path) -> None:
    """Whoever waits for the pipe reads nothing from it."""
    os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))


async def test_it_is_named_in_time_and_the_next_listing_starts_no_second_scan(
    hanging: Path,
) -> None:
    scan = SharedScan(Library([hanging]), limit_s=0.2)
    for fresh in (False, False, True):
        with anyio.fail_after(5), pytest.raises(Unavailable, match=r"hangs\.gguf takes more"):
            await scan(fresh=fresh)
        assert scans() == 1


async def test_all_who_ask_share_a_scan_and_get_its_models_once_it_ends(hanging: Path) -> None:
    scan = SharedScan(Library([hanging]), limit_s=5)
    found: list[list[str]] = []

    async def ask() -> None:
        found.append(sorted(await scan()))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ask)
        await anyio.sleep(0.05)
        assert scans() == 1
        with anyio.fail_after(5):
            while not found:
                await anyio.to_thread.run_sync(let_go, hanging / "hangs.gguf")
                await anyio.sleep(0.01)
    assert found == [["good", "hangs"]] * 20


async def test_a_fresh_scan_begins_after_it_was_asked_for(hanging: Path) -> None:
    scan = SharedScan(Library([hanging]), limit_s=10)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scan)
        await anyio.sleep(0.05)
        write_gguf(hanging / "new.gguf")
        fresh: list[str] = []

        async def ask() -> None:
            fresh.extend(await scan(fresh=True))

        tasks.start_soon(ask)
        with anyio.fail_after(5):
            while not fresh:
                await anyio.to_thread.run_sync(let_go, hanging / "hangs.gguf")
                await anyio.sleep(0.01)
    assert "new" in fresh


def test_a_process_ends_while_a_scan_hangs(tmp_path: Path) -> None:
    script = """
        import asyncio, os, sys
        from pathlib import Path
        from cerberus_core.errors import Unavailable
        from cerberus_llamacpp.library import Library, SharedScan

        class Hanging(Library):
            def scan(self):
                os.mkfifo(sys.argv[1])
                open(sys.argv[1], "rb")

        async def main():
            try:
                await SharedScan(Hanging([]), limit_s=0.1)()
            except Unavailable:
                print("told")

        asyncio.run(main())
    """
    argv = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "pipe")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    assert (done.stdout, done.stderr, done.returncode) == ("told\n", "", 0)
