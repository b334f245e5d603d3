"""From a one-time code to the browser's cookie."""

from datetime import UTC, datetime

import attrs
from litestar import Controller, Response, post
from litestar.datastructures import Cookie
from litestar.params import JSONBody

from cerberus_core.access import COOKIE_MAX_AGE_S, COOKIE_NAME, make_cookie
from cerberus_core.access.codes import LIFE_S
from cerberus_core.errors import AccessDenied

from .services import Given, Services


@attrs.frozen(kw_only=True)
class Login:
    code: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Code:
    """`url` carries the code in its fragment, which no server and no log ever sees."""

    code: str = attrs.field(repr=False)
    url: str = attrs.field(repr=False)
    expires_at: datetime


class LoginController(Controller):
    path = "/api"
    tags = ["access"]

    @post("/codes", summary="Make a one-time code", sync_to_thread=False)
    def code(self, services: Given) -> Code:
        """For `cerberus url`: good once, for five minutes."""
        code = services.codes.issue()
        expires = services.clock.now().timestamp() + LIFE_S
        return Code(
            code=code,
            url=f"{services.url()}/#code={code}",
            expires_at=datetime.fromtimestamp(expires, UTC),
        )

    @post("/login", summary="Exchange a code for a cookie", status_code=204)
    async def login(self, services: Given, data: JSONBody[Login]) -> Response[None]:
        """Public: the code is the proof."""
        if not services.codes.redeem(data.code):
            raise AccessDenied(
                "This code is wrong, used or too old",
                hint="`cerberus url` makes a new one.",
                code="bad_code",
            )
        value = make_cookie(services.token, services.clock.now().timestamp())
        return Response(None, status_code=204, cookies=[_cookie(services, value, COOKIE_MAX_AGE_S)])

    @post("/logout", summary="Forget this browser", status_code=204, sync_to_thread=False)
    def logout(self, services: Given) -> Response[None]:
        """Takes the cookie away."""
        return Response(None, status_code=204, cookies=[_cookie(services, "", 0)])


def _cookie(services: Services, value: str, max_age: int) -> Cookie:
    return Cookie(
        key=COOKIE_NAME,
        value=value,
        max_age=max_age,
        path="/",
        httponly=True,
        samesite="strict",
        secure=services.url().startswith("https:"),
    )
