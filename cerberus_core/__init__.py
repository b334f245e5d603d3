"""Cerberus: a self-hosted LLM runtime. The names here are for plugins."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pluggy

    hookimpl: pluggy.HookimplMarker

__all__ = ["__version__", "hookimpl"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # pluggy is imported on first use: `cerberus version` needs none of it.
    if name == "hookimpl":
        import pluggy

        marker = pluggy.HookimplMarker("cerberus")
        globals()["hookimpl"] = marker
        return marker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
