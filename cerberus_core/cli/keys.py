"""`cerberus keys`: what clients may use, and how much."""

import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from cerberus_core.errors import CerberusError, NotFound

from .daemon_client import DaemonClient
from .options import Json
from .output import figure, say, say_json, warn
from .typed import typed

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A key's name or id.")]

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PER = {"day": "a day", "month": "a month", "total": "in all"}
_SUFFIX = {"day": "per-day", "month": "per-month", "total": "in-all"}
_WHAT = ("requests", "tokens", "money", "joules")
_NONE: dict[str, tuple[str, Any]] = {
    "models": ("models", []),
    "parallel": ("max_parallel", None),
    "expires": ("expires_at", None),
}
"""What may be dropped beside limits: the field, and what it is then."""


def _limit(help: str) -> Any:
    return typer.Option(help=help, min=0, metavar="N", show_default=False)


@app.callback()
def _keys() -> None:
    """List, make, change and revoke the keys of clients."""


@app.command("ls")
def ls(json: Json = False) -> None:
    """List the keys, without their tokens."""
    found = DaemonClient().get("/api/keys")
    if json:
        say_json(found)
    elif found["keys"]:
        _table(found["keys"], found["currency"])
    else:
        say(typed("There are no keys yet. `cerberus keys add NAME` makes one."))


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show one key: what it may use, its limits, what it has spent."""
    found = DaemonClient().get("/api/keys")
    key = _find(found["keys"], name)
    if json:
        say_json({**key, "currency": found["currency"]})
    else:
        _show(key, found["currency"])


Models = Annotated[
    list[str] | None,
    typer.Option(help="Patterns of models it may use, such as 'llamacpp/*'; several: commas."),
]
RequestsPerDay = Annotated[int | None, _limit("At most so many requests a day.")]
TokensPerDay = Annotated[int | None, _limit("At most so many tokens a day.")]
MoneyPerDay = Annotated[float | None, _limit("What clouds may cost a day.")]
JoulesPerDay = Annotated[float | None, _limit("Energy of local models a day.")]
PerMonth = Annotated[int | None, _limit("A month.")]
AmountPerMonth = Annotated[float | None, _limit("A month.")]
InAll = Annotated[int | None, _limit("In all.")]
AmountInAll = Annotated[float | None, _limit("In all.")]
Parallel = Annotated[
    int | None, typer.Option(help="Requests at the same time.", min=1, metavar="N")
]
Expires = Annotated[
    str | None, typer.Option(help="When it ends: 12h, 30d, 4w, or a date.", metavar="WHEN")
]


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="What records call its user.")],
    models: Models = None,
    local_only: Annotated[
        bool, typer.Option("--local-only", help="No model that answers elsewhere.")
    ] = False,
    requests_per_day: RequestsPerDay = None,
    requests_per_month: PerMonth = None,
    requests_in_all: InAll = None,
    tokens_per_day: TokensPerDay = None,
    tokens_per_month: PerMonth = None,
    tokens_in_all: InAll = None,
    money_per_day: MoneyPerDay = None,
    money_per_month: AmountPerMonth = None,
    money_in_all: AmountInAll = None,
    joules_per_day: JoulesPerDay = None,
    joules_per_month: AmountPerMonth = None,
    joules_in_all: AmountInAll = None,
    parallel: Parallel = None,
    expires: Expires = None,
    store_prompts: Annotated[
        bool, typer.Option("--store-prompts", help="Its prompts and answers are kept.")
    ] = False,
    json: Json = False,
) -> None:
    """Make a key and print it. It is shown this once."""
    amounts = {
        "requests": (requests_per_day, requests_per_month, requests_in_all),
        "tokens": (tokens_per_day, tokens_per_month, tokens_in_all),
        "money": (money_per_day, money_per_month, money_in_all),
        "joules": (joules_per_day, joules_per_month, joules_in_all),
    }
    wanted = {
        "name": name,
        "models": _patterns(models),
        "cloud": not local_only,
        "limits": _rows(_limits(amounts)),
        "max_parallel": parallel,
        "expires_at": _until(expires),
        "store_prompts": store_prompts,
    }
    made = DaemonClient().post("/api/keys", wanted)
    if json:
        say_json(made)
        return
    say(made["token"])
    if sys.stdout.isatty():
        warn("It is shown this once. Clients send it as their API key; it opens /v1 alone.")


@app.command("set")
def set_(
    name: Name,
    models: Models = None,
    cloud: Annotated[
        bool | None, typer.Option("--cloud/--local-only", help="Also models that answer elsewhere.")
    ] = None,
    requests_per_day: RequestsPerDay = None,
    requests_per_month: PerMonth = None,
    requests_in_all: InAll = None,
    tokens_per_day: TokensPerDay = None,
    tokens_per_month: PerMonth = None,
    tokens_in_all: InAll = None,
    money_per_day: MoneyPerDay = None,
    money_per_month: AmountPerMonth = None,
    money_in_all: AmountInAll = None,
    joules_per_day: JoulesPerDay = None,
    joules_per_month: AmountPerMonth = None,
    joules_in_all: AmountInAll = None,
    parallel: Parallel = None,
    expires: Expires = None,
    store_prompts: Annotated[
        bool | None,
        typer.Option("--store-prompts/--forget-prompts", help="Its prompts and answers are kept."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            help="What shall have no limit any more: models, parallel, expires, or a limit such "
            "as tokens-per-day; several: commas.",
            metavar="WHAT",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Change what a key may. What isn't named stays; so do its token and what it has spent."""
    amounts = {
        "requests": (requests_per_day, requests_per_month, requests_in_all),
        "tokens": (tokens_per_day, tokens_per_month, tokens_in_all),
        "money": (money_per_day, money_per_month, money_in_all),
        "joules": (joules_per_day, joules_per_month, joules_in_all),
    }
    daemon = DaemonClient()
    found = daemon.get("/api/keys")
    key = _find(found["keys"], name)
    asked = {
        "models": _patterns(models) or None,
        "cloud": cloud,
        "max_parallel": parallel,
        "expires_at": _until(expires),
        "store_prompts": store_prompts,
    }
    wanted = {field: value for field, value in asked.items() if value is not None}
    wanted |= changed_limits(key["limits"], _limits(amounts), _patterns(drop))
    if not wanted:
        raise CerberusError(
            "Nothing was named that shall change",
            hint="Such as --tokens-per-day 50000, or --drop tokens-per-day.",
            code="usage",
        )
    changed = daemon.patch(f"/api/keys/{key['id']}", wanted)
    if json:
        say_json(changed)
    else:
        _show(changed, found["currency"])


