"""The file followed: however it is saved, it is read once, when it was left alone."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from cerberus_core.config import Config, Current, Follow, Loaded, content, load
from cerberus_core.config.follow import GONE_S, MOST_S, QUIET_S
from cerberus_core.config.watch import Watch, folders_of
from cerberus_core.errors import ConfigError
from cerberus_core.platform import Folders
from cerberus_core.testing import FakeClock

pytestmark = pytest.mark.anyio


def ttl(seconds: float) -> str:
    return f"[engines]\nttl_s = {seconds}\n"


def put(file: Path, text: str) -> None:
    """As vim saves: another file takes the place of the old one."""
    new = file.with_name("4913")
    new.write_text(text)
    os.replace(new, file)


def link(at: Path, to: str | Path) -> None:
    """As Kubernetes and dotfile managers do: in one stroke."""
    new = at.with_name("..new")
    new.symlink_to(to)
    os.replace(new, at)


class Box:
    """A file that is followed, with a clock that is turned by hand."""

    def __init__(self, folders: Folders) -> None:
        """Blocking."""
        self.file = folders.config_file
        self.reads = 0

        def read() -> Loaded:
            self.reads += 1
            return load(folders, {})

        self.clock = FakeClock()
        self.current = Current(load(folders, {}), read)
        self.follow = Follow(self.current, self.file, content(self.file), self.clock)
        self.told = asyncio.Event()
        self.current.told = self.told.set

    @property
    def ttl_s(self) -> float:
        return self.current.config.engines.ttl_s

    @property
    def notices(self) -> str:
        return "\n".join(str(one) for one in self.current.notices("config.toml"))

    async def saved(self) -> None:
        """Until the word of the last save has come, and the file was read."""
        with anyio.fail_after(20):
            while not self.told.is_set():
                await self.clock.advance(QUIET_S)
                await anyio.sleep(0.001)
        self.told.clear()


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    folders = Folders(tmp_path / "config", tmp_path / "data")
    folders.config.mkdir()
    folders.config_file.write_text(ttl(1))
    return folders


async def boxed(folders: Folders) -> Box:
    return await anyio.to_thread.run_sync(Box, folders)


@asynccontextmanager
async def following(folders: Folders, *, watching: bool = True) -> AsyncIterator[Box]:
    """`watching` False: no thread does, the test itself gives the word."""
    box = await boxed(folders)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cerberus_core.config.watch.LOOK_S", 3600.0)  # a look hides a missed word
        if not watching:
            patch.setattr(Watch, "start", lambda _: None)
        task = asyncio.create_task(box.follow.run())
        if watching:
            await anyio.to_thread.run_sync(until_watched, box.file)
        yield box
        task.cancel()
        await asyncio.wait((task,))


def until_watched(file: Path) -> None:
    """Until a save in the file's folders can't be missed."""
    inodes = {os.stat(folder).st_ino for folder in folders_of(file)}
    for _ in range(2000):
        if inodes <= watched():
            return
        threading.Event().wait(0.005)
    raise AssertionError("the folders are not watched")


def watched() -> set[int]:
    """Inodes of the folders that this process watches."""
    found = set()
    for one in Path("/proc/self/fdinfo").iterdir():
        try:
            lines = one.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            if line.startswith("inotify"):
                words = dict(word.split(":", 1) for word in line.split() if ":" in word)
                found.add(int(words["ino"], 16))
    return found


linux = pytest.mark.skipif(not Path("/proc/self/fdinfo").exists(), reason="asks Linux' /proc")


@linux
@pytest.mark.parametrize("save", [put, Path.write_text], ids=["renamed", "written in place"])
async def test_a_saved_file_is_read(folders: Folders, save: Callable[..., object]) -> None:
    async with following(folders) as box:
        save(box.file, ttl(2))
        await box.saved()
        assert box.ttl_s == 2
        save(box.file, ttl(3))
        await box.saved()
        assert box.ttl_s == 3


@linux
async def test_a_file_that_was_not_there_is_read_when_it_appears(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "not" / "yet", tmp_path / "data")
    async with following(folders) as box:
        assert box.ttl_s == 600
        folders.config.mkdir(parents=True)
        await anyio.to_thread.run_sync(until_watched, box.file)
        put(box.file, ttl(2))
        await box.saved()
        assert box.ttl_s == 2


@linux
async def test_a_link_to_a_link_is_followed_to_its_file(folders: Folders, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "real.toml").write_text(ttl(1))
    (dotfiles / "other.toml").write_text(ttl(5))
    (dotfiles / "link.toml").symlink_to("real.toml")
    link(folders.config_file, dotfiles / "link.toml")
    async with following(folders) as box:
        put(dotfiles / "real.toml", ttl(2))
        await box.saved()
        assert box.ttl_s == 2
        link(dotfiles / "link.toml", "other.toml")
        await box.saved()
        assert box.ttl_s == 5


@linux
async def test_a_folder_that_is_swapped_below_a_link_is_noticed(
    folders: Folders, tmp_path: Path
) -> None:
    mount = tmp_path / "mount"
    for version in (1, 2, 3):
        (mount / f"..{version}").mkdir(parents=True)
        (mount / f"..{version}" / "config.toml").write_text(ttl(version))
    (mount / "..data").symlink_to("..1")
    (mount / "config.toml").symlink_to("..data/config.toml")
    link(folders.config_file, mount / "config.toml")
    async with following(folders) as box:
        for version in (2, 3):
            link(mount / "..data", f"..{version}")
            await box.saved()
            assert box.ttl_s == version
            await anyio.to_thread.run_sync(until_watched, box.file)


@linux
async def test_a_folder_that_is_itself_a_link_is_followed(tmp_path: Path) -> None:
    for version in (1, 2):
        (tmp_path / f"release-{version}").mkdir()
        (tmp_path / f"release-{version}" / "config.toml").write_text(ttl(version))
    current = tmp_path / "links" / "current"
    current.parent.mkdir()
    current.symlink_to("../release-1")
    async with following(Folders(current, tmp_path / "data")) as box:
        link(current, "../release-2")
        await box.saved()
        assert box.ttl_s == 2
        await anyio.to_thread.run_sync(until_watched, box.file)
        put(box.file, ttl(3))
        await box.saved()
        assert box.ttl_s == 3


@linux
async def test_c03_a_broken_file_keeps_the_old_settings_and_says_so_until_it_is_mended(
    folders: Folders,
) -> None:
    async with following(folders) as box:
        put(box.file, ttl(2))
        await box.saved()
        put(box.file, "[engines]\nttl_s = \n")
        await box.saved()
        assert box.ttl_s == 2
        assert f"{box.file}:2: not valid TOML" in box.notices
        assert "settings from before stay in force" in box.notices
        put(box.file, "[engines]\nttl_s = 'long'\n")
        await box.saved()
        assert box.ttl_s == 2
        assert "engines.ttl_s" in box.notices
        put(box.file, ttl(3))
        await box.saved()
        assert (box.ttl_s, box.notices) == (3, "")


async def test_c03_an_unknown_key_is_a_warning_that_goes_with_it(folders: Folders) -> None:
    box = await boxed(folders)
    folders.config_file.write_text("[engines]\nttl = 2\n")
    await box.current.reload()
    assert "unknown key engines.ttl; did you mean engines.ttl_s?" in box.notices
    folders.config_file.write_text(ttl(2))
    await box.current.reload()
    assert box.notices == ""


async def saved_by_hand(box: Box, text: str | None) -> None:
    if text is None:
        box.file.unlink()
    else:
        put(box.file, text)
    box.follow.changed()
    await box.clock.until_sleeping()


async def until(what: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not what():
            await anyio.sleep(0.001)


async def test_two_saves_at_once_are_one_read(folders: Folders) -> None:
    async with following(folders, watching=False) as box:
        await saved_by_hand(box, ttl(2))
        await saved_by_hand(box, ttl(3))
        await box.clock.advance(QUIET_S)
        await box.saved()
        assert (box.reads, box.ttl_s) == (1, 3)


async def test_a_storm_of_a_hundred_saves_is_few_reads_and_the_last_one_counts(
    folders: Folders,
) -> None:
    async with following(folders, watching=False) as box:
        for number in range(100):
            await saved_by_hand(box, ttl(number + 1))
            await box.clock.advance(QUIET_S / 5)
        with anyio.fail_after(20):
            while box.ttl_s != 100:
                await box.clock.advance(QUIET_S)
                await anyio.sleep(0.001)
        seconds = 100 * QUIET_S / 5
        assert seconds / MOST_S - 1 <= box.reads <= seconds / MOST_S + 2


@pytest.mark.parametrize("between", [None, ""], ids=["gone", "empty"])
async def test_a_file_that_is_gone_for_a_moment_resets_nothing(
    folders: Folders, between: str | None
) -> None:
    async with following(folders, watching=False) as box:
        await saved_by_hand(box, between)
        await box.clock.advance(QUIET_S)
        await until(lambda: box.clock.sleepers > 0)  # it looks again in a while
        put(box.file, ttl(2))
        await box.saved()
        assert (box.reads, box.ttl_s, box.notices) == (1, 2, "")


async def test_a_file_that_stays_away_is_told_and_what_it_said_stays_in_force(
    folders: Folders,
) -> None:
    async with following(folders, watching=False) as box:
        await saved_by_hand(box, None)
        await box.saved()
        assert box.clock.monotonic() >= GONE_S
        assert (box.reads, box.ttl_s) == (0, 1)
        assert "is gone; what it said stays in force" in box.notices
        await saved_by_hand(box, ttl(1))
        await box.saved()
        assert box.notices == ""


async def test_c03_a_file_that_stays_empty_means_the_defaults_and_a_warning(
    folders: Folders,
) -> None:
    async with following(folders, watching=False) as box:
        await saved_by_hand(box, "")
        await box.saved()
        assert box.clock.monotonic() >= GONE_S
        assert box.ttl_s == 600
        assert "is empty; the defaults are in force" in box.notices


async def test_who_asks_for_the_file_gets_the_defaults_where_there_is_none(
    folders: Folders,
) -> None:
    box = await boxed(folders)
    folders.config_file.unlink()
    [change] = await box.current.reload()
    assert (change.key, change.new, box.ttl_s) == ("engines.ttl_s", 600, 600)


async def test_what_needs_a_restart_stays_and_is_told_until_it_is_taken_back(
    folders: Folders,
) -> None:
    box = await boxed(folders)
    folders.config_file.write_text("[server]\nport = 99\n" + ttl(2))
    changes = await box.current.reload()
    assert {one.key: one.effect for one in changes} == {
        "engines.ttl_s": "now",
        "server.port": "restart",
    }
    assert (box.current.config.server.port, box.ttl_s) == (7733, 2)
    assert "in force after a restart: server.port" in box.notices
    assert [one.key for one in await box.current.diff()] == ["server.port"]
    folders.config_file.write_text(ttl(2))
    await box.current.reload()
    assert box.notices == ""


async def test_a_refused_reload_is_told_to_who_asked(folders: Folders) -> None:
    box = await boxed(folders)
    folders.config_file.write_text("engines = 1\n")
    for ask in (box.current.reload, box.current.diff):
        with pytest.raises(ConfigError, match="engines is 1"):
            await ask()
    assert box.ttl_s == 1


@linux
async def test_a_folder_that_can_not_be_watched_is_looked_at_now_and_then(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise OSError("too many watches")

    monkeypatch.setattr("watchfiles.watch", refuse)
    monkeypatch.setattr("cerberus_core.config.watch.LOOK_S", 0.01)
    box = await boxed(folders)
    task = asyncio.create_task(box.follow.run())
    put(box.file, ttl(2))
    await box.saved()
    assert box.ttl_s == 2
    task.cancel()
    await asyncio.wait((task,))


async def test_a_fault_of_ours_in_a_reload_ends_nothing(folders: Folders) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    async with following(folders, watching=False) as box:
        box.current.follow(fail)
        await saved_by_hand(box, ttl(2))
        await box.saved()
        await saved_by_hand(box, ttl(3))
        await box.saved()
        assert box.ttl_s == 3


async def test_every_room_hears_of_other_settings(folders: Folders) -> None:
    box, heard = await boxed(folders), list[str]()
    for room in ("first", "second"):
        box.current.follow(lambda config, room=room: heard.append(room))  # type: ignore[misc]
    await anyio.to_thread.run_sync(put, box.file, ttl(5))
    await box.current.reload()
    assert heard == ["first", "second"]


async def test_of_two_reloads_the_one_that_read_later_counts(folders: Folders) -> None:
    box = await boxed(folders)
    preparing, go = asyncio.Event(), asyncio.Event()

    async def prepare(config: Config) -> Callable[[], None]:
        if config.engines.ttl_s == 5:
            preparing.set()
            await go.wait()
        return lambda: None

    box.current.follow_plugins(tuple, prepare)
    await anyio.to_thread.run_sync(put, box.file, ttl(5))
    first = asyncio.create_task(box.current.reload())
    await preparing.wait()
    await anyio.to_thread.run_sync(put, box.file, ttl(6))
    second = asyncio.create_task(box.current.reload())
    await asyncio.wait((second,), timeout=0.1)  # it has to wait for the first
    go.set()
    await asyncio.gather(first, second)
    assert box.ttl_s == 6
