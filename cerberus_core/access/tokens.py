"""The owner's token, and the tokens of gateway keys.

A key's is `ck-<id>-<secret>`: the id finds it, a hash of the whole is kept. The
secret is 256 random bits, which no dictionary holds: one round of SHA-256 is enough.
"""

import hashlib
import hmac
import secrets

KEY_PREFIX = "ck-"
_ALPHABET = "abcdefghjkmnpqrstvwxyz23456789"  # no 0 o 1 i l u
_ID_LENGTH = 10


def bearer_matches(authorization: bytes, token: str) -> bool:
    """Whether an `Authorization` header carries `token`. Constant time in the secret."""
    return same(bearer(authorization), token)


def bearer(authorization: bytes) -> bytes:
    """What an `Authorization` header carries; nothing where it is of another kind."""
    scheme, _, value = authorization.partition(b" ")
    return value.strip() if scheme.lower() == b"bearer" else b""


def same(sent: bytes, token: str) -> bool:
    """Constant time in the secret."""
    return hmac.compare_digest(sent, token.encode())


def make_key_token() -> tuple[str, str]:
    """(id, token) of a new key."""
    key_id = "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LENGTH))
    return key_id, f"{KEY_PREFIX}{key_id}-{secrets.token_urlsafe(32)}"


def is_key_token(sent: bytes) -> bool:
    """Whether it looks like a key's."""
    return sent.startswith(b"ck-")


def key_id_of(sent: bytes) -> str:
    """The id that a key's token names; it proves nothing."""
    return sent[len(KEY_PREFIX) :].partition(b"-")[0].decode("latin-1")


def key_hash(token: bytes) -> bytes:
    """What is kept of a key's token."""
    return hashlib.sha256(token).digest()


def hash_matches(token: bytes, kept: bytes) -> bool:
    """Whether `kept` is the token's hash. Constant time."""
    return hmac.compare_digest(key_hash(token), kept)
