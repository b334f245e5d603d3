"""The guard of tests/conftest.py is awake: a blocking call of ours in the loop is caught."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from anyio.to_thread import run_sync as in_thread
from blockbuster import BlockingError

from cerberus_core.config import load
from cerberus_core.platform import Folders, tail

pytestmark = pytest.mark.anyio


def planted(source: str) -> Callable[[], None]:
    """A function that counts as one of cerberus_core."""
    import cerberus_core

    file = Path(cerberus_core.__file__).with_name("planted.py")
    space: dict[str, Callable[[], None]] = {}
    exec(compile(source, str(file), "exec"), {"time": time, "Path": Path}, space)
    return space["planted"]


@pytest.mark.parametrize(
    "call", ["time.sleep(0)", "Path('x').exists()", "Path('/dev/null').read_bytes()"]
)
async def test_a_planted_blocking_call_is_caught(call: str) -> None:
    function = planted(f"def planted(): {call}")
    with pytest.raises(BlockingError):
        function()
    await in_thread(function)  # where it belongs


async def test_our_own_blocking_functions_are_caught_in_the_loop(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(BlockingError):
        tail(tmp_path / "config.toml")
    with pytest.raises(BlockingError):
        load(Folders(tmp_path, tmp_path), {})
