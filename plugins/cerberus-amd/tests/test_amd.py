"""AMD cards on a tree like the kernel's, with and without AMD's library."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from cerberus_amd import smi as smi_module
from cerberus_amd.smi import Smi
from cerberus_amd.vendor import AmdVendor

from cerberus_core.errors import Unavailable
from cerberus_core.testing import check_gpu_vendors, check_package
from cerberus_core.values import GPU

FILES = {
    "vendor": "0x1002",
    "device": "0x744c",
    "product_name": "Radeon RX",
    "mem_info_vram_total": str(24 << 30),
    "mem_info_vram_used": str(3 << 30),
    "gpu_busy_percent": "42",
    "power_dpm_force_performance_level": "auto",
    "hwmon/hwmon3/power1_average": "87000000",
    "hwmon/hwmon3/power1_cap": "303000000",
    "hwmon/hwmon3/temp1_input": "51500",
}


def put(sysfs: Path, card: str, address: str, files: dict[str, str]) -> Path:
    device = sysfs / "class" / "drm" / card / "device"
    uevent = f"DRIVER=amdgpu\nPCI_SLOT_NAME={address}\n"
    for name, text in {**files, "uevent": uevent}.items():
        (device / name).parent.mkdir(parents=True, exist_ok=True)
        (device / name).write_text(f"{text}\n")
    return device


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """Two of AMD, one of somebody else between them, and an output, which is no card."""
    root = tmp_path / "sys"
    put(root, "card0", "0000:03:00.0", FILES)
    put(root, "card1", "0000:04:00.0", {**FILES, "vendor": "0x10de"})
    put(root, "card10", "0000:0C:00.0", {**FILES, "mem_info_vram_used": "0"})
    (root / "class" / "drm" / "card0-DP-1").mkdir()
    return root


def vendor(root: Path, smi: Smi | None = None) -> AmdVendor:
    return AmdVendor(str(root), use_amdsmi=False, smi=smi)


def test_package() -> None:
    check_package("amd")


def test_the_contract_is_kept(sysfs: Path, tmp_path: Path) -> None:
    settings = {"sysfs": str(sysfs), "amdsmi": False}
    assert list(check_gpu_vendors("amd", tmp_path, settings)) == ["amd"]


def test_a_card_is_read_from_the_kernels_files(sysfs: Path) -> None:
    one, two = vendor(sysfs).read()
    assert one == GPU(
        index=0,
        id="0000:03:00.0",
        name="Radeon RX",
        vendor="amd",
        mem_total_mib=24 * 1024,
        mem_used_mib=3 * 1024,
        power_w=87.0,
        power_limit_w=303.0,
        util_pct=42,
        temp_c=52,
        pstate="auto",
    )
    assert (two.index, two.id, two.mem_used_mib) == (1, "0000:0c:00.0", 0)


def test_what_is_missing_or_nonsense_is_unknown(sysfs: Path) -> None:
    device = put(sysfs, "card0", "0000:03:00.0", {"gpu_busy_percent": "N/A", "vendor": "0x1002"})
    for name in ("product_name", "mem_info_vram_total", "mem_info_vram_used"):
        (device / name).unlink()
    (device / "power_dpm_force_performance_level").unlink()
    for file in (device / "hwmon" / "hwmon3").iterdir():
        file.unlink()
    gpu = vendor(sysfs).read()[0]
    assert gpu == GPU(index=0, id="0000:03:00.0", name="AMD 0x744c", vendor="amd")


def test_newer_kernels_tell_the_power_of_the_moment(sysfs: Path) -> None:
    hwmon = sysfs / "class/drm/card0/device/hwmon/hwmon3"
    (hwmon / "power1_average").rename(hwmon / "power1_input")
    assert vendor(sysfs).read()[0].power_w == 87.0


def test_without_a_card_it_says_so(tmp_path: Path) -> None:
    state = vendor(tmp_path).available()
    assert (state.ok, bool(state.detail), bool(state.hint)) == (False, True, True)
    with pytest.raises(Unavailable):
        vendor(tmp_path).read()


def test_one_card_of_two_that_falls_off_costs_the_other_nothing(sysfs: Path) -> None:
    made = vendor(sysfs)
    made.read()
    (sysfs / "class/drm/card0").rename(sysfs / "gone")
    two, one = made.read()
    assert (one.id, one.problem, one.mem_total_mib, one.power_w) == (
        "0000:03:00.0", "it is gone", 24 * 1024, None,
    )  # fmt: skip
    assert (two.problem, two.power_w) == (None, 87.0)


class Library:
    """What cerberus-amd asks of amdsmi."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.fails = False

    def amdsmi_init(self) -> None:
        self.log.append("init")

    def amdsmi_shut_down(self) -> None:
        self.log.append("shut down")

    def amdsmi_get_processor_handles(self) -> list[str]:
        if self.fails:
            raise RuntimeError("AMDSMI_STATUS_DRIVER_NOT_LOADED")
        return ["0000:03:00.0", "0000:0C:00.0"]

    def amdsmi_get_gpu_device_bdf(self, handle: str) -> str:
        return handle

    def amdsmi_get_energy_count(self, handle: str) -> dict[str, float]:
        if handle.endswith("C:00.0"):
            raise RuntimeError("AMDSMI_STATUS_NOT_SUPPORTED")
        return {"energy_accumulator": 2_000_000, "counter_resolution": 15.3, "timestamp": 1}

    def amdsmi_get_gpu_process_list(self, handle: str) -> list[dict[str, Any]]:
        return [{"pid": 99, "mem": 0, "memory_usage": {"vram_mem": 5 << 30}}]


