"""No proxy, nginx, Cerberus by two wires, LiteLLM: each is started here and ended here."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.page import ROOT

from . import litellm
from .programs import PROXY_CORE, pinned

START_S = 60.0


class Target(NamedTuple):
    """Where to send requests; `pid` is the root of the proxy's processes, None for direct."""

    name: str
    port: int
    model: str
    token: str | None
    pid: int | None
    wire: str = "chat"
    paced_clients: int | None = None
    """Paced streams, where all of them would not come to their end."""

    def cpu_s(self) -> float:
        """CPU time of all its processes so far, user and system."""
        times = [process.cpu_times() for process in self._processes()]
        return sum(t.user + t.system + t.children_user + t.children_system for t in times)

    def rss_mib(self) -> float:
        return sum(process.memory_info().rss for process in self._processes()) / 2**20

    def _processes(self) -> list[psutil.Process]:
        if self.pid is None:
            return []
        root = psutil.Process(self.pid)
        return [root, *root.children(recursive=True)]


@contextmanager
def direct(upstream_port: int) -> Iterator[Target]:
    yield Target("direct", upstream_port, "fake", None, None)


NGINX = """
{user}
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 1000000000;
  client_body_buffer_size 64k;
  upstream fake {{
    server 127.0.0.1:{upstream};
    keepalive 512;
    keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://fake;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""


@contextmanager
def nginx(upstream_port: int) -> Iterator[Target]:
    binary = nginx_binary()
    if binary is None:
        raise RuntimeError("nginx is missing (Debian: apt install nginx-light)")
    with tempfile.TemporaryDirectory(prefix="bench-nginx-") as folder:
        port = _free_port()
        user = "user root;" if hasattr(os, "geteuid") and os.geteuid() == 0 else ""
        config = Path(folder) / "nginx.conf"
        config.write_text(NGINX.format(user=user, folder=folder, upstream=upstream_port, port=port))
        command = [binary, "-p", folder, "-c", str(config), "-e", "stderr"]
        with _running(pinned(PROXY_CORE, command), Path(folder) / "log") as process:
            _wait(process, Path(folder) / "log", lambda: _answers(f"http://127.0.0.1:{port}"))
            yield Target("nginx", port, "fake", None, process.pid)


CERBERUS = """
[plugins.openai.endpoints.bench]
base_url = "http://127.0.0.1:{upstream}/v1"
models = ["fake"]
"""


@contextmanager
def cerberus(upstream_port: int, name: str = "cerberus", wire: str = "chat") -> Iterator[Target]:
    """A daemon as anybody would start it: metering and records on."""
    with tempfile.TemporaryDirectory(prefix="bench-cerberus-") as folder:
        config, data = Path(folder) / "config", Path(folder) / "data"
        config.mkdir()
        (config / "config.toml").write_text(CERBERUS.format(upstream=upstream_port))
        env = {name: value for name, value in os.environ.items() if "CERBERUS_" not in name}
        env |= {"CERBERUS_CONFIG": str(config), "CERBERUS_DATA": str(data)}
        command = [cerberus_command(), "serve", "--port", "0"]
        log = Path(folder) / "log"
        with _running(pinned(PROXY_CORE, command), log, env) as process:
            url = _wait(process, log, lambda: _daemon_url(data / "daemon.json"))
            token = subprocess.run(
                [cerberus_command(), "token"],
                env=env,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            ).stdout.strip()
            port = int(url.rpartition(":")[2])
            yield Target(name, port, "bench/fake", token, process.pid, wire)
            _check_records(data / "usage")


def messages(upstream_port: int) -> AbstractContextManager[Target]:
    """The same for a client that speaks Messages: every event is translated."""
    return cerberus(upstream_port, "messages", "messages")


LITELLM_STREAMS = 10
"""Of 200, none is whole within the load generator's twenty seconds of grace."""
LITELLM = """
model_list:
  - model_name: fake
    litellm_params:
      model: openai/fake
      api_base: http://127.0.0.1:{upstream}/v1
      api_key: none
general_settings:
  master_key: sk-bench
"""


@contextmanager
def litellm_proxy(upstream_port: int) -> Iterator[Target]:
    """One worker, as its documentation starts it; a key is asked for, as Cerberus asks for one."""
    command = litellm.installed()
    with tempfile.TemporaryDirectory(prefix="bench-litellm-") as folder:
        port = _free_port()
        config, log = Path(folder) / "config.yaml", Path(folder) / "log"
        config.write_text(LITELLM.format(upstream=upstream_port))
        env = {"PATH": os.environ["PATH"], "HOME": folder, **litellm.ENVIRONMENT}
        whole = [str(command), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
        with _running(pinned(PROXY_CORE, whole), log, env) as process:
            url = f"http://127.0.0.1:{port}/health/liveliness"
            _wait(process, log, lambda: _answers(url), litellm.START_S)
            yield Target(
                "litellm", port, "fake", "sk-bench", process.pid, paced_clients=LITELLM_STREAMS
            )


TARGETS: dict[str, Callable[[int], AbstractContextManager[Target]]] = {
    "direct": direct,
    "nginx": nginx,
    "cerberus": cerberus,
    "messages": messages,
    "litellm": litellm_proxy,
}


def nginx_binary() -> str | None:
    # Debian keeps it where only root's PATH looks.
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def cerberus_command() -> str:
    """The command of this checkout's environment."""
    beside = Path(sys.executable).with_name("cerberus")
    found = str(beside) if beside.exists() else shutil.which("cerberus")
    if found is None:
        raise RuntimeError("no `cerberus` command beside this Python: install the project first")
    return found


@contextmanager
def _running(
    command: list[str], log: Path, env: dict[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, cwd=ROOT
        )
        try:
            yield process
        finally:
            children = []
            with suppress(psutil.NoSuchProcess):
                children = psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()


def _wait(
    process: "subprocess.Popen[bytes]",
    log: Path,
    ask: Callable[[], str | None],
    limit_s: float = START_S,
) -> str:
    """What `ask` says once it says something; RuntimeError with the log's end otherwise."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end and process.poll() is None:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.05)
    told = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    state = "did not answer in time" if process.poll() is None else f"ended ({process.poll()})"
    raise RuntimeError(f"{process.args!r} {state}:\n{told}")


def _daemon_url(file: Path) -> str | None:
    try:
        url = str(json.loads(file.read_text(encoding="utf-8"))["url"]).rstrip("/")
    except (OSError, ValueError, KeyError):
        return None
    return url if _answers(f"{url}/healthz") else None


def _answers(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return url
    except urllib.error.HTTPError:
        return url  # whatever it says, it is there
    except OSError:
        return None


def _check_records(folder: Path) -> None:
    """The row claims that records are on: they must be there."""
    size = sum(file.stat().st_size for file in folder.glob("*.jsonl"))
    if not size:
        raise RuntimeError(f"no usage records in {folder}: the figures would not count")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
