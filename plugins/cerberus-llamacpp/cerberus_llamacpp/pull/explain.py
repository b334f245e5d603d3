"""Turn what the hub's client raises into words for the person."""

import errno

from cerberus_core.errors import BadRequest, CerberusError, NotFound, Unavailable

_KEPT = "What was fetched is kept: the same pull goes on from there."


def explain(error: Exception, repo: str) -> CerberusError | None:
    """The error to raise instead of `error`, which came while `repo` was pulled.

    None for one that is nobody's fault but ours.
    """
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return Unavailable(
            f"{repo} is gated",
            hint="Accept its terms on its page, and set HF_TOKEN to a token of that account.",
            code="gated",
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return NotFound(
            f"there is no repository {repo}",
            hint="Check the spelling; a private one needs HF_TOKEN.",
        )
    if isinstance(error, errors.HFValidationError):
        return BadRequest(f"{repo} is no name of a repository: {error}")
    if isinstance(error, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled):
        return _unreachable(repo, error)
    if isinstance(error, errors.EntryNotFoundError | errors.RevisionNotFoundError):
        return NotFound(f"{repo} changed while it was pulled: {error}", hint="Pull again.")
    if isinstance(error, errors.HfHubHTTPError):
        return Unavailable(f"{repo} could not be pulled: the hub answered {error}", hint=_KEPT)
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return Unavailable(f"the disk is full: {repo} is not whole", hint=_KEPT, code="disk_full")
    # The client's HTTP library has changed its name before, so its root is asked.
    if isinstance(error, OSError) or type(error).__module__.startswith("http"):
        return _unreachable(repo, error)
    return None


def _unreachable(repo: str, error: Exception) -> Unavailable:
    return Unavailable(
        f"{repo} could not be pulled: the hub can't be reached ({_reason(error)})",
        hint=f"Is the network up? {_KEPT}",
        code="hub_unreachable",
    )


def _reason(error: BaseException) -> str:
    """The words of the innermost cause: the client wraps them in advice of its own."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
