"""The life of models under the manager, with a clock that is turned by hand."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import attrs
import pytest

from cerberus_core.engines import Lease, Manager, ModelPolicy, Policies
from cerberus_core.errors import (
    BadRequest,
    CerberusError,
    EngineLost,
    LoadFailed,
    ModelNotFound,
    NoRoom,
    Unavailable,
)
from cerberus_core.testing import FakeClock
from cerberus_core.values import Availability, LoadPlan, ModelInfo
from tests.engines.conftest import ToyBackend

pytestmark = pytest.mark.anyio
Start = Callable[..., Any]


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


async def state(manager: Manager, name: str = "toy/a") -> ModelInfo:
    return await manager.model(name)


async def test_m01_twenty_first_requests_load_once(start: Start, backend: ToyBackend) -> None:
    backend.gate = asyncio.Event()
    served = 0

    async def request(manager: Manager) -> None:
        nonlocal served
        lease = await manager.acquire("toy/a")
        assert lease.endpoint.model == "toy/a"
        served += 1
        lease.release()

    async with start() as manager, anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(request, manager)
        await settle()
        assert (await state(manager)).state == "loading"
        assert (await state(manager)).progress == 0.5
        backend.gate.set()
    assert served == 20
    assert backend.calls["load"] == 1


async def test_m02_idleness_counts_from_the_end_of_the_last_request(
    start: Start, backend: ToyBackend, clock: FakeClock
) -> None:
    async with start(ttl_s=2.0) as manager:
        lease = await manager.acquire("toy/a")
        await clock.advance(5)
        assert (await state(manager)).state == "ready", "unloaded while it was in use"
        lease.release()
        assert (await state(manager)).last_used == clock.now()
        await clock.advance(1.95)
        late = await manager.acquire("toy/a")  # 0.05 s before the end
        await clock.advance(3)
        assert backend.calls["unload"] == 0
        late.release()
        await clock.advance(1.9)
        assert (await state(manager)).state == "ready"
        await clock.advance(0.2)
        assert (await state(manager)).state == "unloaded"
    assert backend.calls == {"list": backend.calls["list"], "load": 1, "unload": 1}


async def test_an_answer_longer_than_the_ttl_keeps_nobody_awake(
    start: Start, clock: FakeClock
) -> None:
    async with start(ttl_s=2.0) as manager:
        lease = await manager.acquire("toy/a")
        await clock.advance(5)
        assert clock.sleepers == 1, "its owner looks again in due time, and not all the time"
        lease.release()


async def test_a_ttl_of_zero_means_never_and_each_model_may_have_its_own(
    start: Start, backend: ToyBackend, clock: FakeClock
) -> None:
    own = {"toy/b": ModelPolicy(ttl_s=10, plan=LoadPlan(context=99))}
    async with start(ttl_s=0, models=own) as manager:
        for name in ("toy/a", "toy/b"):
            (await manager.acquire(name)).release()
        await clock.advance(100_000)
        assert (await state(manager, "toy/a")).state == "ready"
        assert (await state(manager, "toy/b")).state == "unloaded"
    assert backend.plans == [LoadPlan(), LoadPlan(context=99)]


async def test_m05_after_a_failed_load_the_next_request_starts_anew(
    start: Start, backend: ToyBackend, clock: FakeClock
) -> None:
    backend.failure = LoadFailed("no progress for 120 s")
    async with start() as manager:
        with pytest.raises(LoadFailed, match="no progress"):
            await manager.acquire("toy/a")
        failed = await state(manager)
        assert (failed.state, failed.failure) == ("failed", "no progress for 120 s")
        backend.failure = None
        (await manager.acquire("toy/a")).release()
        assert (await state(manager)).failure is None


async def test_repeated_failures_back_off_and_the_refusal_says_for_how_long(
    start: Start, backend: ToyBackend, clock: FakeClock
) -> None:
    backend.failure = LoadFailed("out of memory")
    async with start() as manager:
        for _ in range(2):
            with pytest.raises(LoadFailed, match="out of memory"):
                await manager.acquire("toy/a")
        with pytest.raises(LoadFailed, match="2 times in a row: out of memory") as caught:
            await manager.acquire("toy/a")
        assert caught.value.hint == "It is tried again in 2 s."
        assert backend.calls["load"] == 2
        await clock.advance(2)
        backend.failure = None
        (await manager.acquire("toy/a")).release()


async def test_a_backend_that_raises_anything_is_a_failed_load(
    start: Start, backend: ToyBackend
) -> None:
    backend.failure = ZeroDivisionError("oops")
    async with start() as manager:
        with pytest.raises(LoadFailed, match="toy backend raised ZeroDivisionError: oops"):
            await manager.acquire("toy/a")
        backend.failure = None
        (await manager.acquire("toy/b")).release()


async def test_a_crash_in_use_is_told_and_the_next_request_reloads(
    start: Start, backend: ToyBackend
) -> None:
    async with start() as manager:
        lease = await manager.acquire("toy/a")
        backend.crash("toy/a", "killed by SIGKILL")
        assert await lease.lost_reason() == "killed by SIGKILL"
        lease.release()
        await settle()
        lost = await state(manager)
        assert (lost.state, lost.failure, lost.in_flight) == ("failed", "killed by SIGKILL", 0)
        (await manager.acquire("toy/a")).release()
        assert (await state(manager)).state == "ready"
    assert backend.calls["load"] == 2


async def test_the_reason_of_a_second_crash_is_waited_for_as_that_of_the_first(
    start: Start, backend: ToyBackend
) -> None:
    async with start() as manager:
        for reason in ("first", "second"):
            lease = await manager.acquire("toy/a")
            asked = asyncio.create_task(lease.lost_reason(wait_s=5))
            await settle()
            backend.crash("toy/a", reason)
            assert await asked == reason
            lease.release()
            await settle()


async def test_a_model_that_crashes_again_and_again_backs_off(
    start: Start, backend: ToyBackend, clock: FakeClock
) -> None:
    async with start() as manager:
        for _ in range(2):
            (await manager.acquire("toy/a")).release()
            backend.crash("toy/a")
            await settle()
        with pytest.raises(LoadFailed, match="2 times in a row"):
            await manager.acquire("toy/a")
        await clock.advance(2)
        (await manager.acquire("toy/a")).release()
        await clock.advance(61)  # it lived for a minute: a clean slate
        backend.crash("toy/a")
        await settle()
        (await manager.acquire("toy/a")).release()


async def test_unload_lets_requests_finish_and_new_ones_reload(
    start: Start, backend: ToyBackend
) -> None:
    async with start() as manager, anyio.create_task_group() as tasks:
        lease = await manager.acquire("toy/a")
        tasks.start_soon(manager.unload, "toy/a")
        await settle()
        assert backend.calls["unload"] == 0
        assert manager.try_acquire("toy/a") is None
        late: list[Any] = []

        async def late_request() -> None:
            late.append(await manager.acquire("toy/a"))

        tasks.start_soon(late_request)
        await settle()
        lease.release()
        with anyio.fail_after(5):
            while not late:
                await asyncio.sleep(0)
        assert (backend.calls["unload"], backend.calls["load"]) == (1, 2)
        late[0].release()


async def test_unload_breaks_off_a_load_and_its_waiters_hear_why(
    start: Start, backend: ToyBackend
) -> None:
    backend.gate = asyncio.Event()
    errors: list[Exception] = []

    async def request(manager: Manager) -> None:
        try:
            await manager.acquire("toy/a")
        except Unavailable as error:
            errors.append(error)

    async with start() as manager, anyio.create_task_group() as tasks:
        tasks.start_soon(request, manager)
        await settle()
        await manager.unload("toy/a")
        await settle()
        assert (await state(manager)).state == "unloaded"
    assert [str(error) for error in errors] == ["toy/a was unloaded before it was ready"]
    assert [getattr(error, "retry_after_s", None) for error in errors] == [1]


@pytest.mark.parametrize("error", [LoadFailed("stopped"), NoRoom("stopped")])
async def test_a_load_that_is_broken_off_may_end_in_any_way(
    start: Start, backend: ToyBackend, error: CerberusError
) -> None:
    async def stopped(*_: Any) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise error from None

    async with start() as manager:
        backend.load = stopped  # type: ignore[method-assign]
        await manager.load("toy/a", wait=False)
        await settle()
        with anyio.fail_after(5):
            assert (await manager.unload("toy/a")).state == "failed"
        await manager.load("toy/a", wait=False)
        await settle()
        await manager.unload("toy/a", wait=False)
        backend.load = ToyBackend.load.__get__(backend)  # type: ignore[method-assign]
        await manager.load("toy/a", wait=False)
        await settle()
        assert (await state(manager)).state == "ready", "that was asked for last"


async def test_g16_a_waiter_that_leaves_is_forgotten_and_not_counted(
    start: Start, backend: ToyBackend
) -> None:
    backend.gate = asyncio.Event()
    async with start() as manager:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(manager.acquire, "toy/a")
            await settle()
            tasks.cancel_scope.cancel()
        backend.gate.set()
        await settle()
        assert (await state(manager)).in_flight == 0
        assert (await state(manager)).state == "ready"


async def test_a_release_counts_once_however_often_it_is_called(start: Start) -> None:
    async with start() as manager:
        first, second = await manager.acquire("toy/a"), await manager.acquire("toy/a")
        first.release()
        first.release()
        assert (await state(manager)).in_flight == 1
        second.release()
        assert (await state(manager)).in_flight == 0


async def test_shutdown_unloads_what_was_loaded_and_closes_backends(
    start: Start, backend: ToyBackend
) -> None:
    async with start() as manager:
        (await manager.acquire("toy/a")).release()
        (await manager.acquire("toy/b")).release()
        backend.gate = asyncio.Event()
    assert backend.loaded == set()
    assert backend.calls["unload"] == 2
    assert backend.closed


async def test_who_is_let_in_while_all_ends_is_told(clock: FakeClock) -> None:
    heard = set()
    for steps in range(30):
        one = {"toy/a": ModelPolicy(ttl_s=0, concurrency=1)}
        manager = Manager({"toy": ToyBackend()}, policies=Policies(models=one), clock=clock)
        async with manager.running():
            lease = await manager.acquire("toy/a")
            waiting = asyncio.create_task(manager.acquire("toy/a"))
            await settle()
            releasing = asyncio.create_task(released(lease, steps))
        await asyncio.wait((waiting, releasing))
        heard.add(type(waiting.exception()))
    assert heard == {type(None), EngineLost, Unavailable}


async def released(lease: Lease, steps: int) -> None:
    for _ in range(steps):
        await asyncio.sleep(0)
    lease.release()


async def test_a_load_in_progress_ends_with_the_daemon(start: Start, backend: ToyBackend) -> None:
    backend.gate = asyncio.Event()
    async with start() as manager:
        await manager.load("toy/a", wait=False)
        await settle()
    assert backend.loaded == set()


async def test_lists_are_cached_for_five_seconds(
    start: Start, backend: ToyBackend, clock: FakeClock
) -> None:
    async with start() as manager:
        for _ in range(5):
            await manager.models()
        assert backend.calls["list"] == 1
        await clock.advance(5)
        await manager.models()
        assert backend.calls["list"] == 2


async def test_an_unknown_name_asks_the_backends_once_more_and_offers_what_is_near(
    start: Start, backend: ToyBackend
) -> None:
    async with start() as manager:
        await manager.models()
        backend.names.append("qwen")
        assert (await manager.model("qwen")).id == "toy/qwen"
        with pytest.raises(ModelNotFound) as caught:
            await manager.acquire("toy/qwem")
        assert caught.value.hint == "Did you mean toy/qwen?"


async def test_a_model_whose_file_goes_away_lives_while_it_is_loaded(
    start: Start, backend: ToyBackend, clock: FakeClock
) -> None:
    async with start() as manager:
        lease = await manager.acquire("toy/a")
        backend.names.remove("a")
        await clock.advance(6)
        assert [model.id for model in await manager.models()] == ["toy/a", "toy/b"]
        lease.release()
        await manager.unload("toy/a")
        await clock.advance(6)
        assert [model.id for model in await manager.models()] == ["toy/b"]


async def test_a_failing_backend_keeps_its_last_list_and_says_why(
    start: Start, backend: ToyBackend, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start() as manager:
        assert len(await manager.models()) == 2

        async def broken() -> list[ModelInfo]:
            raise OSError("no such folder")

        monkeypatch.setattr(backend, "list", broken)
        assert len(await manager.models(fresh=True)) == 2
        assert {k: v.what for k, v in manager.problems.items()} == {
            "toy": "OSError: no such folder"
        }


async def test_a_model_of_a_backend_that_is_down_is_told_with_the_backends_problem(
    start: Start, backend: ToyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down() -> list[ModelInfo]:
        raise Unavailable("no answer from http://toy", hint="Is it running?")

    monkeypatch.setattr(backend, "list", down)
    models = {"toy/a": ModelPolicy(ttl_s=1), "other/b": ModelPolicy(ttl_s=1)}
    async with start(aliases={"fast": "toy/a"}, models=models, default="fast") as manager:
        for name in ("toy/a", "fast"):
            with pytest.raises(Unavailable) as caught:
                await manager.acquire(name)
            assert caught.value.message == "toy/a can't be reached: toy: no answer from http://toy"
            assert caught.value.hint == "Is it running?"
        with pytest.raises(ModelNotFound) as unknown:
            await manager.acquire("a")
        assert "toy" in (unknown.value.hint or "")
        assert manager.warnings() == [
            "toy: no answer from http://toy. Is it running?",
            '[models."other/b"]: no model has that id',
        ]
        assert manager.default() == "fast", "the settings' own wish, there or not"


async def test_settings_of_a_model_that_its_backend_does_not_do_are_told(
    start: Start, backend: ToyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = LoadPlan(context=8, gpu_layers=1)
    models = {"toy/a": ModelPolicy(ttl_s=1, plan=plan), "toy/b": ModelPolicy(ttl_s=1)}
    async with start(models=models) as manager:
        await manager.models()
        told = [
            'models."toy/a".context is not possible. toy has no such thing.',
            'models."toy/a".gpu_layers is not possible. toy has no such thing.',
        ]
        assert manager.warnings() == told
        monkeypatch.setattr(backend, "ignores", lambda plan: {"context": "Set it there."})
        assert manager.warnings() == ['models."toy/a".context is not possible. Set it there.']
        monkeypatch.setattr(backend, "ignores", lambda plan: 1 / 0)
        assert manager.warnings() == []


async def test_what_a_working_backend_warns_of_is_told(
    start: Start, backend: ToyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Availability | Exception] = []

    async def available() -> Availability:
        if isinstance(said[-1], Exception):
            raise said[-1]
        return said[-1]

    monkeypatch.setattr(backend, "available", available)
    for says, told in (
        (Availability(ok=True, detail="fine"), []),
        (Availability(ok=True, warnings=("no such folder",)), ["toy: no such folder"]),
        (Availability(ok=False, detail="no key", hint="Set it."), ["toy: no key. Set it."]),
        (OSError("no"), ["toy: available() raised OSError: no"]),
    ):
        said.append(says)
        async with start() as manager:
            assert len(await manager.models()) == 2
            assert manager.warnings() == told


async def test_names_resolve_by_id_alias_and_unique_bare_name(
    start: Start, backend: ToyBackend
) -> None:
    async with start(aliases={"fast": "toy/a", "gone": "toy/zzz"}) as manager:
        for name in ("toy/a", "fast", "a"):
            assert (await manager.model(name)).id == "toy/a"
        with pytest.raises(ModelNotFound):
            await manager.model("gone")


async def test_an_engine_lost_while_draining_does_not_hang_the_unload(
    start: Start, backend: ToyBackend
) -> None:
    async with start() as manager, anyio.create_task_group() as tasks:
        lease = await manager.acquire("toy/a")
        tasks.start_soon(manager.unload, "toy/a")
        await settle()
        backend.crash("toy/a")
        with anyio.fail_after(5):
            while (await state(manager)).state != "failed":
                await asyncio.sleep(0)
        lease.release()


async def test_who_waits_when_an_engine_crashes_gets_the_next_one_and_hears_of_a_second_crash(
    start: Start, backend: ToyBackend
) -> None:
    heard: list[str] = []

    async def request(manager: Manager) -> None:
        try:
            (await manager.acquire("toy/a")).release()
        except EngineLost as error:
            heard.append(error.message)
        else:
            heard.append("answered")

    async with start() as manager:
        for crash in ("first", "second"):
            lease = await manager.acquire("toy/a")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(manager.unload, "toy/a")
                await settle()
                tasks.start_soon(request, manager)
                await settle()
                backend.crash("toy/a", crash)
                await settle()
                lease.release()
    assert heard == ["answered", "second"]


async def test_a_model_that_its_server_dropped_has_not_failed(
    start: Start, backend: ToyBackend
) -> None:
    async with start() as manager:
        for _ in range(4):
            (await manager.acquire("toy/a")).release()
            backend.crash("toy/a", "dropped", crashed=False)
            await settle()
            told = await manager.model("toy/a")
            assert (told.state, told.failure) == ("unloaded", None)
    assert backend.calls["load"] == 4


async def test_a_silent_backend_holds_up_nobody_for_long(clock: FakeClock) -> None:
    good, silent = ToyBackend(), ToyBackend()
    silent.name = "silent"
    forever = asyncio.Event()
    failing = True

    async def never() -> list[ModelInfo]:
        if failing:
            raise Unavailable("no answer")
        await forever.wait()
        return []

    silent.list = never  # type: ignore[method-assign]
    manager = Manager(
        {"toy": good, "silent": silent}, policies=Policies(), clock=clock, list_ttl_s=5.0
    )
    async with manager.running():
        assert [model.id for model in await manager.models()] == ["toy/a", "toy/b"]
        assert manager.warnings() == ["silent: no answer"]
        failing = False
        with anyio.fail_after(5):  # it may take as long as `LIST_LIMIT_S`; nobody waits for it
            for _ in range(3):
                await clock.advance(6)
                assert len(await manager.models()) == 2
            with pytest.raises(ModelNotFound):
                await manager.model("toy/zzz")
        assert good.calls["list"] >= 3


async def test_a_model_that_is_gone_from_its_endpoint_is_gone_from_the_list(
    start: Start, backend: ToyBackend, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = [ModelInfo(id="toy/x", backend="toy", name="x", managed=False, state="ready")]

    async def listed() -> list[ModelInfo]:
        return list(there)

    monkeypatch.setattr(backend, "list", listed)
    async with start() as manager:
        (await manager.acquire("toy/x")).release()
        there.clear()
        await clock.advance(6)
        assert await manager.models() == []


async def test_a_backend_explains_refusals_and_its_fault_explains_nothing(
    backend: ToyBackend, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = BadRequest("toy/a is no oracle")
    answers: list[Any] = [known, None, "no error", ZeroDivisionError()]

    def explain(model: ModelInfo, status: int, body: bytes) -> Any:
        assert (model.id, status, body) == ("toy/a", 500, b"words")
        answer = answers.pop(0)
        if isinstance(answer, ZeroDivisionError):
            raise answer
        return answer

    async with start() as manager:
        lease = await manager.acquire("toy/a")
        assert lease.explain(500, b"words") is None, "most explain nothing"
        monkeypatch.setattr(backend, "explain", explain)
        assert [lease.explain(500, b"words") for _ in range(4)] == [known, None, None, None]
        lease.release()


class Shared(ToyBackend):
    """Others load and unload there as well."""

    async def list(self) -> list[ModelInfo]:
        return [
            attrs.evolve(model, state="ready" if model.id in self.loaded else "unloaded")
            for model in await super().list()
        ]

    async def load(self, model: ModelInfo, *rest: Any) -> Any:
        self.loaded.discard(model.id)
        return await super().load(model, *rest)


@pytest.fixture
def shared(clock: FakeClock) -> tuple[Manager, Shared]:
    backend = Shared()
    return Manager({"toy": backend}, policies=Policies(), clock=clock), backend


async def test_a_model_that_others_loaded_shows_as_ready(
    shared: tuple[Manager, Shared], clock: FakeClock
) -> None:
    manager, backend = shared
    backend.loaded.add("toy/a")
    async with manager.running():
        assert [model.state for model in await manager.models()] == ["ready", "unloaded"]
        backend.loaded.clear()
        await clock.advance(6)
        assert (await state(manager)).state == "unloaded"
        assert backend.calls["load"] == 0


async def test_a_model_that_others_loaded_is_unloaded_where_somebody_wants_it(
    shared: tuple[Manager, Shared],
) -> None:
    manager, backend = shared
    backend.loaded.add("toy/a")
    async with manager.running():
        with anyio.fail_after(5):
            assert (await manager.unload("toy/a")).state == "unloaded"
        assert (backend.loaded, backend.calls["unload"]) == (set(), 1)
        (await manager.acquire("toy/a")).release()
        assert (await state(manager)).state == "ready"


async def test_what_was_loaded_by_others_and_then_by_us_is_unloaded_once_it_is(
    shared: tuple[Manager, Shared],
) -> None:
    manager, backend = shared
    backend.loaded.add("toy/a")
    async with manager.running():
        (await manager.acquire("toy/a")).release()
        assert (await manager.unload("toy/a")).state == "unloaded"


async def test_a_list_that_was_asked_before_an_unload_does_not_bring_the_model_back(
    clock: FakeClock,
) -> None:
    gate, asked = asyncio.Event(), asyncio.Event()

    class Server(ToyBackend):
        async def list(self) -> list[ModelInfo]:
            rows = [
                attrs.evolve(row, state="ready") if row.id in self.loaded else row
                for row in await super().list()
            ]
            if self.loaded:
                asked.set()
                await gate.wait()
            return rows

    manager = Manager({"toy": Server()}, policies=Policies(), clock=clock)
    async with manager.running(), anyio.create_task_group() as tasks:
        await manager.load("toy/a")
        await clock.advance(6)
        tasks.start_soon(manager.models)
        await asked.wait()
        life = manager._lives["toy/a"]
        await life.unload()
        gate.set()
        assert (await state(manager)).state == "unloaded", "as the list had it, it was there"
        assert not life.model.loaded, "a load would take it for one that needs no room"
        await clock.advance(6)
        assert (await state(manager)).state == "unloaded"


@pytest.mark.parametrize("hours", [9, -9])
async def test_a_jump_of_the_time_of_day_neither_unloads_nor_shows_a_use_to_come(
    start: Start, backend: ToyBackend, clock: FakeClock, hours: int
) -> None:
    async with start(ttl_s=60) as manager:
        (await manager.acquire("toy/a")).release()
        (await manager.acquire("toy/b")).release()
        used_at = clock.now()
        lease = await manager.acquire("toy/a")
        await clock.advance(30)
        clock.jump(hours * 3600)
        await clock.advance(20)
        assert backend.calls["unload"] == 0, "50 s have passed, whatever the clock on the wall says"
        idle = await state(manager, "toy/b")
        assert idle.last_used == min(used_at, clock.now())
        await clock.advance(50)
        assert (await state(manager, "toy/b")).state == "unloaded"
        assert (await state(manager, "toy/a")).state == "ready", "it is in use"
        lease.release()
        assert (await state(manager, "toy/a")).last_used == clock.now()
        clock.jump(-hours * 3600)
        await clock.advance(59)
        assert (await state(manager, "toy/a")).state == "ready"
        await clock.advance(2)
        assert (await state(manager, "toy/a")).state == "unloaded"
