"""The settings of a daemon at its start, and how they are read again."""

from collections.abc import Mapping

import attrs

from cerberus_core.config import Current, Draft, Loaded, content, ensure_token, load
from cerberus_core.config.watch import Content
from cerberus_core.platform import Folders


@attrs.frozen(kw_only=True)
class Start:
    """`seen` is what the file held when the settings were read."""

    settings: Current
    token: str = attrs.field(repr=False)
    seen: Content = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Source:
    """Where the settings come from: the file, `env`, and over both the call."""

    folders: Folders
    env: Mapping[str, str] | None
    host: str | None
    port: int | None

    def read(self, draft: Draft | None = None) -> Loaded:
        """With `draft` in the place of the file. Blocking. Raises ConfigError."""
        loaded = load(self.folders, self.env, draft=draft)
        server = loaded.config.server
        if self.host is not None:
            server = attrs.evolve(server, host=self.host)
        if self.port is not None:
            server = attrs.evolve(server, port=self.port)
        return attrs.evolve(loaded, config=attrs.evolve(loaded.config, server=server))

    def start(self, first: Loaded) -> Start:
        """With a token, which is made where `first` has none. Blocking. Raises ConfigError."""
        made = first.config.server.token is None
        if made:
            ensure_token(self.folders)
        # Looked at before it is read: what is saved in between is noticed later.
        seen = content(self.folders.config_file)
        loaded = self.read()
        if made:  # of an empty file it would no longer be told
            loaded = attrs.evolve(loaded, warnings=first.warnings)
        token = loaded.config.server.token or ensure_token(self.folders)
        return Start(settings=Current(loaded, self.read), token=token, seen=seen)
