"""The bearer token."""

import hmac


def bearer_matches(authorization: bytes, token: str) -> bool:
    """Whether an `Authorization` header carries `token`. Constant time in the secret."""
    scheme, _, value = authorization.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(value.strip(), token.encode())
