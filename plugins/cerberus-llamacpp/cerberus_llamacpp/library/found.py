"""One model on disk, and what its metadata say about it."""

from pathlib import Path

import attrs

from cerberus_core.values import Capability, ModelInfo
from cerberus_llamacpp.ggml import FILE_TYPES
from cerberus_llamacpp.gguf import Header

BACKEND = "llamacpp"
_RANK = 4
_MIB = 1 << 20

# Encoders that answer no chat, whether or not their file names a pooling type.
_ENCODERS = frozenset(
    {
        "bert",
        "eurobert",
        "gemma-embedding",
        "jina-bert-v2",
        "jina-bert-v3",
        "modern-bert",
        "neo-bert",
        "nomic-bert",
        "nomic-bert-moe",
        "t5encoder",
    }
)
_POOLING = {1: "mean", 2: "cls", 3: "last", 4: "rank"}


@attrs.frozen(kw_only=True)
class Found:
    """A model with its files. `shards` in order; the engine is started with the first."""

    name: str
    shards: tuple[Path, ...]
    size: int
    """Bytes of all shards."""
    header: Header | None
    problem: str | None = None
    projector: Path | None = None
    projector_size: int = 0

    @property
    def path(self) -> Path:
        return self.shards[0]

    @property
    def ctx(self) -> int | None:
        return self.header.number("context_length") if self.header else None

    @property
    def pooling(self) -> str | None:
        """How an embedding model sums up its tokens; None for a model that generates."""
        if self.header is None:
            return None
        kind = self.header.number("pooling_type")
        if kind in _POOLING:
            return _POOLING[kind]
        return "mean" if self.header.architecture in _ENCODERS else None

    @property
    def capabilities(self) -> frozenset[Capability]:
        pooling = self.pooling
        if pooling == _POOLING[_RANK]:
            return frozenset({"rerank"})
        if pooling is not None:
            return frozenset({"embed"})
        if self.projector is not None:
            return frozenset({"chat", "completion", "vision"})
        return frozenset({"chat", "completion"})

    @property
    def detail(self) -> str | None:
        """Parameters, quantisation and architecture: "135M · Q4_1 · llama"."""
        if self.header is None:
            return None
        kind = self.header.metadata.get("general.file_type")
        words = [
            self.header.text("general.size_label"),
            FILE_TYPES.get(kind) if isinstance(kind, int) else None,
            self.header.architecture,
        ]
        return " · ".join([word for word in words if word]) or None

    def info(self) -> ModelInfo:
        return ModelInfo(
            id=f"{BACKEND}/{self.name}",
            backend=BACKEND,
            name=self.name,
            size_mib=round((self.size + self.projector_size) / _MIB),
            ctx=self.ctx,
            capabilities=self.capabilities,
            problem=self.problem,
            detail=self.detail,
        )
