"""The cards of an NVIDIA driver.

`pynvml` (of the distribution nvidia-ml-py) is imported with the first call, and
NVML is opened then and kept open. Whatever shows that the driver has gone
closes it, so that the next reading begins anew.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from cerberus_core.errors import Unavailable
from cerberus_core.interfaces import GPUVendor
from cerberus_core.values import GPU, Availability

T = TypeVar("T")

INSTALL = (
    "Install NVIDIA's driver (nvidia-smi shows whether it works), or uninstall cerberus-nvidia."
)


class NvidiaVendor(GPUVendor):
    name = "nvidia"

    def __init__(self) -> None:
        self._nvml: Any = None
        """The module, while NVML is open."""
        self._known: dict[int, GPU] = {}
        """What each index was the last time it answered."""

    def available(self) -> Availability:
        try:
            gpus = self.read()
        except Unavailable as error:
            return Availability(ok=False, detail=error.message, hint=error.hint)
        if not gpus:
            return Availability(
                ok=False, detail="the driver sees no card", hint="See what `nvidia-smi` lists."
            )
        return Availability(ok=True, detail=", ".join(gpu.name for gpu in gpus))

    def read(self) -> Sequence[GPU]:
        nvml = self._open()
        try:
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            self.close()
            raise _unavailable(error) from error
        return [self._card(nvml, index) for index in range(count)]

    def close(self) -> None:
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            try:
                nvml.nvmlShutdown()
            except nvml.NVMLError:
                return  # it is gone already

    def _open(self) -> Any:
        if self._nvml is None:
            import pynvml

            try:
                pynvml.nvmlInit()
            except pynvml.NVMLError as error:
                raise _unavailable(error) from error
            self._nvml = pynvml
        return self._nvml

    def _card(self, nvml: Any, index: int) -> GPU:
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            gpu = GPU(
                index=index,
                id=_text(nvml.nvmlDeviceGetUUID(handle)),
                name=_text(nvml.nvmlDeviceGetName(handle)),
                vendor=self.name,
                **_values(nvml, handle),
            )
        except nvml.NVMLError as error:
            return self._failed(index, str(error))
        self._known[index] = gpu
        return gpu

    def _failed(self, index: int, problem: str) -> GPU:
        """The card as far as it is known from before."""
        known = self._known.get(index)
        if known is None:
            known = GPU(
                index=index, id=f"nvidia:{index}", name=f"NVIDIA card {index}", vendor=self.name
            )
        return known.unread(problem)


def _values(nvml: Any, handle: Any) -> dict[str, Any]:
    """What a card tells, each by itself: many cards lack one or another.

    Raises NVMLError where the card is lost.
    """

    def ask(call: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return call(handle, *arguments)
        except nvml.NVMLError as error:
            if error.value in _lost(nvml):
                raise
            return None
        except Exception:  # noqa: BLE001 pynvml's own, of a driver that is older than itself
            return None

    memory = ask(nvml.nvmlDeviceGetMemoryInfo)
    power_mw = ask(nvml.nvmlDeviceGetPowerUsage)
    limit_mw = ask(nvml.nvmlDeviceGetEnforcedPowerLimit)
    if limit_mw is None:
        limit_mw = ask(nvml.nvmlDeviceGetPowerManagementLimit)
    util = ask(nvml.nvmlDeviceGetUtilizationRates)
    pstate = ask(nvml.nvmlDeviceGetPerformanceState)
    energy_mj = ask(nvml.nvmlDeviceGetTotalEnergyConsumption)
    lists = [
        ask(nvml.nvmlDeviceGetComputeRunningProcesses),
        ask(nvml.nvmlDeviceGetGraphicsRunningProcesses),
    ]
    return {
        "mem_total_mib": None if memory is None else memory.total >> 20,
        "mem_used_mib": None if memory is None else memory.used >> 20,
        "power_w": None if power_mw is None else power_mw / 1000,
        "power_limit_w": None if limit_mw is None else limit_mw / 1000,
        "util_pct": None if util is None else util.gpu,
        "temp_c": ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
        "pstate": None if pstate is None or pstate == nvml.NVML_PSTATE_UNKNOWN else f"P{pstate}",
        "energy_j": None if energy_mj is None else energy_mj / 1000,
        "processes": _processes(lists),
    }


def _processes(lists: list[Any]) -> dict[int, int | None] | None:
    """Pid → MiB; one that computes and draws is in both lists with the same figure."""
    if all(one is None for one in lists):
        return None
    found: dict[int, int | None] = {}
    for process in [process for one in lists if one is not None for process in one]:
        used = None if process.usedGpuMemory is None else process.usedGpuMemory >> 20
        found[process.pid] = max((used, found.get(process.pid)), key=lambda mib: mib or 0)
    return found


def _lost(nvml: Any) -> tuple[int, ...]:
    return (
        nvml.NVML_ERROR_UNINITIALIZED,
        nvml.NVML_ERROR_DRIVER_NOT_LOADED,
        nvml.NVML_ERROR_GPU_IS_LOST,
        nvml.NVML_ERROR_RESET_REQUIRED,
    )


def _unavailable(error: Exception) -> Unavailable:
    return Unavailable(f"NVML: {error}", hint=INSTALL)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
