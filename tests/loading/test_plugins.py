"""One broken plugin is one line in the report; everything else works (C04)."""

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cerberus_core.cli.plugins import _show
from cerberus_core.config import Config
from cerberus_core.errors import PluginError
from cerberus_core.loading import Plugins, load_plugins
from cerberus_core.platform import Folders
from cerberus_core.values import PluginReport

HOOK = """
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
        {body}
"""
HANG = "__import__('threading').Event().wait()"

# kind: (entry module, what the report says, what the remedy says)
BAD: dict[str, tuple[str | None, str, str]] = {
    "raises": ("raise ImportError('no libfoo')", "import raised ImportError: no libfoo", "Report"),
    "vendor": ("import nosuchlib", "ModuleNotFoundError: No module named", "provides nosuchlib"),
    "asserts": ("assert False, 'never'", "import raised AssertionError: never", "Report it"),
    "exits": ("raise SystemExit(3)", "import raised SystemExit: 3", "blocked_plugins = "),
    "interrupts": ("raise KeyboardInterrupt", "import raised KeyboardInterrupt", "Report it"),
    "hangs": (HANG, "import did not return within 0.2 s", "Report it"),
    "removed": (None, "ModuleNotFoundError", "metadata was left: uninstall cerberus-removed"),
    "empty": ("raise ValueError", "import raised ValueError", "Report it"),
    "nohook": ("x = 1", "implements no hook", "cerberus_model_backends"),
    "coroutine": (
        HOOK.replace("def cerb", "async def cerb").format(body="return []"),
        "cerberus_model_backends is a coroutine function",
        "await in their methods",
    ),
    "unknown": (
        HOOK.replace("cerberus_model_backends", "cerberus_modelbackends").format(body="return []"),
        "implements an unknown hook, cerberus_modelbackends",
        "Hooks of this version: cerberus_energy_meters, cerberus_gpu_vendors, cerberus_model_b",
    ),
    "unmarked": (HOOK.replace("@hookimpl", "").format(body="return []"), "is not marked", "@cerb"),
    "signature": (
        HOOK.replace("(setup)", "(setup, more)").format(body="return []"),
        "does not fit the hooks",
        "cerberus_core.hookspecs",
    ),
    "hookraises": (
        HOOK.format(body="raise OSError('disk')"),
        "hook cerberus_model_backends raised OSError: disk",
        "Report it",
    ),
    "hookexits": (HOOK.format(body="raise SystemExit"), "raised SystemExit", "Report it"),
    "hookhangs": (
        HOOK.format(body=HANG),
        "hook cerberus_model_backends did not return within 0.2 s",
        "Report it",
    ),
    "nolist": (HOOK.format(body="return 5"), "returned an int, not a list", "Return a list"),
    "none": (HOOK.format(body="return None"), "returned None", "Return a list"),
    "nobackend": (HOOK.format(body="return [One('a'), 5]"), "returned an int among", "Backend"),
    "slash": (HOOK.format(body="return [One('a/b')]"), "has a bad name, 'a/b'", "no slash"),
    "noname": (HOOK.format(body="return [One(None)]"), "has a bad name, None", "Letters"),
    "twice": (HOOK.format(body="return [One('a'), One('a')]"), "'a' is taken", "Rename"),
    "settings": (
        HOOK.format(body="import attrs; return setup.settings(attrs.make_class('S', {'a': "
                         "attrs.field(type=int)}))"),
        "plugins.settings.a is missing",
        "Correct plugins.settings.a",
    ),
}  # fmt: skip


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "config", tmp_path / "data")


def loaded(site: Any, folders: Folders, config: Config | None = None, **more: Any) -> Plugins:
    return load_plugins(
        config or Config(),
        folders,
        core_version=more.pop("core_version", "0.1.0"),
        time_limit_s=0.2,
        entry_points=more.pop("entry_points", None) or site.entry_points(),
    )


def report_of(plugins: Plugins, name: str) -> PluginReport:
    [report] = [report for report in plugins.reports if report.name == name]
    return report


def test_a_good_plugin_is_loaded_and_its_folders_exist(site: Any, folders: Folders) -> None:
    site.add("good")
    plugins = loaded(site, folders)
    assert list(plugins.backends) == ["good"]
    assert plugins.reports == [
        PluginReport(
            name="good",
            state="loaded",
            distribution="cerberus-good",
            version="1.2",
            provides=("backend good",),
        )
    ]
    assert folders.models.is_dir()
    assert folders.logs.is_dir()


