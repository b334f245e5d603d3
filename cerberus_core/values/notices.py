"""What a person should look at."""

import attrs


@attrs.frozen(kw_only=True)
class Notice:
    """Something that wants a person: what is wrong, and what to do about it."""

    text: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.text}. {self.hint}" if self.hint else self.text
