"""The entry module and its settings."""

import subprocess
import sys

import cerberus_llamacpp
import pytest
from cerberus_llamacpp.settings import Settings
from cerberus_llamacpp.testing import Setup


def test_importing_it_imports_no_vendor_library() -> None:
    code = """
import sys, cerberus_llamacpp, cerberus_llamacpp.backend
heavy = {"xllamacpp", "huggingface_hub", "gguf", "numpy", "tqdm"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_what_it_lends_to_tests_needs_no_pytest() -> None:
    code = """
import sys
sys.modules["pytest"] = None
import cerberus_llamacpp.testing
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.anyio
async def test_the_hook_makes_one_backend(setup: Setup) -> None:
    [backend] = cerberus_llamacpp.cerberus_model_backends(setup)
    assert backend.name == "llamacpp"
    assert await backend.list() == []
    await backend.aclose()


@pytest.mark.parametrize(
    "wrong",
    [
        {"engine": "magic"},
        {"parallel": 0},
        {"context": 0},
        {"threads": 0},
        {"stall_s": 0},
        {"folders": "not a list"},
        {"extra_args": ["--host", "0.0.0.0"]},
        {"extra_args": ["--port=1"]},
    ],
)
def test_a_wrong_setting_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Settings(**wrong)  # type: ignore[arg-type]
