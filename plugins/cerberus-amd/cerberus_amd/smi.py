"""What only AMD's library tells of a card: its energy counter and its processes.

Without its shared library `import amdsmi` prints to stdout and raises what it
likes. So the import is tried in a process of its own, once, and done here only
where that went well.
"""

import subprocess
import sys
from typing import Any

import attrs

PROBE_S = 20.0


@attrs.frozen(kw_only=True)
class Told:
    energy_j: float | None = None
    processes: dict[int, int | None] | None = None


class Smi:
    """`look` gives what the library tells by PCI address; nothing where it isn't here."""

    def __init__(self, module: Any = None) -> None:
        """`module` stands for amdsmi; None: import it if that can be done."""
        self._module = module
        self._tried = module is not None
        self._open = False

    def look(self) -> dict[str, Told]:
        module = self._library()
        if module is None:
            return {}
        try:
            if not self._open:
                module.amdsmi_init()
                self._open = True
            handles = module.amdsmi_get_processor_handles()
            return dict(_card(module, handle) for handle in handles)
        except Exception:  # noqa: BLE001 any kind comes out of it; the kernel's files still tell
            self.close()
            return {}

    def close(self) -> None:
        if self._open:
            self._open = False
            _asked(self._module.amdsmi_shut_down)

    def _library(self) -> Any:
        if not self._tried:
            self._tried = True
            if _can_be_imported():
                import amdsmi

                self._module = amdsmi
        return self._module


def _card(module: Any, handle: Any) -> tuple[str, Told]:
    address = str(module.amdsmi_get_gpu_device_bdf(handle)).lower()
    count = _asked(module.amdsmi_get_energy_count, handle)
    listed = _asked(module.amdsmi_get_gpu_process_list, handle)
    processes = None if listed is None else dict(map(_process, listed))
    return address, Told(
        # The resolution is in microjoules.
        energy_j=count["energy_accumulator"] * count["counter_resolution"] / 1e6
        if count is not None
        else None,
        processes=processes,
    )


def _process(row: Any) -> tuple[int, int | None]:
    """(pid, MiB); the driver writes N/A for what it doesn't know."""
    try:
        return int(row["pid"]), int(row["memory_usage"]["vram_mem"]) >> 20
    except (ValueError, TypeError, KeyError):
        pid = row.get("pid") if isinstance(row, dict) else None
        return pid if isinstance(pid, int) else 0, None


def _asked(call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Exception:  # noqa: BLE001 a card or a driver that doesn't tell this
        return None


def _can_be_imported() -> bool:
    try:
        done = subprocess.run(
            [sys.executable, "-c", "import amdsmi"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
