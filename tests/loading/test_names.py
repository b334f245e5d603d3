"""The light reader of command names agrees with the library that it stands in for."""

from importlib.metadata import entry_points
from pathlib import Path

from cerberus_core.loading import plugin_command_names
from cerberus_core.loading.names import GROUP
from tests.loading.conftest import Site


def test_it_agrees_with_the_library_on_what_is_installed_here() -> None:
    assert plugin_command_names() == sorted({one.name for one in entry_points(group=GROUP)})


def test_only_our_section_counts_and_damage_is_passed_over(tmp_path: Path) -> None:
    site = Site(tmp_path / "site")
    site.add("greet", None, group=GROUP)
    site.add("other", None, group="cerberus.plugins")
    info = tmp_path / "site" / "many-1.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(
        "[console_scripts]\nx = a:b\n\n[cerberus.commands]\n# none = a:b\ntwo=a:b\n"
        "one = a:b\n[cerberus.plugins]\ny = a:b\n"
    )
    for broken, content in (("binary", b"\xff\xfe[cerberus.commands]\nz = a:b"), ("empty", b"")):
        folder = tmp_path / "site" / f"{broken}-1.dist-info"
        folder.mkdir()
        (folder / "entry_points.txt").write_bytes(content)
    folders = [str(tmp_path / "site"), str(tmp_path / "nowhere"), str(tmp_path / "site")]
    assert plugin_command_names(folders) == ["greet", "one", "two"]
