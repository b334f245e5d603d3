"""Build hook: a wheel or sdist without the built UI is refused (an editable install is not)."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WebDist(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        index = Path(self.root) / "cerberus_core" / "web_dist" / "index.html"
        if not index.is_file():
            raise RuntimeError(
                "cerberus_core/web_dist/index.html is missing: "
                "build the UI first (scripts/web build)"
            )
