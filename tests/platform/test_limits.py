"""How many files the daemon may open."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such limit")

PRINT = """
import resource
from cerberus_core.platform.limits import raise_open_files
raise_open_files(2000)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "after"),
    [(256, 1000, 1000), (256, 4000, 2000), (1000, 1000, 1000), (3000, 4000, 3000)],
)
def test_the_soft_limit_is_raised_as_far_as_it_may_be(soft: int, hard: int, after: int) -> None:
    shell = f'ulimit -S -n {soft} && ulimit -H -n {hard} && exec "$0" -c "$1"'
    done = subprocess.run(
        ["sh", "-c", shell, sys.executable, PRINT], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(after), str(hard)]
