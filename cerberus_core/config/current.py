"""The settings that a daemon runs with, and how they follow the file."""

from collections.abc import Awaitable, Callable, Collection, Iterable

import anyio
import structlog
from anyio.to_thread import run_sync as in_thread

from cerberus_core.errors import ConfigError
from cerberus_core.values import Notice

from .changes import Change, Effect, diff, in_force
from .loader import Draft, Loaded
from .schema import Config

_NAMED = 5  # keys in one line

Prepare = Callable[[Config], Awaitable[Callable[[], None]]]
"""Makes ready what the settings ask for and returns what puts it in force. Raises ConfigError."""

_log = structlog.get_logger("config")


async def _nothing(_: Config) -> Callable[[], None]:
    return lambda: None


class Current:
    """`config` is in force; what needs a restart is in it as it was at the start."""

    def __init__(self, loaded: Loaded, read: Callable[..., Loaded]) -> None:
        """`read` loads the settings anew, from a draft where it is given one.

        It blocks, and raises ConfigError.
        """
        self.config = loaded.config
        self._read = read
        self._loaded = loaded
        self._problem: ConfigError | None = None
        self._gone = False
        self._waiting = ""
        self.told: Callable[[], None] = lambda: None
        """Called where what `config` or `notices` tell may have changed."""
        self._appliers: list[Callable[[Config], None]] = []
        self._live: Callable[[], Collection[str]] = tuple
        self._prepare: Prepare = _nothing
        self._one_at_a_time = anyio.Lock()

    def follow(self, apply: Callable[[Config], None]) -> None:
        """Call `apply` with the settings in force whenever they change. It can't fail."""
        self._appliers.append(apply)

    def follow_plugins(self, live: Callable[[], Collection[str]], prepare: Prepare) -> None:
        """`live` are those whose settings `prepare` puts in force without a restart."""
        self._live, self._prepare = live, prepare

    async def diff(self, draft: Draft | None = None) -> list[Change]:
        """How the file, or `draft`, differs from what is in force. Raises ConfigError."""
        loaded = await in_thread(self._read, *([] if draft is None else [draft]))
        return diff(self.config, loaded.config, self._live())

    async def reload(self) -> list[Change]:
        """Take up what the file says; what changed. Raises ConfigError, and all stays as it was."""
        async with self._one_at_a_time:
            try:
                return await self._reload()
            except ConfigError as error:
                if self._problem is None or self._problem.message != error.message:
                    _log.warning("settings_refused", why=error.message)
                self._problem = error
                raise
            finally:
                self.told()

    async def try_reload(self) -> None:
        """`reload` where nobody waits for an answer: the log and `notices` tell what is wrong."""
        try:
            await self.reload()
        except ConfigError:
            pass
        except Exception:  # noqa: BLE001 - a fault of ours; the daemon goes on
            _log.exception("settings_fault")

    async def _reload(self) -> list[Change]:
        loaded = await in_thread(self._read)
        live = self._live()
        config = in_force(self.config, loaded.config, live)
        put = await self._prepare(config)
        changes = diff(self.config, loaded.config, live)
        news = diff(self._loaded.config, loaded.config, live)
        self._problem, self._gone, self._loaded = None, False, loaded
        if config != self.config:
            self.config = config
            put()
            for apply in self._appliers:
                apply(config)
        self._waiting = _keys(changes, "restart")
        if news:
            _log.info("settings_read", changed=[f"{one.key}: {one.effect}" for one in news])
        return changes

    @property
    def token_waits(self) -> bool:
        """Whether the file names another token than the one that lets in until a restart."""
        return self._loaded.config.server.token != self.config.server.token

    def lost(self) -> None:
        """The file is gone."""
        if not self._gone:
            _log.warning("settings_gone")
        self._gone = True
        self.told()

    def notices(self, file: str) -> list[Notice]:
        """What is wrong with the settings, and what waits for a restart."""
        mend = f"Mend it in {file}; it is read when it is saved."
        found = []
        if self._problem is not None:
            what = self._problem.message.partition("\n")[0]
            found.append(Notice(text=f"{what}. The settings from before stay in force", hint=mend))
        if self._gone:
            text = f"{file} is gone; what it said stays in force until the next start"
            found.append(Notice(text=text, hint="`cerberus config reload` takes the defaults."))
        found += [Notice(text=text, hint=mend) for text in self._loaded.warnings]
        if self._waiting:
            text = f"Changed in {file}, in force after a restart: {self._waiting}"
            found.append(Notice(text=text, hint="`cerberus config diff` shows it."))
        return found


def _keys(changes: Iterable[Change], effect: Effect) -> str:
    keys = [change.key for change in changes if change.effect == effect]
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    return ", ".join(keys[:_NAMED]) + more
