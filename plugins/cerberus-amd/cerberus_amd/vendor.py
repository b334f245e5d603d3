"""AMD cards: the kernel's files, and AMD's library for what they don't show."""

from collections.abc import Sequence
from pathlib import Path

import attrs

from cerberus_core.errors import Unavailable
from cerberus_core.interfaces import GPUVendor
from cerberus_core.values import GPU, Availability

from . import sysfs
from .smi import Smi, Told

HINT = (
    "The amdgpu driver shows its cards in /sys/class/drm; without a card, uninstall cerberus-amd."
)


class AmdVendor(GPUVendor):
    name = "amd"

    def __init__(self, root: str, *, use_amdsmi: bool = True, smi: Smi | None = None) -> None:
        """`smi` replaces AMD's library."""
        self._root = Path(root)
        self._smi = smi or (Smi() if use_amdsmi else None)
        self._known: dict[str, GPU] = {}

    def available(self) -> Availability:
        cards = [sysfs.read(i, *card) for i, card in enumerate(sysfs.cards(self._root))]
        if not cards:
            return Availability(ok=False, detail=f"no AMD card in {self._root}", hint=HINT)
        if self._smi is not None:
            self._smi.look()  # the first contact takes long, and a reading has less time
        return Availability(ok=True, detail=", ".join(gpu.name for gpu in cards))

    def read(self) -> Sequence[GPU]:
        found = list(sysfs.cards(self._root))
        if not found and not self._known:
            raise Unavailable(f"no AMD card in {self._root}", hint=HINT)
        # AMD's library is loaded only where there is a card.
        told = self._smi.look() if self._smi is not None and found else {}
        here = {
            address: self._card(index, address, device, told.get(address, Told()))
            for index, (address, device) in enumerate(found)
        }
        gone = [gpu.unread("it is gone") for id, gpu in self._known.items() if id not in here]
        return [*here.values(), *gone]

    def close(self) -> None:
        if self._smi is not None:
            self._smi.close()

    def _card(self, index: int, address: str, device: Path, told: Told) -> GPU:
        try:
            gpu = sysfs.read(index, address, device)
        except OSError as error:
            known = self._known.get(address)
            name = known.name if known is not None else "AMD card"
            bare = GPU(index=index, id=address, name=name, vendor=self.name)
            return (known or bare).unread(error.strerror or str(error))
        gpu = attrs.evolve(gpu, energy_j=told.energy_j, processes=told.processes)
        self._known[address] = gpu
        return gpu
