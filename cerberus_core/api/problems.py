"""Errors as problem+json (RFC 9457) with a stable `code` and a `hint`."""

from typing import Any

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException

from cerberus_core.errors import CerberusError
from cerberus_core.gateway.answers import status_of

MEDIA_TYPE = "application/problem+json"
_log = structlog.get_logger("api")


def problem(
    status: int, title: str, *, code: str, detail: str | None = None, hint: str | None = None
) -> dict[str, Any]:
    """The body of an error answer."""
    return {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
        "hint": hint,
    }


def problem_bytes(status: int, title: str, *, code: str, hint: str | None = None) -> bytes:
    return msgspec.json.encode(problem(status, title, code=code, hint=hint))


def _answer(body: dict[str, Any]) -> Response[dict[str, Any]]:
    return Response(body, status_code=body["status"], media_type=MEDIA_TYPE)


def on_cerberus_error(_: Request[Any, Any, Any], error: CerberusError) -> Response[dict[str, Any]]:
    body = problem(status_of(error), error.message, code=error.code, hint=error.hint)
    answer = _answer(body)
    if error.retry_after_s is not None:
        answer.headers["retry-after"] = str(error.retry_after_s)
    return answer


def on_http_error(_: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """Litestar's own: no route, wrong method, a body or parameter that doesn't fit."""
    extra = error.extra if isinstance(error.extra, list) else []
    detail = "; ".join(_told(item) for item in extra if isinstance(item, dict))
    status = error.status_code
    code, hint = _HTTP.get(status, ("bad_request", None) if status < 500 else ("error", None))
    body = problem(status, error.detail, code=code, detail=detail or None, hint=hint)
    allowed = (error.headers or {}).get("allow")
    headers = {"allow": allowed.replace("GET", "GET, HEAD")} if allowed else None
    return Response(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)


_PATHS = "`/api/openapi.json` describes every path."
_HTTP = {
    400: ("bad_request", _PATHS),
    404: ("not_found", _PATHS),
    405: ("method_not_allowed", _PATHS),
    413: ("request_too_large", "Nothing that this API takes is that large."),
}


def _told(item: dict[str, Any]) -> str:
    """`limit: Expected int >= 1`."""
    message = str(item.get("message", item))
    return f"{item['key']}: {message}" if item.get("key") else message


def on_too_deep(_: Request[Any, Any, Any], error: RecursionError) -> Response[Any]:
    """A body of a hundred thousand brackets."""
    title = "The body is nested too deeply"
    return _answer(problem(400, title, code="bad_request", hint=_PATHS))


def on_fault(request: Request[Any, Any, Any], error: Exception) -> Response[dict[str, Any]]:
    _log.error("api_fault", path=request.url.path, exc_info=error)
    return _answer(
        problem(
            500,
            "Cerberus made a mistake",
            code="error",
            detail=type(error).__name__,
            hint="The log of `cerberus serve` has the traceback.",
        )
    )
