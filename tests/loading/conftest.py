"""Distributions on disk, as an installer leaves them."""

import importlib
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from textwrap import dedent

import pytest

GOOD = """
    from cerberus_core import hookimpl
    from cerberus_core.interfaces import Backend

    class One(Backend):
        def __init__(self, name):
            self.name = name
        async def list(self):
            return []
        async def load(self, model, plan, report):
            raise NotImplementedError

    @hookimpl
    def cerberus_model_backends(setup):
        return [One(setup.name)]
"""


class Site:
    """A folder of distributions; `entry_points()` are those that stand in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(
        self,
        name: str,
        source: str | None = GOOD,
        *,
        requires: str = "",
        module: str | None = None,
        group: str = "cerberus.plugins",
        dist: str | None = None,
        metadata: bool = True,
    ) -> str:
        """Install plugin `name` with this entry module; None: its files are gone."""
        dist = dist or f"cerberus-{name}"
        # Modules of one process need names of their own in every test.
        module = module or f"cerberus_{name}_{abs(hash(str(self.path))) % 10**8}"
        info = self.path / f"{dist.replace('-', '_')}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}\n")
        if metadata:
            asked = f"Requires-Dist: {requires}\n" if requires else ""
            (info / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.2\n{asked}"
            )
        if source is not None:
            (self.path / f"{module}.py").write_text(dedent(source))
        return module

    def entry_points(self) -> list[EntryPoint]:
        importlib.invalidate_caches()
        return [ep for dist in distributions(path=[str(self.path)]) for ep in dist.entry_points]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    path = tmp_path / "site"
    path.mkdir()
    monkeypatch.syspath_prepend(str(path))
    before = set(sys.modules)
    yield Site(path)
    for name in set(sys.modules) - before:
        if name.startswith("cerberus_") and not name.startswith("cerberus_core"):
            del sys.modules[name]
