"""The kit lets the good pass and names every fault of the others."""

import asyncio
from pathlib import Path
from textwrap import dedent

import pytest

from cerberus_core.testing import check_backends, check_gpu_vendors, check_package

MODULE = """
from cerberus_core import hookimpl

@hookimpl
def cerberus_model_backends(setup):
    from {package}_parts import Nas
    return [Nas()]
"""
PARTS = """
from cerberus_core.interfaces import Backend
from cerberus_core.values import Endpoint, ModelInfo

class Nas(Backend):
    name = "nas"

    async def list(self):
        return {models}

    async def load(self, model, plan, report):
        raise NotImplementedError
"""
GOOD = "[ModelInfo(id='nas/a', backend='nas', name='a')]"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(
        name: str, extra: str = "", models: str = GOOD, *, dist: str = "", value: str = ""
    ) -> None:
        package = value or f"cerberus_{name}"
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {dist or 'cerberus-' + name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[cerberus.plugins]\n{name} = {package}\n")
        text = MODULE.format(package=package) + dedent(extra)
        (tmp_path / f"{package}.py").write_text(text)
        (tmp_path / f"{package}_parts.py").write_text(PARTS.format(models=models))

    return make


def test_a_good_plugin_passes(install, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    install("kitgood")
    check_package("kitgood")
    assert list(asyncio.run(check_backends("kitgood", tmp_path))) == ["nas"]


def test_every_fault_of_a_package_is_named(install) -> None:  # type: ignore[no-untyped-def]
    extra = "import httpx\ndef work(): pass\n"
    install("kitbad", extra, dist="acme-kitbad", value="acme_kitbad")
    with pytest.raises(AssertionError) as caught:
        check_package("kitbad")
    told = str(caught.value)
    assert "entry point kitbad is 'acme_kitbad', should be 'cerberus_kitbad'" in told
    assert "the distribution is 'acme-kitbad', should be 'cerberus-kitbad'" in told
    assert "acme_kitbad imports httpx: import it inside methods" in told
    assert "acme_kitbad.work is no hook: move it to another file" in told


def test_a_module_that_fails_is_told(install) -> None:  # type: ignore[no-untyped-def]
    install("kitfail", "import nosuchlib\n")
    with pytest.raises(AssertionError, match="No module named 'nosuchlib'"):
        check_package("kitfail")


def test_what_is_not_installed_is_told() -> None:
    with pytest.raises(AssertionError, match="0 entry points 'nothing-here'"):
        check_package("nothing-here")


@pytest.mark.parametrize(
    ("models", "told"),
    [
        ("[ModelInfo(id='a', backend='nas', name='a')]", "'a' should be 'nas/a'"),
        ("[ModelInfo(id='nas/a', backend='x', name='a')]", "'nas/a' should be"),
        ("[5]", "lists 5, which is no ModelInfo"),
        (f"{GOOD} * 2", "'nas/a' is listed twice"),
    ],
)
def test_faults_of_backends_are_named(  # type: ignore[no-untyped-def]
    install, tmp_path: Path, models: str, told: str
) -> None:
    name = f"kit{abs(hash(models)) % 10**9}"
    install(name, models=models)
    with pytest.raises(AssertionError, match=told):
        asyncio.run(check_backends(name, tmp_path))


CARDS = """

@hookimpl
def cerberus_gpu_vendors(setup):
    from cerberus_core.errors import Unavailable
    from cerberus_core.interfaces import GPUVendor
    from cerberus_core.values import GPU, Availability

    class Cards(GPUVendor):
        name = "cards"
        def available(self):
            return Availability(ok={ok})
        {kind} read(self):
            {body}

    return [Cards()]
"""
CARD = "GPU(index=0, id='a', name='A', vendor='cards')"


@pytest.mark.parametrize(
    ("name", "ok", "kind", "body", "told"),
    [
        ("kitcoroutine", True, "async def", "return []", "it must block"),
        ("kitno", False, "def", "return []", "says no without why or hint"),
        ("kitdown", True, "def", "raise Unavailable('gone')", "without a hint: gone"),
        ("kitodd", True, "def", "return [5]", "cards: reads 5"),
        ("kitdouble", True, "def", f"return [{CARD}, {CARD}]", "'a' is read twice"),
        ("kitfine", True, "def", f"return [{CARD}]", None),
    ],
)
def test_faults_of_gpu_vendors_are_named(  # type: ignore[no-untyped-def]
    install, tmp_path: Path, name: str, ok: bool, kind: str, body: str, told: str | None
) -> None:
    install(name, CARDS.format(ok=ok, kind=kind, body=body))
    if told is None:
        assert list(check_gpu_vendors(name, tmp_path)) == ["cards"]
    else:
        with pytest.raises(AssertionError, match=told):
            check_gpu_vendors(name, tmp_path)