@app.command()
def rename(
    name: Name,
    to: Annotated[str, typer.Argument(help="Its new name.")],
    json: Json = False,
) -> None:
    """Give a key another name. Its token stays."""
    daemon = DaemonClient()
    key = _find(daemon.get("/api/keys")["keys"], name)
    changed = daemon.patch(f"/api/keys/{key['id']}", {"name": to})
    if json:
        say_json(changed)
    else:
        say(f"{key['name']} is now called {changed['name']}.")


@app.command()
def rm(name: Name, json: Json = False) -> None:
    """Revoke a key: it opens nothing from now on."""
    daemon = DaemonClient()
    key = _find(daemon.get("/api/keys")["keys"], name)
    daemon.delete(f"/api/keys/{key['id']}")
    if json:
        say_json({"removed": key["id"], "name": key["name"]})
    else:
        say(f"{key['name']} is revoked.")


def changed_limits(
    limits: list[dict[str, Any]], asked: dict[tuple[str, str], float], drop: list[str]
) -> dict[str, Any]:
    """What of a change takes limits away or names others. Pure."""
    kept = {(one["what"], one["per"]): one["most"] for one in limits}
    names = {f"{what}-{_SUFFIX[per]}": (what, per) for what in _WHAT for per in _PER}
    wanted: dict[str, Any] = {}
    for name in drop:
        if name in names:
            kept.pop(names[name], None)
        elif name in _NONE:
            field, none = _NONE[name]
            wanted[field] = none
        else:
            raise CerberusError(
                f"There is no limit named {name!r}",
                hint=f"Of {', '.join([*_NONE, *names])}.",
                code="usage",
            )
    if asked or any(name in names for name in drop):
        wanted["limits"] = _rows(kept | asked)
    return wanted


