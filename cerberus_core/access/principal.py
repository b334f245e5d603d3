"""Who asks."""

import attrs


@attrs.frozen
class Principal:
    """The owner, or a gateway key with its id and name."""

    key_id: str | None = None
    name: str | None = None


OWNER = Principal()
