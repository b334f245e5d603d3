"""A `llama-server` binary that the user has."""

import os
import re
import shutil
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from cerberus_core.errors import LoadFailed, Unavailable
from cerberus_core.platform import spawn

from .launch import Launch, Started

_HELP_LIMIT_S = 20.0
# Newer builds first.
_DRAFT = ("--spec-draft-model", "--model-draft")
_DRAFT_TOKENS = ("--spec-draft-n-max", "--draft-max")


def find_binary(configured: str | None) -> Path | None:
    """The configured `llama-server`, else the one on PATH, else None.

    Raises `Unavailable` where the configured one is no program.
    """
    if configured is None:
        found = shutil.which("llama-server")
        return Path(found) if found else None
    path = Path(configured).expanduser()
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise Unavailable(
            f"{path} is not a program that can be run",
            hint="Correct `binary` under [plugins.llamacpp], or leave it out.",
        )
    return path


def free_port() -> int:
    """A port of 127.0.0.1 that is free now. Another may take it first: see `Binary`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Binary:
    """Starts the binary with the flags that its `--help` names.

    Builds differ: older ones refuse flags that newer ones want. The port is
    chosen here, so a start that finds it taken is tried again with another,
    and `ready` makes sure that the listener is this process.
    """

    label = "llama-server"
    attempts = 5

    def __init__(self, path: Path, *, port: Callable[[], int] = free_port) -> None:
        self.path = path
        self._port = port
        self._flags: frozenset[str] | None = None

    async def start(self, launch: Launch, key: str) -> Started:
        flags = await self._known_flags(launch.log.with_name("llama-server --help.log"))
        port = self._port()
        argv = [*self._argv(launch, port, flags), *launch.extra_args]
        child = await spawn(argv, log=launch.log, env={**os.environ, "LLAMA_API_KEY": key})

        async def where() -> str:
            return f"http://127.0.0.1:{port}"

        return Started(child, where)

    def _argv(self, launch: Launch, port: int, known: frozenset[str]) -> list[str]:
        context = launch.context * launch.parallel
        argv = [str(self.path), "--model", str(launch.model), "--alias", launch.alias]
        argv += ["--host", "127.0.0.1", "--port", str(port), "--metrics"]
        argv += ["--ctx-size", str(context), "--parallel", str(launch.parallel)]
        argv += ["--threads", str(launch.threads), "--threads-batch", str(launch.threads)]
        if launch.projector is not None:
            argv += ["--mmproj", str(launch.projector)]
        if launch.gpu_layers is not None:
            argv += ["--n-gpu-layers", str(launch.gpu_layers)]
        argv += _tuned(launch, known)
        if launch.chat_template is not None:
            argv += ["--chat-template-file", str(launch.chat_template)]
        if launch.pooling == "rank":
            argv += ["--reranking"]
        elif launch.pooling is not None:
            argv += ["--embeddings", "--pooling", launch.pooling]
        if launch.pooling is not None:
            argv += ["--batch-size", str(launch.context), "--ubatch-size", str(launch.context)]
        argv += [flag for flag in ("--slots", "--jinja", "--no-webui") if flag in known]
        if "--cors-origins" in known:
            argv += ["--cors-origins", ""]
        return argv

    async def _known_flags(self, log: Path) -> frozenset[str]:
        if self._flags is None:
            child = await spawn([str(self.path), "--help"], log=log, relay=True)
            lines: list[str] = []
            try:
                with anyio.move_on_after(_HELP_LIMIT_S):
                    while (line := await child.line()) is not None:
                        lines.append(line)
            finally:
                with anyio.CancelScope(shield=True):
                    await child.end()
            self._flags = frozenset(re.findall(r"--[a-z][a-z-]+", "\n".join(lines)))
        return self._flags


def _tuned(launch: Launch, known: frozenset[str]) -> list[str]:
    """Cache, GPUs and speculation. Raises `LoadFailed` where this build lacks the last."""
    wishes = {
        "--cache-type-k": launch.cache_type_k,
        "--cache-type-v": launch.cache_type_v,
        "--tensor-split": ",".join(f"{share:g}" for share in launch.tensor_split) or None,
        "--main-gpu": launch.main_gpu,
        "--device": ",".join(launch.devices) or None,
    }
    if launch.draft is not None:
        wishes[_named(_DRAFT, known)] = str(launch.draft)
        if launch.draft_tokens is not None:
            wishes[_named(_DRAFT_TOKENS, known)] = launch.draft_tokens
    return [
        word for flag, value in wishes.items() if value is not None for word in (flag, f"{value}")
    ]


def _named(names: Sequence[str], known: frozenset[str]) -> str:
    for name in names:
        if name in known:
            return name
    raise LoadFailed(
        f"this llama-server knows none of {', '.join(names)}",
        hint="Bring a newer one, or leave `draft` out of the model's settings.",
    )
