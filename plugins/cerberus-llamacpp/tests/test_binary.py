"""A `llama-server` binary, stood in for by a program that speaks like one."""

import asyncio
import functools
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import httpx
import psutil
import pytest
from cerberus_llamacpp.backend import LlamaCpp
from cerberus_llamacpp.engines import Binary
from cerberus_llamacpp.engines.binary import free_port
from cerberus_llamacpp.testing import TINY, Setup, write_gguf

from cerberus_core.errors import LoadFailed, Unavailable
from cerberus_core.platform import spawn
from cerberus_core.values import Endpoint, LoadPlan, ModelInfo

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script"),
]

Make = Callable[..., LlamaCpp]


class Fake:
    """The stand-in's program, and what it was started with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "llama-server"
        script = Path(__file__).with_name("fake_llama_server.py")
        words = shlex.join([sys.executable, str(script)])
        self.program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        self.program.chmod(0o755)
        self.behave({})

    def behave(self, *nth: dict[str, Any]) -> None:
        (self.folder / "fake.json").write_text(json.dumps(nth))

    @property
    def calls(self) -> list[list[str]]:
        try:
            lines = (self.folder / "calls.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    folder = tmp_path / "it's a bin"
    folder.mkdir()
    monkeypatch.setenv("FAKE_LLAMA", str(folder / "fake.json"))
    return Fake(folder)


@pytest.fixture
def backend(make_backend: Make, fake: Fake, setup: Setup) -> LlamaCpp:
    write_gguf(setup.models_dir / "模型 ü dir" / "-a 'b' \"c\".gguf")
    return make_backend(engine="binary", binary=str(fake.program), stop_grace_s=0.3)


async def listed(backend: LlamaCpp) -> ModelInfo:
    [model] = await backend.list()
    return model


async def load(backend: LlamaCpp, **plan: Any) -> Endpoint:
    async with asyncio.timeout(30):
        return await backend.load(await listed(backend), LoadPlan(**plan), lambda progress: None)


def offspring() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def value(argv: list[str], flag: str) -> str:
    return argv[argv.index(flag) + 1]


@pytest.fixture
def hard_tmpdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "临时 ü tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


@pytest.mark.usefixtures("hard_tmpdir")
async def test_m12_each_path_is_exactly_one_argument(
    backend: LlamaCpp, fake: Fake, setup: Setup
) -> None:
    folder = setup.models_dir / "模型 ü dir"
    clip = {"general.architecture": "clip", "clip.vision.projection_dim": 64}
    write_gguf(folder / "mmproj.gguf", clip)
    endpoint = await load(backend, context=100, parallel=3)
    [argv] = fake.calls
    assert value(argv, "--model") == str(folder / "-a 'b' \"c\".gguf")
    assert value(argv, "--mmproj") == str(folder / "mmproj.gguf")
    assert value(argv, "--host") == "127.0.0.1"
    assert (value(argv, "--ctx-size"), endpoint.ctx) == ("300", 100)
    assert endpoint.headers["Authorization"].removeprefix("Bearer ") not in argv
    assert "--no-webui" in argv
    assert "--cors-origins" not in argv  # this build's --help does not name it
    image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    body = {"model": endpoint.model, "messages": [{"role": "user", "content": image}]}
    async with httpx.AsyncClient(trust_env=False) as client:
        url = f"{endpoint.base_url}/chat/completions"
        answer = (await client.post(url, json=body, headers=endpoint.headers)).json()
    assert answer["model"] == endpoint.model == "llamacpp/-a 'b' \"c\""
    assert "image_url" in answer["choices"][0]["message"]["content"]


async def test_a_chat_template_is_the_engines_argument(
    backend: LlamaCpp, fake: Fake, setup: Setup
) -> None:
    template = setup.models_dir / "mine ü.jinja"
    template.write_text("{{ messages }}")
    endpoint = await load(backend, chat_template=str(template))
    assert value(fake.calls[0], "--chat-template-file") == str(template)
    assert not endpoint.system_first


@pytest.mark.parametrize(
    ("data", "why"),
    [(None, "can't be read: No such file"), (b"\xff", "it is not UTF-8"), (b" \n", "is empty")],
)
async def test_a_chat_template_that_can_not_be_read_starts_nothing(
    backend: LlamaCpp, fake: Fake, setup: Setup, data: bytes | None, why: str
) -> None:
    template = setup.models_dir / "mine.jinja"
    if data is not None:
        template.write_bytes(data)
    with pytest.raises(LoadFailed, match=f"chat_template: .*mine.jinja .*{why}"):
        await load(backend, chat_template=str(template))
    assert fake.calls == []


async def test_a_model_that_ranks_is_asked_at_rerank(
    make_backend: Make, fake: Fake, setup: Setup
) -> None:
    write_gguf(setup.models_dir / "rank.gguf", {**TINY, "llama.pooling_type": 4})
    endpoint = await load(make_backend(engine="binary", binary=str(fake.program)))
    assert "--reranking" in fake.calls[0]
    assert "rerank" in endpoint.wires


async def test_the_context_is_at_most_what_the_model_was_trained_for(
    backend: LlamaCpp, fake: Fake
) -> None:
    await load(backend, context=1_000_000)
    assert value(fake.calls[0], "--ctx-size") == str(TINY["llama.context_length"])


async def test_m05_a_stalled_first_load_is_stopped_and_the_next_starts_fresh(
    make_backend: Make, fake: Fake, backend: LlamaCpp
) -> None:
    fake.behave({"silent": True, "deaf": True}, {})
    backend = make_backend(engine="binary", binary=str(fake.program), stall_s=0.8)
    with pytest.raises(LoadFailed, match=r"no sign of life for 0\.8 s"):
        await load(backend)
    assert offspring() == []
    assert (await load(backend)).ctx == 512
    assert len(fake.calls) == 2


async def test_m05_a_slow_load_that_shows_life_is_not_cut_off(
    make_backend: Make, fake: Fake, backend: LlamaCpp
) -> None:
    fake.behave({"chatter": 16, "load_s": 600})
    backend = make_backend(engine="binary", binary=str(fake.program), stall_s=0.8)
    began = time.monotonic()
    await load(backend)
    assert time.monotonic() - began > 1.2


async def test_m06_an_engine_that_dies_at_start_fails_at_once(
    make_backend: Make, backend: LlamaCpp, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever looked again after a while, or waited for a sign of life, would be here for ever.
    monkeypatch.setattr("cerberus_llamacpp.engines.ready._POLL_S", (900.0,))
    backend = make_backend(engine="binary", binary=str(fake.program), stall_s=900)
    says = "error: invalid argument: --frobnicate"
    fake.behave({"exit": 1, "after_s": 0.3, "says": says})
    with pytest.raises(LoadFailed) as caught:
        await load(backend)
    told_at = time.time()
    log = (caught.value.hint or "").removeprefix("Its whole log: ")
    # Its last words were its end.
    assert told_at - await asyncio.to_thread(os.path.getmtime, log) < 2
    assert "exit code 1" in caught.value.message
    assert says in caught.value.message
    assert len(fake.calls) == 1
    assert offspring() == []


async def test_m06_a_binary_that_is_no_program_says_what_to_do(
    make_backend: Make, setup: Setup, tmp_path: Path
) -> None:
    write_gguf(setup.models_dir / "x.gguf")
    backend = make_backend(engine="auto", binary=str(tmp_path / "nowhere"))
    assert not (await backend.available()).ok
    with pytest.raises(Unavailable, match="not a program") as caught:
        await load(backend)
    assert caught.value.hint is not None


async def test_m09_an_engine_that_ignores_sigterm_is_killed_with_its_child(
    backend: LlamaCpp, fake: Fake
) -> None:
    fake.behave({"deaf": True, "child": True})
    await load(backend)
    assert len(offspring()) == 3  # guard, engine, its child
    await backend.unload(await listed(backend))
    assert offspring() == []


@pytest.mark.parametrize("moment", ["loading", "loaded", "closing"])
async def test_a_guard_that_stands_still_holds_up_neither_unload_nor_stop(
    backend: LlamaCpp, fake: Fake, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    quick = functools.partial(spawn, guard_slack_s=0.3)
    monkeypatch.setattr("cerberus_llamacpp.engines.binary.spawn", quick)
    fake.behave({"deaf": True, "load_s": 600 if moment == "loading" else 0})
    model = await listed(backend)
    loading = asyncio.create_task(load(backend))
    if moment == "loading":
        while not fake.calls:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.02)
    else:
        await loading
    for process in psutil.Process().children():
        process.suspend()  # the guards
    async with asyncio.timeout(10):
        if moment == "loading":
            loading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await loading
        elif moment == "loaded":
            await backend.unload(model)
        else:
            await backend.aclose()
    assert offspring() == []


async def test_gone_tells_how_the_engine_ended(backend: LlamaCpp) -> None:
    await load(backend)
    model = await listed(backend)
    gone = asyncio.create_task(backend.gone(model))
    next(process for process in offspring() if "--model" in process.cmdline()).terminate()
    async with asyncio.timeout(10):
        assert (await gone).why.startswith("the engine ended with signal 15 (SIGTERM)")


@pytest.fixture
def stranger() -> Iterator[tuple[int, list[str]]]:
    """A foreign web program that says 200 to everything, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path} {self.headers.get('Authorization')}")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"status":"ok","default_generation_settings":{"n_ctx":1}}')

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server.server_address[1], asked
    server.shutdown()
    server.server_close()
    thread.join()


