"""Where things are. `CERBERUS_CONFIG` and `CERBERUS_DATA` move the folders.

Light: every command imports it.
"""

import os
from collections.abc import Mapping
from pathlib import Path

NAME = "cerberus"


class Folders:
    """The config folder and the data folder, and what stands in them. Makes nothing."""

    def __init__(self, config: Path, data: Path) -> None:
        self.config = config
        self.data = data

    @property
    def config_file(self) -> Path:
        return self.config / "config.toml"

    @property
    def models(self) -> Path:
        return self.data / "models"

    @property
    def usage(self) -> Path:
        return self.data / "usage"

    @property
    def prompts(self) -> Path:
        return self.data / "prompts"

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def state_file(self) -> Path:
        return self.data / "state.sqlite"

    @property
    def daemon_lock(self) -> Path:
        return self.data / "daemon.lock"

    @property
    def daemon_file(self) -> Path:
        """Where the running daemon tells its pid and URL."""
        return self.data / "daemon.json"

    def __repr__(self) -> str:
        return f"Folders(config={str(self.config)!r}, data={str(self.data)!r})"


def folders(env: Mapping[str, str] | None = None) -> Folders:
    """The folders of this user. `env` defaults to the process environment."""
    env = os.environ if env is None else env
    config = env.get("CERBERUS_CONFIG")
    data = env.get("CERBERUS_DATA")
    if config and data:
        return Folders(Path(config).expanduser(), Path(data).expanduser())
    import platformdirs

    return Folders(
        Path(config).expanduser() if config else platformdirs.user_config_path(NAME),
        Path(data).expanduser() if data else platformdirs.user_data_path(NAME),
    )
