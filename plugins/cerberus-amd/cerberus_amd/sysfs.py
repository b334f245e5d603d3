"""Cards as the amdgpu driver shows them.

https://docs.kernel.org/gpu/amdgpu/thermal.html and driver-misc.html: bytes,
microwatts, millidegrees.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from cerberus_core.values import GPU

AMD = "0x1002"
_CARD = re.compile(r"card(\d+)")


def cards(sysfs: Path) -> Iterator[tuple[str, Path]]:
    """(PCI address, its folder) of each AMD card, in the kernel's order."""
    try:
        found = [path for path in (sysfs / "class/drm").iterdir() if _CARD.fullmatch(path.name)]
    except OSError:
        return
    for card in sorted(found, key=lambda path: int(path.name.removeprefix("card"))):
        device = card / "device"
        if text(device / "vendor") == AMD:
            yield _address(device) or card.name, device


def read(index: int, address: str, device: Path) -> GPU:
    """What the kernel shows of a card. Raises OSError where it has gone."""
    device.stat()
    name = text(device / "product_name") or f"AMD {text(device / 'device') or 'card'}"
    hwmon = next(iter(sorted((device / "hwmon").glob("hwmon*"))), device / "hwmon")
    power_uw = number(hwmon / "power1_average")
    if power_uw is None:
        power_uw = number(hwmon / "power1_input")
    limit_uw, temp_m = number(hwmon / "power1_cap"), number(hwmon / "temp1_input")
    total, used = number(device / "mem_info_vram_total"), number(device / "mem_info_vram_used")
    return GPU(
        index=index,
        id=address,
        name=name,
        vendor="amd",
        mem_total_mib=None if total is None else total >> 20,
        mem_used_mib=None if used is None else used >> 20,
        power_w=None if power_uw is None else power_uw / 1e6,
        power_limit_w=None if limit_uw is None else limit_uw / 1e6,
        util_pct=number(device / "gpu_busy_percent"),
        temp_c=None if temp_m is None else round(temp_m / 1000),
        pstate=text(device / "power_dpm_force_performance_level"),
    )


def text(file: Path) -> str | None:
    """What stands in a file; None where it can't be read or is empty."""
    try:
        return file.read_text().strip() or None
    except (OSError, ValueError):
        return None


def number(file: Path) -> int | None:
    """A whole number from 0; None for everything else."""
    value = text(file)
    return int(value) if value is not None and value.isascii() and value.isdigit() else None


def _address(device: Path) -> str | None:
    for line in (text(device / "uevent") or "").splitlines():
        key, _, value = line.partition("=")
        if key == "PCI_SLOT_NAME":
            return value.lower()
    return None