@pytest.mark.parametrize("kind", BAD)
def test_c04_a_bad_plugin_is_a_line_with_cause_and_remedy(
    site: Any, folders: Folders, kind: str
) -> None:
    source, problem, hint = BAD[kind]
    site.add("agood")
    site.add("zgood")
    site.add(kind, source)
    plugins = loaded(site, folders)
    assert sorted(plugins.backends) == ["agood", "zgood"]
    report = report_of(plugins, kind)
    assert (report.state, report.distribution) == ("failed", f"cerberus-{kind}")
    assert problem in str(report.problem)
    assert hint in str(report.hint)
    assert report.provides == ()


@pytest.mark.parametrize("kind", BAD)
def test_c04_strict_raises_instead(site: Any, folders: Folders, kind: str) -> None:
    source, problem, _ = BAD[kind]
    site.add(kind, source)
    with pytest.raises(PluginError) as caught:
        loaded(site, folders, Config(strict_plugins=True))
    assert f"plugin {kind} (cerberus-{kind}): " in str(caught.value)
    assert problem in str(caught.value)
    assert caught.value.hint


def test_c04_parts_of_a_failed_plugin_do_not_stay(site: Any, folders: Folders) -> None:
    site.add("half", HOOK.format(body="return [One('fine'), One('not fine')]"))
    site.add("other", HOOK.format(body="return [One('fine')]"))
    plugins = loaded(site, folders)
    assert list(plugins.backends) == ["fine"]
    assert report_of(plugins, "other").state == "loaded"


def test_duplicate_names_are_found_before_import(site: Any, folders: Folders) -> None:
    site.add("same", "raise AssertionError('imported')", dist="one", module="cerberus_same_a")
    site.add("same", "raise AssertionError('imported')", dist="two", module="cerberus_same_b")
    plugins = loaded(site, folders)
    assert [report.state for report in plugins.reports] == ["failed", "failed"]
    one, two = plugins.reports
    assert one.problem == "another plugin has the same name: two"
    assert two.problem == "another plugin has the same name: one"
    assert two.hint == "Uninstall one of two, one"


def test_duplicate_backends_fail_the_second(site: Any, folders: Folders) -> None:
    site.add("a", HOOK.format(body="return [One('x')]"))
    site.add("b", HOOK.format(body="return [One('y'), One('x')]"))
    plugins = loaded(site, folders)
    assert list(plugins.backends) == ["x"]
    assert "'x' is taken" in str(report_of(plugins, "b").problem)


READERS = """
    from cerberus_core import hookimpl
    from cerberus_core.interfaces import EnergyMeter, GPUVendor
    from cerberus_core.values import Availability

    class Reads:
        def __init__(self, name):
            self.name = name
        def available(self):
            return Availability(ok=True)
        def read(self):
            return []

    class Cards(Reads, GPUVendor):
        pass

    class Zones(Reads, EnergyMeter):
        pass

    @hookimpl
    def cerberus_gpu_vendors(setup):
        return {vendors}

    @hookimpl
    def cerberus_energy_meters(setup):
        return {meters}
"""


def test_gpu_vendors_and_energy_meters_are_collected(site: Any, folders: Folders) -> None:
    site.add("power", READERS.format(vendors="[Cards('cards')]", meters="[Zones('zones')]"))
    plugins = loaded(site, folders)
    assert (list(plugins.gpu_vendors), list(plugins.energy_meters)) == (["cards"], ["zones"])
    assert report_of(plugins, "power").provides == ("GPU vendor cards", "energy meter zones")


@pytest.mark.parametrize(
    ("vendors", "meters", "problem"),
    [
        ("[Zones('z')]", "[]", "cerberus_gpu_vendors returned a Zones among the GPU vendors"),
        ("[]", "None", "cerberus_energy_meters returned None"),
        ("[Cards('x')]", "[Zones('x')]", "the name of its energy meter 'x' is taken"),
        ("[Cards('taken')]", "[]", "the name of its GPU vendor 'taken' is taken"),
    ],
)
def test_c04_bad_readers_are_a_line_and_no_part_of_them_stays(
    site: Any, folders: Folders, vendors: str, meters: str, problem: str
) -> None:
    site.add("a", READERS.format(vendors="[]", meters="[Zones('taken')]"))
    site.add("power", READERS.format(vendors=vendors, meters=meters))
    plugins = loaded(site, folders)
    assert (list(plugins.gpu_vendors), list(plugins.energy_meters)) == ([], ["taken"])
    assert problem in str(report_of(plugins, "power").problem)