async def test_m10_a_foreign_service_on_the_port_is_never_asked(
    backend: LlamaCpp, fake: Fake, stranger: tuple[int, list[str]]
) -> None:
    port, asked = stranger
    ports = iter([port, port, free_port()])
    backend._kind = Binary(fake.program, port=lambda: next(ports))
    endpoint = await load(backend)
    assert f":{port}/" not in endpoint.base_url
    assert len(fake.calls) == 3
    assert asked == []


async def test_m10_it_fails_clearly_where_no_port_is_to_be_had(
    backend: LlamaCpp, fake: Fake, stranger: tuple[int, list[str]]
) -> None:
    port, asked = stranger
    backend._kind = Binary(fake.program, port=lambda: port)
    with pytest.raises(LoadFailed, match="couldn't bind"):
        await load(backend)
    assert asked == []
    assert offspring() == []


async def test_m10_where_owners_cant_be_seen_a_stranger_is_not_shown_the_key(
    make_backend: Make,
    backend: LlamaCpp,
    fake: Fake,
    stranger: tuple[int, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port, asked = stranger
    monkeypatch.setattr("cerberus_llamacpp.engines.ready.owns", lambda child, port: None)
    fake.behave({"silent": True})
    backend = make_backend(engine="binary", binary=str(fake.program), stall_s=0.8)
    backend._kind = Binary(fake.program, port=lambda: port)
    with pytest.raises(LoadFailed, match="no sign of life"):
        await load(backend)
    assert asked
    assert all(line.endswith(" None") for line in asked)


async def test_m01_loads_of_different_models_may_overlap(
    backend: LlamaCpp, fake: Fake, setup: Setup
) -> None:
    write_gguf(setup.models_dir / "second.gguf")
    fake.behave({"load_s": 0.3})
    models = await backend.list()
    loads = [backend.load(model, LoadPlan(), lambda progress: None) for model in models]
    endpoints = await asyncio.gather(*loads)
    assert len({endpoint.base_url for endpoint in endpoints}) == 2
    assert len(fake.calls) == 2


async def test_auto_takes_a_binary_on_path_else_the_embedded_engine(
    make_backend: Make, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
    assert (await make_backend(engine="auto").available()).detail == "llama-server"
    monkeypatch.setenv("PATH", "/nowhere")
    assert (await make_backend(engine="auto").available()).detail == "embedded engine"
    assert not (await make_backend(engine="binary").available()).ok


async def test_a_plan_becomes_the_programs_own_flags(
    make_backend: Make, fake: Fake, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_LLAMA_HELP", "--spec-draft-model --model-draft --draft-max")
    backend = make_backend(engine="binary", binary=str(fake.program), extra_args=["--verbose"])
    write_gguf(setup.models_dir / "big.gguf")
    small = write_gguf(setup.models_dir / "small.gguf")
    model = next(model for model in await backend.list() if model.name != "small")
    plan = LoadPlan(
        cache_type_k="q8_0",
        cache_type_v="q4_0",
        gpu_layers=7,
        tensor_split=(3, 1.5),
        main_gpu=1,
        devices=("CUDA0", "CUDA1"),
        draft="llamacpp/small",
        draft_tokens=5,
        extra_args=("--no-mmap", "--note", "two words"),
    )
    assert backend.ignores(plan) == {}
    async with asyncio.timeout(30):
        await backend.load(model, plan, lambda progress: None)
    [argv] = fake.calls
    told = {flag: value(argv, flag) for flag in argv if flag.startswith("--cache-type")}
    assert told == {"--cache-type-k": "q8_0", "--cache-type-v": "q4_0"}
    assert (value(argv, "--n-gpu-layers"), value(argv, "--main-gpu")) == ("7", "1")
    assert (value(argv, "--tensor-split"), value(argv, "--device")) == ("3,1.5", "CUDA0,CUDA1")
    assert value(argv, "--spec-draft-model") == str(small), "the newer of two names"
    assert (value(argv, "--draft-max"), "--model-draft" in argv) == ("5", False)
    assert argv[-4:] == ["--verbose", "--no-mmap", "--note", "two words"], "the plugin's first"


async def test_what_a_plan_can_not_have_is_told_before_and_at_the_load(
    backend: LlamaCpp, fake: Fake, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = await listed(backend)
    for plan, word in (
        (LoadPlan(draft="nobody"), "There is no model 'nobody' here"),
        (LoadPlan(extra_args=("--port=1",)), "--port is set by Cerberus itself"),
    ):
        [(setting, why)] = backend.ignores(plan).items()
        assert why.startswith(word)
        with pytest.raises(LoadFailed) as caught:
            await backend.load(model, plan, lambda progress: None)
        assert f'models."{model.id}".{setting} is not possible: {word}' in str(caught.value)
    assert fake.calls == []
    write_gguf(setup.models_dir / "small.gguf")
    await backend.list()
    with pytest.raises(LoadFailed, match="knows none of --spec-draft-model, --model-draft"):
        await backend.load(model, LoadPlan(draft="small"), lambda progress: None)


async def test_what_is_learned_holds_for_the_plugins_settings_of_then(
    make_backend: Make, fake: Fake
) -> None:
    own = {"engine": "binary", "binary": str(fake.program), "gpu_layers": 3}
    backend = make_backend(**own, context=1000, extra_args=["--a"])
    assert backend.resolved(LoadPlan()).asked() == {
        "context": 1000, "parallel": 1, "gpu_layers": 3, "extra_args": ("--a",),
    }  # fmt: skip
    wish = LoadPlan(context=5, parallel=2, gpu_layers=0, extra_args=("--b",), cache_type_k="f16")
    assert backend.resolved(wish) == attrs.evolve(wish, extra_args=("--a", "--b"))
