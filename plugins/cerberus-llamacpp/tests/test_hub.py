"""Pulls from a small loopback server that speaks the hub's HTTP."""

import asyncio
import contextlib
import hashlib
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cerberus_llamacpp.backend import LlamaCpp
from cerberus_llamacpp.testing import Setup, write_gguf

from cerberus_core.errors import NotFound, Unavailable
from cerberus_core.platform import FileLock
from cerberus_core.values import PullProgress

pytestmark = pytest.mark.anyio

Make = Callable[..., LlamaCpp]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
# More than one of the client's pieces (1 MiB).
BIG = [("w", (1024, 1024), 1), ("v", (1024, 1024), 1)]
CUT = (5 << 19) + 7
RESUMED = f"bytes={2 << 20}-"


class Hub:
    """What is in its one repository, how it misbehaves, and what it was asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut_at: int | None = None
        """Connections break off after this many bytes of a file."""
        self.gone_after: int | None = None
        """After this many downloads there is nobody home."""
        self.error: tuple[int, str] | None = None
        self.ranges: list[str | None] = []
        self.flows = threading.Event()
        """While cleared, connections hang after what they have sent."""
        self.flows.set()
        self.lies = False

    def lfs(self, raw: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(raw + b"?" * self.lies).hexdigest()
        return {"sha256": digest, "size": len(raw), "pointerSize": 134}


class Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.serve(body=False)

    def do_GET(self) -> None:
        self.serve(body=True)

    def serve(self, *, body: bool) -> None:
        hub = self.hub
        path = self.path.partition("?")[0]
        if hub.gone_after is not None and len(hub.ranges) >= hub.gone_after:
            self.close_connection = True
        elif hub.error is not None:
            self.reply(hub.error[0], b"{}", {"X-Error-Code": hub.error[1]}, body)
        elif path == "/api/models/org/tiny-GGUF":
            siblings = [
                {"rfilename": name, "size": len(raw), "lfs": hub.lfs(raw)}
                for name, raw in hub.files.items()
            ]
            facts = {"id": "org/tiny-GGUF", "sha": COMMIT, "siblings": siblings}
            self.reply(200, json.dumps(facts).encode(), {"Content-Type": "application/json"}, body)
        elif path.startswith(f"/org/tiny-GGUF/resolve/{COMMIT}/"):
            self.file(hub.files[path.split("/", 5)[5]], body)
        else:
            self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body)

    def file(self, raw: bytes, body: bool) -> None:
        etag = hashlib.sha256(raw).hexdigest()
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        asked, start = self.headers.get("Range"), 0
        if body:
            self.hub.ranges.append(asked)
        if asked:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            headers["Content-Range"] = f"bytes {start}-{len(raw) - 1}/{len(raw)}"
        self.reply(206 if asked else 200, raw[start:], headers, body, cut=self.hub.cut_at)

    def reply(
        self, status: int, raw: bytes, headers: dict[str, str], body: bool, cut: int | None = None
    ) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if body:
            self.wfile.write(raw[:cut])
            self.wfile.flush()
            if cut is not None and cut < len(raw):
                self.hub.flows.wait(30)
                self.close_connection = True


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    hub = Hub()
    handler = type("Bound", (Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    from huggingface_hub import file_download

    # The client waits a second before each of its own tries.
    monkeypatch.setattr(file_download.time, "sleep", lambda seconds: None)
    yield hub
    hub.flows.set()
    server.shutdown()
    server.server_close()
    thread.join()


def gguf(tmp_path: Path, *args: Any) -> bytes:
    return write_gguf(tmp_path / "made.gguf", *args).read_bytes()


def names(folder: Path) -> list[str]:
    return sorted(
        [str(path.relative_to(folder)) for path in folder.rglob("*.gguf") if path.is_file()]
    )


async def pull(backend: LlamaCpp, ref: str, seen: list[PullProgress] | None = None) -> Any:
    return await backend.pull(ref, (seen if seen is not None else []).append)


async def test_a_pulled_model_lands_in_its_place_with_shards_and_projector(
    make_backend: Make, setup: Setup, hub: Hub, tmp_path: Path
) -> None:
    clip = {"general.architecture": "clip", "clip.vision.projection_dim": 64}
    hub.files = {
        "README.md": b"# tiny",
        "Q5_K_M/tiny-Q5_K_M-00001-of-00002.gguf": gguf(tmp_path),
        "Q5_K_M/tiny-Q5_K_M-00002-of-00002.gguf": gguf(tmp_path),
        "tiny-Q4_K_M.gguf": gguf(tmp_path),
        "mmproj-F16.gguf": gguf(tmp_path, clip),
    }
    backend = make_backend()
    seen: list[PullProgress] = []
    model = await pull(backend, "org/tiny-GGUF:q5_k_m", seen)
    assert model.id == "llamacpp/tiny-Q5_K_M"
    assert "vision" in model.capabilities
    assert names(setup.models_dir) == [
        "org/tiny-GGUF/mmproj-F16.gguf",
        "org/tiny-GGUF/tiny-Q5_K_M-00001-of-00002.gguf",
        "org/tiny-GGUF/tiny-Q5_K_M-00002-of-00002.gguf",
    ]
    assert seen[-1].done == seen[-1].total
    assert [state.done for state in seen] == sorted([state.done for state in seen])
    asked = len(hub.ranges)
    assert (await pull(backend, "org/tiny-GGUF:Q5_K_M")).id == model.id
    assert len(hub.ranges) == asked  # nothing is fetched twice


async def test_a_cut_connection_is_gone_on_with_by_range(
    make_backend: Make, hub: Hub, tmp_path: Path
) -> None:
    whole = gguf(tmp_path, {"general.architecture": "llama"}, BIG)
    hub.files = {"tiny-Q4_K_M.gguf": whole}
    hub.cut_at = CUT
    model = await pull(make_backend(), "org/tiny-GGUF")
    assert model.problem is None
    assert hub.ranges[0] is None
    assert hub.ranges[1] == RESUMED


async def test_a_failed_pull_is_never_listed_and_the_next_one_resumes(
    make_backend: Make, setup: Setup, hub: Hub, tmp_path: Path
) -> None:
    hub.files = {"tiny-Q4_K_M.gguf": gguf(tmp_path, {"general.architecture": "llama"}, BIG)}
    hub.cut_at = CUT
    hub.gone_after = 1
    backend = make_backend()
    with pytest.raises(Unavailable) as caught:
        await pull(backend, "org/tiny-GGUF")
    assert "goes on from there" in str(caught.value.hint)
    assert await backend.list() == []
    assert names(setup.models_dir) == []
    hub.cut_at = hub.gone_after = None
    hub.ranges.clear()
    assert (await pull(backend, "org/tiny-GGUF")).problem is None
    assert hub.ranges == [RESUMED]
    assert names(setup.models_dir) == ["org/tiny-GGUF/tiny-Q4_K_M.gguf"]
    assert [path.name for path in (setup.models_dir / ".pulls").iterdir()] == [
        "org--tiny-GGUF--default.lock"
    ]


async def test_a_cancelled_pull_stops_and_keeps_what_it_has(
    make_backend: Make, setup: Setup, hub: Hub, tmp_path: Path
) -> None:
    hub.files = {"tiny-Q4_K_M.gguf": gguf(tmp_path, {"general.architecture": "llama"}, BIG)}
    hub.cut_at = CUT
    hub.flows.clear()
    began = asyncio.Event()

    def report(state: PullProgress) -> None:
        if state.done >= 2 << 20:
            began.set()

    backend = make_backend()
    task = asyncio.create_task(backend.pull("org/tiny-GGUF", report))
    async with asyncio.timeout(20):
        await began.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert await backend.list() == []
    hub.cut_at = None
    hub.flows.set()
    model = None
    for _ in range(200):
        # Refused while the cancelled thread is on its way out.
        with contextlib.suppress(Unavailable):
            model = await pull(backend, "org/tiny-GGUF")
            break
        await asyncio.sleep(0.05)
    assert model is not None
    assert model.problem is None
    assert hub.ranges[-1] in (f"bytes={1 << 20}-", RESUMED)


async def test_one_model_is_pulled_once_at_a_time(
    make_backend: Make, setup: Setup, hub: Hub
) -> None:
    with (
        FileLock(setup.models_dir / ".pulls" / "org--tiny-GGUF--default.lock"),
        pytest.raises(Unavailable, match="being pulled already"),
    ):
        await pull(make_backend(), "org/tiny-GGUF")


async def test_a_damaged_file_is_thrown_away(
    make_backend: Make, setup: Setup, hub: Hub, tmp_path: Path
) -> None:
    hub.files = {"tiny-Q4_K_M.gguf": gguf(tmp_path)}
    hub.lies = True
    with pytest.raises(Unavailable, match="came damaged"):
        await pull(make_backend(), "org/tiny-GGUF")
    assert names(setup.models_dir) == []
    assert not list(setup.models_dir.rglob("*.part"))


@pytest.mark.parametrize(
    ("error", "kind", "hint"),
    [
        ((403, "GatedRepo"), Unavailable, "HF_TOKEN"),
        ((404, "RepoNotFound"), NotFound, "spelling"),
        ((500, ""), Unavailable, "goes on from there"),
    ],
)
async def test_what_the_hub_refuses_comes_with_a_hint(
    make_backend: Make,
    hub: Hub,
    error: tuple[int, str],
    kind: type[Unavailable],
    hint: str,
) -> None:
    hub.error = error
    with pytest.raises(kind, match="org/tiny-GGUF") as caught:
        await pull(make_backend(), "org/tiny-GGUF")
    assert hint in str(caught.value.hint)


async def test_a_server_that_is_no_hub_is_told(make_backend: Make, hub: Hub) -> None:
    hub.error = (200, "")  # `{}`, which tells of no model
    with pytest.raises(Unavailable, match="not as the hub does") as caught:
        await pull(make_backend(), "org/tiny-GGUF")
    assert "HF_ENDPOINT" in str(caught.value.hint)


async def test_offline_says_so_and_what_to_do(
    make_backend: Make, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(Unavailable) as caught:
        await pull(make_backend(), "org/tiny-GGUF")
    assert "Is the network up?" in str(caught.value.hint)
    assert caught.value.code == "hub_unreachable"
    assert names(setup.models_dir) == []


async def test_a_full_disk_is_told_before_the_first_byte(
    make_backend: Make, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.files = {"tiny-Q4_K_M.gguf": gguf(tmp_path)}
    full = shutil.disk_usage(tmp_path)._replace(free=1)
    monkeypatch.setattr("cerberus_llamacpp.pull.space.shutil.disk_usage", lambda path: full)
    with pytest.raises(Unavailable, match="more disk"):
        await pull(make_backend(), "org/tiny-GGUF")
    assert hub.ranges == []
