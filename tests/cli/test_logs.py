"""The daemon's log: without secrets, and never a reason to fail."""

import pytest

from cerberus_core.cli.logs import _Stderr


class Closed:
    """A pipe whose reader has left."""

    def write(self, _: str) -> None:
        raise BrokenPipeError

    def flush(self) -> None:
        raise ValueError("I/O operation on closed file")


def test_a_log_that_nobody_reads_any_more_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Closed())
    log = _Stderr()
    log.write("a line\n")
    log.flush()