def test_the_library_adds_energy_and_processes(sysfs: Path) -> None:
    library = Library()
    made = vendor(sysfs, Smi(library))
    one, two = made.read()
    made.read()
    assert (one.energy_j, one.processes) == (pytest.approx(30.6), {99: 5120})
    assert (two.energy_j, two.processes, two.power_w) == (None, {99: 5120}, 87.0)
    made.close()
    assert library.log == ["init", "shut down"]


def test_a_process_whose_memory_is_not_told_costs_nothing_else(sysfs: Path) -> None:
    library = Library()
    rows = [
        {"pid": 99, "memory_usage": {"vram_mem": "N/A"}},
        {"pid": 98, "memory_usage": {"vram_mem": 1 << 30}},
        {"pid": 97},
    ]
    library.amdsmi_get_gpu_process_list = lambda _: rows  # type: ignore[method-assign]
    made = vendor(sysfs, Smi(library))
    one, _ = made.read()
    assert (one.energy_j, one.processes) == (
        pytest.approx(30.6),
        {99: None, 98: 1024, 97: None},
    )
    made.close()
    assert library.log == ["init", "shut down"]


def test_a_library_that_fails_leaves_the_kernels_files_and_is_opened_anew(sysfs: Path) -> None:
    library = Library()
    made = vendor(sysfs, Smi(library))
    made.read()
    library.fails = True
    assert [(gpu.problem, gpu.energy_j, gpu.power_w) for gpu in made.read()] == [
        (None, None, 87.0),
        (None, None, 87.0),
    ]
    library.fails = False
    assert made.read()[0].energy_j is not None
    assert library.log == ["init", "shut down", "init"]


def test_a_library_that_is_missing_prints_nothing_here_and_is_tried_once(
    sysfs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    tries: list[Any] = []
    real = subprocess.run

    def counting(*args: Any, **more: Any) -> Any:
        tries.append(args)
        return real(*args, **more)

    monkeypatch.setattr(smi_module.subprocess, "run", counting)
    made = AmdVendor(str(sysfs))
    for _ in range(3):
        assert [gpu.problem for gpu in made.read()] == [None, None]
    assert len(tries) == 1
    assert capfd.readouterr() == ("", "")
