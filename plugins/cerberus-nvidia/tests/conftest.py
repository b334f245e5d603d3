"""A card that isn't there: `libnvidia-ml.so.1` made by gcc, under the real `pynvml`."""

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NO_ENERGY = 2**64 - 1


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The stub, in this process: the loader gives it to whoever asks for its name after that."""
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        pytest.skip("no C compiler to build the stub of libnvidia-ml.so.1 with")
    target = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("nvml_stub.c")
    flags = ["-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([gcc, *flags, "-o", target, source], check=True)
    loaded = ctypes.CDLL(str(target))
    loaded.stub_energy.argtypes = [ctypes.c_uint, ctypes.c_ulonglong]
    loaded.stub_memory.argtypes = [ctypes.c_uint, ctypes.c_ulonglong, ctypes.c_ulonglong]
    loaded.stub_process.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_ulonglong]
    return loaded


@pytest.fixture
def nvml(library: Any) -> Iterator[Any]:
    """Two good cards; `stub_*` change them."""
    library.stub_reset()
    library.stub_count(2)
    for i in range(2):
        library.stub_memory(i, 24 << 30, (i + 1) << 30)
        library.stub_power(i, 25_500, 350_000)
        library.stub_energy(i, 1_000_000 * (i + 1))
        library.stub_load(i, 7, 41, 8)
    yield library
    library.stub_reset()
