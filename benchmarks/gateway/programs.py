"""The two C programs: compiled, started, asked. And which core runs what."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / ".build"
PROXY_CORE, LOAD_CORE = 0, 1


def pinned(core: int, command: Sequence[str]) -> list[str]:
    """`command` on one core, where there are two and taskset is there."""
    if (os.cpu_count() or 1) < 2 or shutil.which("taskset") is None:
        return list(command)
    return ["taskset", "-c", str(core), *command]


def build(name: str) -> Path:
    """Compile `name`.c unless it was. Raises RuntimeError with the compiler's words."""
    source, binary = HERE / f"{name}.c", BUILD / name
    BUILD.mkdir(exist_ok=True)
    if binary.exists() and binary.stat().st_mtime > source.stat().st_mtime:
        return binary
    command = ["gcc", "-O2", "-o", str(binary), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        raise RuntimeError("gcc is missing (Debian: apt install gcc libc6-dev)") from None
    if done.returncode:
        raise RuntimeError(f"{source.name} does not compile:\n{done.stderr}")
    return binary


@contextmanager
def upstream() -> Iterator[int]:
    """The fake upstream; yields its port."""
    command = pinned(LOAD_CORE, [str(build("upstream"))])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def load(
    port: int,
    model: str,
    token: str | None,
    *,
    clients: int,
    seconds: float,
    warmup_s: float = 0.5,
    stream: bool = False,
    chunks: int = 1,
    rate: int = 0,
    wire: str = "chat",
) -> dict[str, Any]:
    """Run the load generator; see loadgen.c for the words of its answer."""
    numbers = [clients, seconds, warmup_s, int(stream), chunks, rate]
    command = [str(build("loadgen")), str(port), model, token or "-", *map(str, numbers), wire]
    done = subprocess.run(
        pinned(LOAD_CORE, command),
        capture_output=True,
        text=True,
        timeout=seconds + warmup_s + 60,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"loadgen ended with {done.returncode}: {done.stderr.strip()}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
