"""Models over HTTP: list, load, unload, remove, whatever their ids hold."""

from collections.abc import AsyncIterator, Callable, Sequence
from urllib.parse import quote

import pytest

from cerberus_core.errors import LoadFailed
from cerberus_core.interfaces import Backend
from cerberus_core.loading import Plugins
from cerberus_core.values import Endpoint, LoadPlan, LoadProgress, ModelInfo
from tests.conftest import Box, StartBox

pytestmark = pytest.mark.anyio

NAMES = ["org/name:Q4_K_M", "a//b", "a%2Fb", "模型 ü", "100% sure?", "-dash", "load/x", "x#y"]


class Shelf(Backend):
    """Models that load at once; `broken` ones never do."""

    name = "shelf"

    def __init__(self) -> None:
        self.names = [*NAMES, "broken"]
        self.loads: list[str] = []

    async def list(self) -> Sequence[ModelInfo]:
        return [ModelInfo(id=f"shelf/{name}", backend="shelf", name=name) for name in self.names]

    async def load(
        self, model: ModelInfo, plan: LoadPlan, report: Callable[[LoadProgress], None]
    ) -> Endpoint:
        self.loads.append(model.name)
        if model.name == "broken":
            raise LoadFailed("broken can't be loaded: out of memory", hint="Buy some.")
        return Endpoint(base_url="http://127.0.0.1:9/v1", model=model.name, backend="shelf")

    async def remove(self, model: ModelInfo) -> None:
        self.names.remove(model.name)


@pytest.fixture
async def shelf(
    start_box: StartBox, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Box, Shelf]]:
    backend = Shelf()
    monkeypatch.setattr(
        "cerberus_core.daemon.rooms.load_plugins",
        lambda *_, **__: Plugins(backends={"shelf": backend}),
    )
    async with start_box() as box:
        yield box, backend


async def test_the_list_holds_every_model_with_its_state(shelf: tuple[Box, Shelf]) -> None:
    box, _ = shelf
    rows = (await box.http.get("/api/models")).json()["models"]
    assert {row["id"] for row in rows} == {f"shelf/{name}" for name in [*NAMES, "broken"]}
    assert {row["state"] for row in rows} == {"unloaded"}
    assert all(row["in_flight"] == 0 and row["managed"] and row["local"] for row in rows)


@pytest.mark.parametrize("safe", ["/", ""], ids=["slashes plain", "slashes as %2F"])
@pytest.mark.parametrize("name", NAMES)
async def test_g33_every_id_is_loaded_unloaded_and_removed(
    shelf: tuple[Box, Shelf], name: str, safe: str
) -> None:
    box, backend = shelf
    path = quote(f"shelf/{name}", safe=safe)
    loaded = await box.http.post(f"/api/models/load/{path}")
    assert (loaded.status_code, loaded.json()["id"]) == (200, f"shelf/{name}")
    assert loaded.json()["state"] == "ready"
    assert backend.loads == [name]
    unloaded = await box.http.post(f"/api/models/unload/{path}")
    assert (unloaded.status_code, unloaded.json()["state"]) == (200, "unloaded")
    await box.http.post(f"/api/models/load/{path}")
    removed = await box.http.delete(f"/api/models/{path}")
    assert removed.status_code == 204
    assert name not in backend.names
    rows = (await box.http.get("/api/models")).json()["models"]
    assert f"shelf/{name}" not in {row["id"] for row in rows}
    again = await box.http.post(f"/api/models/load/{path}")
    assert again.json()["code"] == "model_not_found"


async def test_without_waiting_the_answer_comes_at_once_with_202(
    shelf: tuple[Box, Shelf],
) -> None:
    box, _ = shelf
    answer = await box.http.post("/api/models/load/shelf/-dash", params={"wait": "false"})
    assert answer.status_code == 202
    ready = await box.http.post("/api/models/load/shelf/-dash")
    assert ready.json()["state"] == "ready"
    answer = await box.http.post("/api/models/unload/shelf/-dash", params={"wait": "false"})
    assert answer.status_code == 202


async def test_a_failed_load_says_why_and_stays_visible(shelf: tuple[Box, Shelf]) -> None:
    box, _ = shelf
    answer = await box.http.post("/api/models/load/shelf/broken")
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (503, "load_failed")
    assert "out of memory" in problem["title"]
    assert problem["hint"] == "Buy some."
    rows = (await box.http.get("/api/models")).json()["models"]
    [row] = [row for row in rows if row["name"] == "broken"]
    assert row["state"] == "failed"
    assert "out of memory" in row["failure"]


async def test_a_near_name_is_proposed(shelf: tuple[Box, Shelf]) -> None:
    box, _ = shelf
    problem = (await box.http.post("/api/models/load/shelf/brokn")).json()
    assert "shelf/broken" in problem["hint"]
