"""A full disk costs the usage file, never an answer."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync as in_thread

from cerberus_core.testing import ScriptedServer
from cerberus_core.usage import store
from cerberus_core.usage.lines import decode
from tests.conftest import Box, StartBox, endpoint
from tests.disks import fill, small_disk_at

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}


async def warnings_of(box: Box) -> list[str]:
    return list((await box.http.get("/api/status")).json()["warnings"])


async def test_answers_go_on_while_the_usage_disk_is_full_and_nothing_is_lost_after(
    start_box: StartBox, upstream: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BATCH_S", 0.01)
    usage = tmp_path / "data" / "usage"
    with small_disk_at(usage):
        async with start_box(endpoint(upstream)) as box:
            await box.http.post("/v1/chat/completions", json=ASK)
            ballast = await in_thread(fill, usage)
            with anyio.fail_after(20):
                while not await warnings_of(box):
                    answer = await box.http.post("/v1/chat/completions", json=ASK)
                    assert answer.status_code == 200
            [warning] = await warnings_of(box)
            assert "usage log can't be written" in warning
            assert "No space left" in warning
            assert str(usage) in warning
            for _ in range(3):
                answer = await box.http.post("/v1/chat/completions", json=ASK)
                assert answer.json()["choices"][0]["message"]["content"] == "hi"
            total = (await box.http.get("/api/status")).json()["requests_total"]
            assert len(await box.records(total)) == total, "kept in memory"
            ballast.unlink()
            with anyio.fail_after(20):
                while await warnings_of(box):
                    await anyio.sleep(0.01)
        written, bad = decode((usage / "usage.jsonl").read_bytes())
        assert (len(written), bad) == (total, 0)
        assert len({record.id for record in written}) == total, "none twice"
