"""The guard of tests/conftest.py is awake: a blocking call of ours in the loop is caught."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from anyio.to_thread import run_sync as in_thread
from blockbuster import BlockingError

from cerberus_core.config import load
from cerberus_core.platform import Folders, tail
from tests.conftest import StartBox

pytestmark = pytest.mark.anyio


def planted(source: str) -> Callable[..., None]:
    """A function that counts as one of cerberus_core."""
    import cerberus_core

    file = Path(cerberus_core.__file__).with_name("planted.py")
    space: dict[str, Callable[..., None]] = {}
    exec(compile(source, str(file), "exec"), {"time": time, "Path": Path}, space)
    return space["planted"]


@pytest.mark.parametrize(
    "call", ["time.sleep(0)", "Path('x').exists()", "Path('/dev/null').read_bytes()"]
)
async def test_a_planted_blocking_call_is_caught(call: str, blocking_calls: list[str]) -> None:
    function = planted(f"def planted(): {call}")
    with pytest.raises(BlockingError):
        function()
    assert len(blocking_calls) == 1
    blocking_calls.clear()
    await in_thread(function)  # where it belongs


async def test_our_own_blocking_functions_are_caught_in_the_loop(
    tmp_path: Path, blocking_calls: list[str]
) -> None:
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(BlockingError):
        tail(tmp_path / "config.toml")
    with pytest.raises(BlockingError):
        load(Folders(tmp_path, tmp_path), {})
    assert len(blocking_calls) == 2
    blocking_calls.clear()


async def test_one_in_a_running_daemon_is_told_though_it_became_an_answer(
    start_box: StartBox, monkeypatch: pytest.MonkeyPatch, blocking_calls: list[str]
) -> None:
    async with start_box() as box:
        blocks = planted("def planted(*_): time.sleep(0)")
        monkeypatch.setattr("cerberus_core.usage.Store.recent", blocks)
        answer = await box.http.get("/api/requests")
    assert answer.status_code == 500
    assert blocking_calls[0].startswith("time.sleep")
    blocking_calls.clear()