def test_two_names_for_one_module_are_one_failure(site: Any, folders: Folders) -> None:
    module = site.add("a")
    site.add("b", None, module=module)
    plugins = loaded(site, folders)
    assert [report.state for report in plugins.reports] == ["loaded", "failed"]


def test_blocked_plugins_are_not_imported(site: Any, folders: Folders) -> None:
    site.add("bad", "raise AssertionError('imported')")
    plugins = loaded(site, folders, Config(blocked_plugins=["bad"], strict_plugins=True))
    assert report_of(plugins, "bad").state == "blocked"


@pytest.mark.parametrize(
    ("requires", "core", "state"),
    [
        ("cerberus-runtime>=0.1,<0.2", "0.1.0", "loaded"),
        ("Cerberus_Runtime>=0.2", "0.1.0", "failed"),
        ("cerberus-runtime<0.1", "0.1.0", "failed"),
        ("cerberus-runtime>=0.1", "0.2.0.dev3", "loaded"),
        ('cerberus-runtime>=9; python_version < "3"', "0.1.0", "loaded"),
        ('cerberus-runtime>=9; extra == "new"', "0.1.0", "loaded"),
        ("not a requirement!", "0.1.0", "loaded"),
        ("attrs>=1", "0.1.0", "loaded"),
    ],
)
def test_the_core_version_asked_for_is_checked_before_import(
    site: Any, folders: Folders, requires: str, core: str, state: str
) -> None:
    # Where it isn't met, the module would fail the test by being imported.
    site.add(
        "asks", HOOK.format(body="return []") if state == "loaded" else "1/0", requires=requires
    )
    report = report_of(loaded(site, folders, core_version=core), "asks")
    assert report.state == state
    if state == "failed":
        assert str(report.problem).startswith("asks for cerberus-runtime")
        assert "this is 0.1.0" in str(report.problem)
        assert "Update cerberus-asks" in str(report.hint)


def test_c05_entry_points_without_distribution_are_reported(
    site: Any, folders: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = EntryPoint(name="gone", value="cerberus_no_such", group="cerberus.plugins")
    mute = EntryPoint(name="mute", value="cerberus_mute_c05", group="cerberus.plugins")
    (site.path / "cerberus_mute_c05.py").write_text("raise RuntimeError('')")
    one, two = loaded(site, folders, entry_points=[gone, mute]).reports
    assert (one.distribution, one.version, one.state) == (None, None, "failed")
    assert "cerberus_no_such" in str(one.problem)
    assert two.problem == "import raised RuntimeError"
    for report in (one, two):
        _show(msgspec.to_builtins(report))
    said = capsys.readouterr().out
    assert "✕ gone (unknown origin): " in said
    assert "✕ mute (unknown origin): import raised RuntimeError" in said


def test_c05_half_removed_metadata_and_a_broken_message(site: Any, folders: Folders) -> None:
    site.add("half", metadata=False)
    site.add("mute", "class E(Exception):\n    def __str__(self): return 1/0\nraise E")
    half, mute = loaded(site, folders).reports
    assert (half.state, half.version) == ("loaded", None)
    assert mute.problem == "import raised E"


def test_settings_reach_the_plugin_and_unknown_keys_are_warnings(
    site: Any, folders: Folders
) -> None:
    site.add(
        "set",
        HOOK.format(
            body="import attrs; S = attrs.make_class('S', {'port': attrs.field(type=int)});"
            " return [One('p%d' % setup.settings(S).port)]"
        ),
    )
    plugins = loaded(site, folders, Config(plugins={"set": {"port": 5, "prot": 6}}))
    assert list(plugins.backends) == ["p5"]
    assert plugins.warnings == ["unknown key plugins.set.prot; did you mean plugins.set.port?"]


def test_c04_installed_for_real_in_a_process_of_its_own(site: Any, tmp_path: Path) -> None:
    for kind, (source, _, _) in BAD.items():
        site.add(kind, source)
    site.add("good")
    code = """
import json, pathlib, sys
from cerberus_core.config import Config
from cerberus_core.loading import load_plugins
from cerberus_core.platform import Folders
data = pathlib.Path(sys.argv[1])
found = load_plugins(Config(), Folders(data, data), core_version="0.1.0", time_limit_s=0.5)
print(json.dumps({report.name: report.state for report in found.reports}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "data")],
        env={**os.environ, "PYTHONPATH": str(site.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # Threads of hung plugins don't keep the process from ending.
    assert (done.returncode, done.stderr) == (0, "")
    states = json.loads(done.stdout)
    assert states["good"] == "loaded"
    assert {kind: states[kind] for kind in BAD} == dict.fromkeys(BAD, "failed")
