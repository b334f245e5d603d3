"""The settings: those in force, how the file differs from them, and reading it anew."""

from typing import Any

import attrs
from litestar import Controller, get, post
from litestar.params import JSONBody

from cerberus_core.config import Change, Draft, public, unloaded_yet

from .services import Given, Services


@attrs.frozen(kw_only=True)
class ConfigView:
    """Every setting but the secrets, as it is in force."""

    file: str
    config: dict[str, Any]
    warnings: list[str]


@attrs.frozen(kw_only=True)
class ConfigChanges:
    """`effect` of each: `now` is taken up at once, `next_load` when its model is loaded the
    next time, `restart` when the daemon is started anew.
    """

    file: str
    changes: list[Change]


class ConfigController(Controller):
    path = "/api/config"
    tags = ["box"]

    @get(summary="Settings", sync_to_thread=False)
    def config(self, services: Given) -> ConfigView:
        """The settings in force, without secrets."""
        return ConfigView(
            file=services.config_file,
            config=public(services.settings.config),
            warnings=services.warnings(),
        )

    @get("/diff", summary="How the file differs from the settings in force")
    async def diff(self, services: Given) -> ConfigChanges:
        """And what would become of each change. 400 where the file is wrong.

        With what is in force, but not yet for models that were loaded before.
        """
        return _changes(services, await services.settings.diff())

    @post("/diff", summary="How a file would differ that isn't in place yet", status_code=200)
    async def would_differ(self, services: Given, data: JSONBody[Draft]) -> ConfigChanges:
        """And what would become of each change. Changes nothing. 400 where the file is wrong."""
        return ConfigChanges(file=data.file, changes=await services.settings.diff(data))

    @post("/reload", summary="Read the settings anew", status_code=200)
    async def reload(self, services: Given) -> ConfigChanges:
        """What changed. 400 where the file is wrong: all stays as it was then."""
        return ConfigChanges(file=services.config_file, changes=await services.settings.reload())


def _changes(services: Services, changes: list[Change]) -> ConfigChanges:
    told = {change.key for change in changes}
    waiting = unloaded_yet(services.manager.outdated())
    return ConfigChanges(
        file=services.config_file,
        changes=[*changes, *[one for one in waiting if one.key not in told]],
    )
