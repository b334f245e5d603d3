"""A card that isn't there: `libnvidia-ml.so.1` made by gcc, under the real `pynvml`."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

_folder = tempfile.TemporaryDirectory()


@functools.cache
def library() -> Any:
    """The stub, in this process: the loader gives it to whoever asks for its name after that.

    None without a C compiler.
    """
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        return None
    target = Path(_folder.name) / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("nvml_stub.c")
    flags = ["-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([gcc, *flags, "-o", target, source], check=True)
    loaded = ctypes.CDLL(str(target))
    loaded.stub_energy.argtypes = [ctypes.c_uint, ctypes.c_ulonglong]
    loaded.stub_memory.argtypes = [ctypes.c_uint, ctypes.c_ulonglong, ctypes.c_ulonglong]
    loaded.stub_process.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_ulonglong]
    return loaded


def set_up(nvml: Any) -> None:
    """Two good cards; `stub_*` change them."""
    nvml.stub_reset()
    nvml.stub_count(2)
    for i in range(2):
        nvml.stub_memory(i, 24 << 30, (i + 1) << 30)
        nvml.stub_power(i, 25_500, 350_000)
        nvml.stub_energy(i, 1_000_000 * (i + 1))
        nvml.stub_load(i, 7, 41, 8)
