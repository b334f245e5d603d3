"""The contracts of what reads GPUs and of what meters energy."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from cerberus_core.values import GPU, Availability, EnergyReading


class GPUVendor(ABC):
    """The cards of one vendor.

    The methods block, as vendors' libraries do, and run in a thread; calls of
    one object never overlap. One that takes too long is left behind, and until
    it returns the cards count as unreadable.
    """

    name: str
    """Unique among all vendors and meters."""

    @abstractmethod
    def available(self) -> Availability:
        """Whether cards can be read here, with a hint if not. Asked again now and then."""

    @abstractmethod
    def read(self) -> Sequence[GPU]:
        """Every card now. A card that fails carries `problem` and costs no other.

        Raises `Unavailable` where none can be read; the next call tries anew.
        """

    def close(self) -> None:
        """Let go of the library. Called once, at shutdown."""


class EnergyMeter(ABC):
    """A meter of energy that is no GPU: CPU packages, a whole machine.

    The methods block and run in a thread, as those of `GPUVendor`.
    """

    name: str
    """Unique among all vendors and meters."""

    @abstractmethod
    def available(self) -> Availability:
        """Whether it can be read here, with a hint if not. Asked again now and then."""

    @abstractmethod
    def read(self) -> Sequence[EnergyReading]:
        """Every zone now; zones don't hold each other. One that fails carries `problem`.

        Raises `Unavailable` where none can be read; the next call tries anew.
        """

    def close(self) -> None:
        """Let go of what it holds. Called once, at shutdown."""
