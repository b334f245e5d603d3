from collections.abc import Iterator
from typing import Any

import pytest

from tests.stand_ins import stand_in


@pytest.fixture
def nvml() -> Iterator[Any]:
    """Two good cards; `stub_*` change them."""
    stub = stand_in("nvidia", "nvml_stub")
    library = stub.library()
    if library is None:
        pytest.skip("no C compiler to build the stub of libnvidia-ml.so.1 with")
    stub.set_up(library)
    yield library
    library.stub_reset()
