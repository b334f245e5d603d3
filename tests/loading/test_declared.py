"""Which settings a plugin has, asked without making its objects."""

from pathlib import Path

import pytest

from cerberus_core.errors import NotFound, PluginError
from cerberus_core.loading import settings_class
from cerberus_core.platform import Folders
from tests.loading.conftest import Site

DECLARES = """
    import attrs
    from cerberus_core import hookimpl

    @attrs.frozen
    class Settings:
        size: int = 1

    @hookimpl
    def cerberus_model_backends(setup):
        setup.settings(Settings)
        raise SystemExit("objects are made")
"""


def test_the_class_is_told_and_nothing_is_made(site: Site, tmp_path: Path) -> None:
    site.add("one", DECLARES)
    site.add("plain")
    folders = Folders(tmp_path / "config", tmp_path / "data")
    cls = settings_class("one", folders, entry_points=site.entry_points())
    assert cls is not None
    assert cls.__name__ == "Settings"
    assert settings_class("plain", folders, entry_points=site.entry_points()) is None
    assert not folders.data.exists()


def test_one_that_isnt_there_or_cant_be_asked(site: Site, tmp_path: Path) -> None:
    site.add("broken", "raise SystemExit('no')")
    folders = Folders(tmp_path / "config", tmp_path / "data")
    with pytest.raises(PluginError, match="SystemExit: no") as broken:
        settings_class("broken", folders, entry_points=site.entry_points())
    assert broken.value.hint
    with pytest.raises(NotFound, match="no plugin 'x'") as absent:
        settings_class("x", folders, entry_points=site.entry_points())
    assert absent.value.hint == "Installed: broken"
