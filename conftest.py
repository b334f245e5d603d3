"""For every suite: the loop that it runs on, and a budget of seconds.

A run that grows is told before it hurts.
"""

from collections import defaultdict

import pytest

BUDGETS_S = {
    "tests/e2e": 700.0,
    "tests/gateway": 200.0,
    "tests/packaging": 120.0,
    "tests/cli": 240.0,
    "tests/api": 200.0,
    "plugins/cerberus-llamacpp": 300.0,
}
DEFAULT_S = 90.0
"""For every other folder of tests. Budgets are for two busy cores."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a test proves of the wires goes into its JUnit properties."""
    for item in items:
        for mark in item.iter_markers("wire"):
            backend = item.get_closest_marker("backend")
            assert backend is not None, f"{item.nodeid}: `wire` without `backend`"
            wire, *features = mark.args
            for feature in features:
                cell = ("wire", f"{wire} | {feature} | {backend.args[0]}")
                item.user_properties.append(cell)


_spent: dict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _spent["/".join(report.nodeid.split("/")[:2])] += report.duration


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if hasattr(session.config, "workerinput"):
        return  # a worker of xdist: the controller sums up
    over = {
        suite: seconds
        for suite, seconds in _spent.items()
        if seconds > BUDGETS_S.get(suite, DEFAULT_S)
    }
    for suite, seconds in sorted(over.items()):
        budget = BUDGETS_S.get(suite, DEFAULT_S)
        print(f"\n{suite} took {seconds:.0f} s, its budget is {budget:.0f} s")  # noqa: T201
    if over and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
