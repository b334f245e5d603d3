"""Delete a model's files, and nothing else. Blocking."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from cerberus_core.errors import AccessDenied, Unavailable

from .library import Found


def remove(found: Found, all_models: Iterable[Found], roots: Sequence[Path]) -> None:
    """Delete the shards of `found`, and its projector if no other model uses it.

    A link is deleted, never what it points to. Raises `AccessDenied` for a file
    that does not lie in `roots` (through a linked folder, say), before anything
    is deleted.
    """
    doomed = list(found.shards)
    others = [model for model in all_models if model.path != found.path]
    if found.projector is not None and all(model.projector != found.projector for model in others):
        doomed.append(found.projector)
    real_roots = [root.resolve() for root in roots]
    for path in doomed:
        folder = path.parent.resolve()
        if not any(folder.is_relative_to(root) for root in real_roots):
            raise AccessDenied(
                f"{path} lies outside the models folder and the configured folders",
                hint="Delete it by hand if you want it gone.",
            )
    for path in doomed:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(f"{path} can't be deleted: {error.strerror}") from error
    _drop_empty(found.path.parent, roots)


def _drop_empty(folder: Path, roots: Sequence[Path]) -> None:
    """Remove the folder of a repository, and of its owner, once they hold nothing."""
    while folder not in roots and any(folder.is_relative_to(root) for root in roots):
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
