"""`cerberus usage`."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer

from cerberus_core.errors import CerberusError

from .daemon_client import DaemonClient
from .options import Json
from .output import figure, say, say_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@app.command()
def usage(
    since: Annotated[str, typer.Option(help="How far back: 30m, 12h, 7d, 4w, or a date.")] = "30d",
    by: Annotated[Literal["model", "key"], typer.Option(help="Sums of what.")] = "model",
    last: Annotated[
        int | None,
        typer.Option(help="Show so many last requests instead.", min=1, max=1000, metavar="N"),
    ] = None,
    json: Json = False,
) -> None:
    """Show what was used, by model or by key, or the last requests one by one."""
    daemon = DaemonClient()
    if last is not None:
        records = daemon.get(f"/api/requests?limit={last}")["recent"]
        if json:
            say_json({"requests": records})
        else:
            _show_requests(records)
        return
    start = quote(parse_since(since, datetime.now(UTC)).isoformat())
    found = daemon.get(f"/api/usage?since={start}&by={by}")
    if json:
        say_json(found)
        return
    rows = [(row["model"], row) for row in found["models"]]
    rows += [(_holder(row), row) for row in found["keys"]]
    _show_sums(by.upper(), rows, found["price_per_kwh"], found["currency"])


def parse_since(text: str, now: datetime) -> datetime:
    """A moment from `7d` or an ISO date; without a zone it is local. Pure."""
    match = re.fullmatch(r"(\d{1,5})([mhdw])", text)
    if match:
        return now - timedelta(**{_UNITS[match[2]]: int(match[1])})
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise CerberusError(
            f"{text!r} is no time", hint="Write 30m, 12h, 7d, 4w or 2026-01-31.", code="usage"
        ) from None


def _holder(row: dict[str, Any]) -> str:
    return "(the owner)" if row["key_id"] is None else row["name"] or row["key_id"]


def _show_sums(
    heading: str,
    rows: list[tuple[str, dict[str, Any]]],
    price_per_kwh: float | None = None,
    currency: str = "",
) -> None:
    from .table import Column, print_table

    if not rows:
        say("No requests in that time.")
        return
    numbers = ["REQUESTS", "ERRORS", "PROMPT", "ANSWER", "TOK/S", "FIRST\nTOKEN", "ENERGY"]
    priced = price_per_kwh is not None or any(row["cost"] is not None for _, row in rows)
    if priced:
        numbers.append(currency)
    print_table(
        [Column(heading, long=True), *[Column(name, right=True) for name in numbers]],
        [
            [
                name,
                str(row["requests"]),
                str(row["errors"]),
                _known(row["prompt_tokens"]),
                _known(row["completion_tokens"]),
                _figure(row["avg_tok_per_sec"]),
                _known(row["avg_ttft_ms"], "{:.0f} ms"),
                _joules(row["energy_j"]),
                *([_cost(row["energy_j"], price_per_kwh, row["cost"])] if priced else []),
            ]
            for name, row in rows
        ],
    )


def _show_requests(records: list[dict[str, Any]]) -> None:
    from .table import Column, print_table

    if not records:
        say("No requests yet.")
        return
    # 80 columns don't hold everything: with energies the status stands with the error.
    metered = any(row.get("energy_j") is not None for row in records)
    numbers = ["PROMPT", "ANSWER", "TOK/S", "FIRST\nTOKEN", "TOOK"]
    print_table(
        [
            Column("WHEN"),
            Column("MODEL", long=True),
            *([] if metered else [Column("STATUS", right=True)]),
            *[Column(name, right=True) for name in numbers],
            *([Column("ENERGY", right=True)] if metered else []),
        ],
        [
            [
                _when(row["time"], "%m-%d %H:%M" if metered else "%m-%d %H:%M:%S"),
                row["model"],
                *([] if metered else [_known(row["status"])]),
                _known(row["prompt_tokens"]),
                ("~" if row["tokens_counted"] else "") + _known(row["completion_tokens"]),
                _figure(row["tok_per_sec"]),
                _known(row["ttft_ms"], "{} ms"),
                _known(row["duration_ms"], "{} ms"),
                *([_energy(row)] if metered else []),
            ]
            for row in records
        ],
        [_outcome(row) if metered else row["error"] or "" for row in records],
    )


def _when(text: str, form: str) -> str:
    return datetime.fromisoformat(text).astimezone().strftime(form)


def _outcome(row: dict[str, Any]) -> str:
    return f"{_known(row['status'])}: {row['error']}" if row["error"] else ""


def _known(value: Any, form: str = "{}") -> str:
    return "—" if value is None else form.format(value)


def _figure(value: float | None, unit: str = "") -> str:
    return "—" if value is None else figure(value) + unit


def _energy(row: dict[str, Any]) -> str:
    """Of one request; ~ marks an estimate."""
    mark = "~" if row["energy"] == "estimated" else ""
    return mark + _joules(row["energy_j"])


def _joules(value: float | None) -> str:
    """From a watt-hour on in Wh."""
    if value is not None and value >= 3600:
        return _figure(value / 3600, " Wh")
    return _figure(value, " J")


def _cost(joules: float | None, price_per_kwh: float | None, cloud: float | None) -> str:
    """Of energy here and tokens elsewhere, as far as known."""
    if joules is None or price_per_kwh is None:
        cost = cloud
    else:
        cost = joules / 3.6e6 * price_per_kwh + (cloud or 0.0)
    return "<0.0001" if cost is not None and 0 < cost < 0.0001 else _known(cost, "{:.4f}")
