"""The contract of a model backend."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from cerberus_core.errors import CerberusError, Unsupported
from cerberus_core.values import (
    Availability,
    Endpoint,
    Estimate,
    Gone,
    LoadPlan,
    LoadProgress,
    ModelInfo,
    PullProgress,
)


class Backend(ABC):
    """Something that has models: an engine that is started, a server, a cloud.

    The manager calls `load`, `unload` and `gone` of one model from one task, so
    they never overlap for the same model; different models may overlap.

    Example, a backend whose single model lives on another machine::

        class Nas(Backend):
            name = "nas"

            async def list(self) -> list[ModelInfo]:
                return [ModelInfo(id="nas/qwen", backend="nas", name="qwen",
                                  managed=False, state="ready")]

            async def load(self, model, plan, report) -> Endpoint:
                return Endpoint(base_url="http://nas:8080/v1", model="qwen", backend="nas")
    """

    name: str
    """Prefix of its model ids; no slash; unique among all backends."""

    async def available(self) -> Availability:
        """Whether it can work here, with a hint on what is missing. Quick: asked with each list."""
        return Availability(ok=True)

    @abstractmethod
    async def list(self) -> Sequence[ModelInfo]:
        """The models it has, broken ones included (`problem`). Cached by the manager.

        `state` is `ready` for those that others have loaded at its server.
        Raises `Unavailable` with a hint where its server is down.
        """

    @abstractmethod
    async def load(
        self, model: ModelInfo, plan: LoadPlan, report: Callable[[LoadProgress], None]
    ) -> Endpoint:
        """Make `model` answer, and return where. Loading twice is harmless.

        Returns once the model takes requests. Raises `LoadFailed`, the engine's
        last words in its message. On cancellation nothing may be left running.
        """

    def resolved(self, plan: LoadPlan) -> LoadPlan:
        """`plan` with the backend's own settings where it leaves the choice to them.

        What was learned of a model holds for one such plan. Quick, without effects.
        """
        return plan

    def ignores(self, plan: LoadPlan) -> Mapping[str, str]:
        """What of `plan` its `load` does not do: the field's name → why, or where to set it.

        Shown where somebody has set it. All that is set, unless a backend says otherwise.
        """
        return dict.fromkeys(plan.asked(), f"{self.name} has no such thing.")

    async def unload(self, model: ModelInfo) -> None:
        """Give its memory back; returns when that is done. Harmless if not loaded."""

    async def gone(self, model: ModelInfo) -> Gone:
        """Wait until a loaded model is there no more, without our doing; say why.

        Never returns where that can't be known.
        """
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def estimate(self, model: ModelInfo, plan: LoadPlan) -> Estimate | None:
        """What loading `model` would take; None where nothing can be said. Quick."""
        return None

    async def guess(self, model: ModelInfo, plan: LoadPlan) -> Estimate | None:
        """`estimate` for a list of hundreds: at once, asking nobody and starting nothing."""
        return await self.estimate(model, plan)

    def processes(self, model: ModelInfo) -> Sequence[int]:
        """The process ids of a loaded model's engine, for its memory to be measured.

        Empty where it is not a process of its own.
        """
        return ()

    async def taken(self, model: ModelInfo) -> Mapping[str, int] | None:
        """MiB that a loaded model takes of `host` and `gpu`, where its server tells.

        None where it doesn't; `processes` are measured then.
        """
        return None

    def explain(self, model: ModelInfo, status: int, body: bytes) -> CerberusError | None:
        """What a refusal of its engine or server means, and what to do; None: tell it as it came.

        For what it says in words of its own, or with a status that misleads. Quick
        and without effects: called while a request is answered.
        """
        return None

    async def pull(self, ref: str, report: Callable[[PullProgress], None]) -> ModelInfo:
        """Fetch a model; `ref` is in this backend's own notation. Resumes what was begun."""
        raise Unsupported(
            f"{self.name} can't pull models", hint="Add the model where it is served."
        )

    async def remove(self, model: ModelInfo) -> None:
        """Delete the files of a model that is not loaded."""
        raise Unsupported(
            f"{self.name} can't remove models", hint="Remove the model where it is served."
        )

    async def aclose(self) -> None:
        """Stop whatever it started. Called once, at shutdown, after the unloads."""