def _limits(amounts: Mapping[str, tuple[float | None, ...]]) -> dict[tuple[str, str], float]:
    return {
        (what, per): most
        for what, three in amounts.items()
        for per, most in zip(_PER, three, strict=True)
        if most is not None
    }


def _rows(limits: dict[tuple[str, str], float]) -> list[dict[str, Any]]:
    return [{"what": what, "per": per, "most": most} for (what, per), most in limits.items()]


def _patterns(texts: list[str] | None) -> list[str]:
    return [one.strip() for text in texts or [] for one in text.split(",") if one.strip()]


def _until(text: str | None) -> str | None:
    return None if text is None else parse_until(text, datetime.now(UTC)).isoformat()


def parse_until(text: str, now: datetime) -> datetime:
    """A moment from `30d` or an ISO date; without a zone it is local. Pure."""
    match = re.fullmatch(r"(\d{1,5})([mhdw])", text)
    try:
        if match:
            return now + timedelta(**{_UNITS[match[2]]: int(match[1])})
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise CerberusError(
            f"{text!r} is no time", hint="Write 12h, 30d, 4w or 2030-01-31.", code="usage"
        ) from None


def _find(keys: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for field in ("id", "name"):
        for key in keys:
            if key[field] == name:
                return key
    raise NotFound(
        f"There is no key named {name!r}", hint="`cerberus keys ls` shows those that there are."
    )


def _table(keys: list[dict[str, Any]], currency: str) -> None:
    from .table import Column, print_table

    columns = [
        Column("KEY", long=True), Column("ID"), Column("MAY USE", long=True),
        Column("TODAY", right=True), Column("LAST USE"), Column("EXPIRES"),
    ]  # fmt: skip
    rows = [
        [
            key["name"],
            key["id"],
            _scope(key),
            f"{key['day']['tokens']} tok",
            _when(key["last_used_at"]) or "never",
            "✕ expired" if key["expired"] else _when(key["expires_at"]) or "—",
        ]
        for key in keys
    ]
    notes = [", ".join(_limit_of(one, currency) for one in key["limits"]) for key in keys]
    print_table(columns, rows, notes)


def _show(key: dict[str, Any], currency: str) -> None:
    say(f"{key['name']} ({key['id']})")
    say(f"  may use     {_scope(key)}")
    say(f"  made        {_when(key['created_at'])}")
    say(f"  last use    {_when(key['last_used_at']) or 'never'}")
    expired = ", which is over" if key["expired"] else ""
    say(f"  expires     {_when(key['expires_at']) or 'never'}{expired}")
    if key["max_parallel"] is not None:
        say(f"  parallel    {key['running']} of {key['max_parallel']} requests")
    say(f"  prompts     {'are kept' if key['store_prompts'] else 'are not kept'}")
    for limit in key["limits"]:
        renews = f", renews {_when(limit['renews_at'])}" if limit["renews_at"] else ""
        say(f"  limit       {_limit_of(limit, currency)}{renews}")
    for name, per in (("today", "day"), ("this month", "month"), ("in all", "total")):
        spent = key[per]
        say(
            f"  {name:<11} {spent['requests']} requests, {spent['tokens']} tokens, "
            f"{_money(spent['money'], currency)}, {figure(spent['joules'])} J"
        )


def _scope(key: dict[str, Any]) -> str:
    which = ", ".join(key["models"]) or "all"
    return which if key["cloud"] else f"{which} (local only)"


def _limit_of(limit: dict[str, Any], currency: str) -> str:
    """`1200 of 50000 tokens a day`."""
    what, per = limit["what"], _PER[limit["per"]]
    if what == "money":
        return f"{limit['spent']:.4f} of {_money(limit['most'], currency)} {per}"
    return f"{limit['spent']:.0f} of {limit['most']:.0f} {what} {per}"


def _money(value: float, currency: str) -> str:
    return f"{value:.4f} {currency}"


def _when(text: str | None) -> str | None:
    if text is None:
        return None
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
