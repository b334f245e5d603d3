"""Every error that Cerberus raises on purpose.

    CerberusError
    ├─ ConfigError            a setting is wrong, or its file can't be read or written
    ├─ PluginError            a plugin can't be loaded or broke its contract
    ├─ BadRequest             the caller's request can never succeed as it is
    ├─ AccessDenied           no valid token
    ├─ Forbidden              a gateway key may not do that, or a foreign Host or Origin
    ├─ LimitReached           a gateway key has used up what it may
    ├─ NotFound               nothing has that name
    │  └─ ModelNotFound
    ├─ Unsupported            this part can't do that (a backend that can't pull, say)
    ├─ Unavailable            a part that is needed is missing or down
    │  ├─ Overloaded          too many wait already
    │  ├─ NoRoom              a model does not fit beside those that must stay
    │  ├─ LoadFailed          a model could not be loaded
    │  ├─ EngineLost          the engine went away while it was in use
    │  ├─ UpstreamFailed      an endpoint answered with nonsense, too late or not at all
    │  └─ DaemonUnreachable   `cerberus serve` does not answer
    ├─ AddressRefused         the address can't be listened on
    │  └─ AddressInUse
    └─ AlreadyRunning         another daemon owns this data folder

An error speaks to the person: `message` says what happened, `hint` what to do
about it, `code` is stable and meant for programs. Only `api/` and `gateway/`
map errors to HTTP, only `cli/` prints them.
"""

__all__ = [
    "AccessDenied",
    "AddressInUse",
    "AddressRefused",
    "AlreadyRunning",
    "BadRequest",
    "CerberusError",
    "ConfigError",
    "DaemonUnreachable",
    "EngineLost",
    "Forbidden",
    "LimitReached",
    "LoadFailed",
    "ModelNotFound",
    "NoRoom",
    "NotFound",
    "Overloaded",
    "PluginError",
    "Unavailable",
    "Unsupported",
    "UpstreamFailed",
]


class CerberusError(Exception):
    """Base of all: `message` (what happened), `hint` (what to do, or None), `code`."""

    code = "error"
    retry_after_s: int | None = None
    """When asking again may help, in seconds."""

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return self.message


class ConfigError(CerberusError):
    """A setting is wrong; the message names the key path and the file."""

    code = "config_error"


class PluginError(CerberusError):
    """A plugin can't be loaded or broke its contract."""

    code = "plugin_error"


class BadRequest(CerberusError):
    """The request can never succeed as it is."""

    code = "bad_request"


class AccessDenied(CerberusError):
    """No valid token."""

    code = "access_denied"


class Forbidden(CerberusError):
    """A gateway key may not do that, or a Host or Origin is not ours."""

    code = "forbidden"


class LimitReached(CerberusError):
    """A gateway key has used up what it may; says when that renews."""

    code = "limit_reached"


class NotFound(CerberusError):
    """Nothing has that name."""

    code = "not_found"


class ModelNotFound(NotFound):
    """No backend has a model of that name."""

    code = "model_not_found"


class Unsupported(CerberusError):
    """This part can't do what was asked of it."""

    code = "unsupported"


class Unavailable(CerberusError):
    """A part that is needed is missing or down."""

    code = "unavailable"


class Overloaded(Unavailable):
    """Too many wait already; asking again later may help."""

    code = "overloaded"
    retry_after_s = 1


class NoRoom(Unavailable):
    """A model does not fit beside those that must stay; says what is missing."""

    code = "no_room"


class LoadFailed(Unavailable):
    """A model could not be loaded; the message ends with the engine's last words."""

    code = "load_failed"


class EngineLost(Unavailable):
    """The engine went away while it was in use."""

    code = "engine_lost"


class UpstreamFailed(Unavailable):
    """An endpoint answered with nonsense, too late or not at all."""

    code = "upstream_failed"


class DaemonUnreachable(Unavailable):
    """`cerberus serve` does not answer."""

    code = "daemon_unreachable"


class AddressRefused(CerberusError):
    """The address can't be listened on."""

    code = "address_refused"


class AddressInUse(AddressRefused):
    """Somebody else listens there."""

    code = "address_in_use"


class AlreadyRunning(CerberusError):
    """Another daemon owns this data folder."""

    code = "already_running"
