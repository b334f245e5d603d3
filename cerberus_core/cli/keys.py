"""`cerberus keys`: what clients may use, and how much."""

import re
import sys
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


def _limit(help: str) -> Any:
    return typer.Option(help=help, min=0, metavar="N", show_default=False)


@app.callback()
def _keys() -> None:
    """List, make, rename and revoke the keys of clients."""


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


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="What records call its user.")],
    models: Annotated[
        list[str] | None,
        typer.Option(help="Patterns of models it may use, such as 'llamacpp/*'; several: commas."),
    ] = None,
    local_only: Annotated[
        bool, typer.Option("--local-only", help="No model that answers elsewhere.")
    ] = False,
    requests_per_day: Annotated[int | None, _limit("At most so many requests a day.")] = None,
    requests_per_month: Annotated[int | None, _limit("A month.")] = None,
    requests_in_all: Annotated[int | None, _limit("In all.")] = None,
    tokens_per_day: Annotated[int | None, _limit("At most so many tokens a day.")] = None,
    tokens_per_month: Annotated[int | None, _limit("A month.")] = None,
    tokens_in_all: Annotated[int | None, _limit("In all.")] = None,
    money_per_day: Annotated[float | None, _limit("What clouds may cost a day.")] = None,
    money_per_month: Annotated[float | None, _limit("A month.")] = None,
    money_in_all: Annotated[float | None, _limit("In all.")] = None,
    joules_per_day: Annotated[float | None, _limit("Energy of local models a day.")] = None,
    joules_per_month: Annotated[float | None, _limit("A month.")] = None,
    joules_in_all: Annotated[float | None, _limit("In all.")] = None,
    parallel: Annotated[
        int | None, typer.Option(help="Requests at the same time.", min=1, metavar="N")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="When it ends: 12h, 30d, 4w, or a date.", metavar="WHEN")
    ] = None,
    store_prompts: Annotated[
        bool, typer.Option("--store-prompts", help="Prompts and answers may be kept.")
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
        "models": [one.strip() for text in models or [] for one in text.split(",") if one.strip()],
        "cloud": not local_only,
        "limits": [
            {"what": what, "per": per, "most": most}
            for what, three in amounts.items()
            for per, most in zip(_PER, three, strict=True)
            if most is not None
        ],
        "max_parallel": parallel,
        "expires_at": None
        if expires is None
        else parse_until(expires, datetime.now(UTC)).isoformat(),
        "store_prompts": store_prompts,
    }
    made = DaemonClient().post("/api/keys", wanted)
    if json:
        say_json(made)
        return
    say(made["token"])
    if sys.stdout.isatty():
        warn("It is shown this once. Clients send it as their API key; it opens /v1 alone.")


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
    say(f"  prompts     {'may be kept' if key['store_prompts'] else 'are not kept'}")
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
