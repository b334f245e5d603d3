"""What stands in the place of config.toml and is none: refused by name, never waited for."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from cerberus_core.config import content, load, quick
from cerberus_core.config.quick import MAX_BYTES
from cerberus_core.errors import ConfigError
from cerberus_core.platform import Folders, in_daemon_thread
from tests.config.test_follow import folders, following, put, saved_by_hand, ttl

__all__ = ["folders"]

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.name != "posix", reason="pipes and devices with names"),
]


def pipe(file: Path) -> None:
    os.mkfifo(file)


def bound(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        there = os.open(file.parent, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{there}/{file.name}" if len(str(file)) > 90 else str(file))
        os.close(there)


def device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def linked_pipe(file: Path) -> None:
    os.mkfifo(file.with_name("pipe"))
    file.symlink_to("pipe")


def huge(file: Path) -> None:
    file.touch()
    os.truncate(file, MAX_BYTES + 1)


NO_FILE = "is not a regular file"
ODD = pytest.mark.parametrize(
    ("make", "why"),
    [
        (pipe, NO_FILE),
        (linked_pipe, NO_FILE),
        (bound, NO_FILE),
        (device, NO_FILE),
        (Path.mkdir, NO_FILE),
        (huge, "holds more than 8 MiB"),
    ],
)


@ODD
async def test_what_is_no_file_is_refused_at_once(
    folders: Folders, make: Callable[[Path], None], why: str
) -> None:
    folders.config_file.unlink()
    make(folders.config_file)
    with anyio.fail_after(10):
        for read in (lambda: load(folders, {}), lambda: quick.read(folders, {})):
            with pytest.raises(ConfigError, match=why):
                await in_daemon_thread(read)
        assert isinstance(await in_daemon_thread(lambda: content(folders.config_file)), int)


@ODD
async def test_one_that_comes_while_the_daemon_runs_is_told_until_a_file_is_back(
    folders: Folders, make: Callable[[Path], None], why: str
) -> None:
    async with following(folders, watching=False) as box:
        box.file.unlink()
        make(box.file)
        box.follow.changed()
        await box.clock.until_sleeping()
        with anyio.fail_after(10):
            await box.saved()
        assert why in box.notices
        assert box.ttl_s == 1
        with anyio.fail_after(10), pytest.raises(ConfigError, match=why):
            await box.current.diff()
        if box.file.is_dir():
            box.file.rmdir()
        put(box.file, ttl(2))
        await saved_by_hand(box, ttl(2))
        await box.saved()
        assert (box.ttl_s, box.notices) == (2, "")
