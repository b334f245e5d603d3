"""`cerberus chat` in a real terminal, and what streams: typed, stopped, gone on, ended."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from cerberus_core.testing import Received, Reply, ScriptedServer
from cerberus_core.testing.scripted import Wait, chat_chunks, chunk, echo, sse
from tests.cli.conftest import Done
from tests.conftest import endpoint
from tests.processes import DaemonProcess, clean_env, start_daemon, stop_daemon

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a PTY")

CTRL_C, CTRL_D = b"\x03", b"\x04"


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, env: dict[str, str], *args: str) -> None:
        self.shown = ""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.clear()
            command = [sys.executable, "-m", "cerberus_core", *args]
            os.execve(sys.executable, command, {**env, "TERM": "xterm"})

    def type(self, data: bytes) -> None:
        os.write(self._fd, data)

    def press(self, key: bytes, done: Callable[[], bool]) -> None:
        """Press a key as a person does: again, until it is heard.

        Between two prompts readline has not taken the terminal yet, and a key
        pressed in that moment is lost.
        """
        for _ in range(60):
            with contextlib.suppress(OSError):  # it has just ended
                self.type(key)
            for _ in range(10):
                if done():
                    return
                time.sleep(0.03)
        raise AssertionError(f"{key!r} was not heard: {self.shown[-300:]!r}")

    def unread(self) -> str:
        """What has come and was not waited for yet."""
        while select.select([self._fd], [], [], 0)[0]:
            try:
                data = os.read(self._fd, 4096)
            except OSError:
                break
            if not data:
                break
            self.shown += data.decode(errors="replace")
        return self.shown

    def has_ended(self) -> bool:
        self.unread()
        return psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE

    def until(self, text: str, limit_s: float = 20) -> str:
        """What was shown up to `text`, which is taken off."""
        deadline = time.monotonic() + limit_s
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} never came: {self.shown!r}"
            if select.select([self._fd], [], [], 0.1)[0]:
                try:
                    data = os.read(self._fd, 4096)
                except OSError:
                    data = b""
                assert data, f"it ended before {text!r}: {self.shown!r}"
                self.shown += data.decode(errors="replace")
        before, _, self.shown = self.shown.partition(text)
        return before

    def ended(self, limit_s: float = 20) -> int:
        """Its exit code; reads on, so that it can write its last."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if select.select([self._fd], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):  # EIO: the other side is closed
                    self.shown += os.read(self._fd, 4096).decode(errors="replace")
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self._fd)
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f"it did not end: {self.shown!r}")

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self._fd)


@pytest.fixture
def terminal(served: DaemonProcess) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*args: str) -> Terminal:
        opened.append(Terminal(served.env, *args))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def endless(_: Received) -> Reply:
    """A first piece, and then nothing for ever."""
    return Reply.stream([sse(chunk({"content": "Once upon "})), Wait()])


def test_a_conversation_streams_stops_goes_on_and_ends(
    terminal: Callable[..., Terminal], scripted: ScriptedServer
) -> None:
    chat = terminal("chat", "-m", "up/m")
    chat.until("Talking to up/m")
    chat.until("> ")
    chat.type(b"first\n")
    chat.until("first\r\n")  # the echo of the terminal
    chat.until("first")  # the answer
    chat.until("tokens")
    chat.until("> ")
    scripted.reply = endless
    chat.type(b"a story\n")
    chat.until("Once upon ")  # streams: the rest never comes
    chat.type(CTRL_C)
    chat.until("(stopped)")
    chat.until("> ")
    scripted.reply = echo
    chat.type(b"and now\n")
    chat.until("tokens")
    sent = scripted.requests[-1].json()["messages"]
    assert [(m["role"], m["content"]) for m in sent] == [
        ("user", "first"),
        ("assistant", "first"),
        ("user", "a story"),
        ("assistant", "Once upon "),  # as far as it came
        ("user", "and now"),
    ]
    chat.until("> ")
    chat.type(b"/new\n")
    chat.until("A new conversation.")
    chat.type(b"again\n")
    chat.until("tokens")
    assert len(scripted.requests[-1].json()["messages"]) == 1
    chat.until("> ")
    chat.press(CTRL_C, lambda: "/bye" in chat.unread())
    chat.until("/bye")
    chat.until("> ")
    chat.press(CTRL_D, chat.has_ended)
    assert chat.ended() == 0
    assert "Traceback" not in chat.shown


def test_an_error_does_not_end_the_conversation(
    terminal: Callable[..., Terminal], scripted: ScriptedServer
) -> None:
    chat = terminal("chat")
    chat.until("> ")
    scripted.reply = Reply.json({"error": {"message": "too hot"}}, status=503)
    chat.type(b"hello\n")
    chat.until("Error: ")
    chat.until("> ")
    scripted.reply = echo
    chat.type(b"better\n")
    chat.until("tokens")
    assert len(scripted.requests[-1].json()["messages"]) == 1, "the failed question is gone"
    chat.type(b"/bye\n")
    assert chat.ended() == 0


def test_ctrl_c_on_one_question_is_a_130(
    terminal: Callable[..., Terminal], scripted: ScriptedServer
) -> None:
    scripted.reply = endless
    chat = terminal("chat", "tell me")
    chat.until("Once upon ")
    chat.type(CTRL_C)
    assert chat.ended() == 130
    assert "Traceback" not in chat.shown


def test_removing_asks_first(terminal: Callable[..., Terminal]) -> None:
    asked = terminal("models", "rm", "up/m")
    asked.until("Delete the files of up/m?")
    asked.type(b"n\n")
    assert asked.ended() == 130
    by_name = terminal("models", "rm", "m")
    by_name.until("Delete the files of up/m?")


def test_removing_looks_first(terminal: Callable[..., Terminal]) -> None:
    looked = terminal("models", "rm", "nope")
    assert looked.ended() == 4
    assert "Delete" not in looked.shown


def test_the_link_comes_with_a_qr_code(terminal: Callable[..., Terminal]) -> None:
    shown = terminal("url")
    assert shown.ended() == 0
    assert "█" in shown.shown or "▄" in shown.shown


def test_status_follows_line_by_line(
    served: DaemonProcess, cli: Callable[..., Done], scripted: ScriptedServer
) -> None:
    command = [sys.executable, "-m", "cerberus_core", "status", "--follow", "--json"]
    with subprocess.Popen(command, env=served.env, stdout=subprocess.PIPE, bufsize=0) as following:
        assert following.stdout is not None
        before = json.loads(following.stdout.readline())  # at once, though it is a pipe
        # Events of before its second connection are not told: ask until one is.
        deadline = time.monotonic() + 20
        while not select.select([following.stdout], [], [], 0.2)[0]:
            assert time.monotonic() < deadline
            served_models = httpx.post(
                f"{served.url}/v1/chat/completions",
                json={"model": "m", "messages": [{"role": "user", "content": "x"}]},
                headers=served.headers,
            )
            assert served_models.status_code == 200
        assert json.loads(following.stdout.readline())["requests_total"] > before["requests_total"]
        following.send_signal(signal.SIGINT)
        assert following.wait(20) == 130


def test_a_daemon_that_dies_in_mid_answer_is_a_3(
    tmp_path_factory: pytest.TempPathFactory, scripted: ScriptedServer
) -> None:
    running = start_daemon(tmp_path_factory.mktemp("mortal"), endpoint(scripted))
    try:
        scripted.reply = Reply.stream([chat_chunks(["Once "])[0], Wait()])
        command = [sys.executable, "-m", "cerberus_core", "chat", "tell me"]
        with subprocess.Popen(
            command, env=running.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, text=True,
        ) as chat:  # fmt: skip
            assert chat.stdout is not None
            assert chat.stdout.read(5) == "Once "
            running.process.kill()
            _, said = chat.communicate(timeout=20)
        assert chat.returncode == 3, said
        assert "Error: The daemon" in said
        assert "Traceback" not in said
    finally:
        stop_daemon(running)


def test_the_greeting_stands_above_the_log(tmp_path: Path) -> None:
    env = clean_env(tmp_path)
    (tmp_path / "config").mkdir()
    # Its key is not set: a backend that can't be listed, without a look at the network.
    (tmp_path / "config" / "config.toml").write_text(
        'blocked_plugins = ["llamacpp", "hello"]\n[plugins.openai.endpoints.acme]\n'
        'base_url = "http://127.0.0.1:9/v1"\napi_key_env = "ACME_KEY"\n'
    )
    serving = Terminal(env, "serve", "--port", "0")
    try:
        shown = serving.until("backend_list_failed")
        assert "! acme: The key of acme is not set" in shown
        assert "Cerberus listens at" in shown
        assert "  stop " in shown
        serving.type(CTRL_C)
        assert serving.ended() == 0
    finally:
        serving.close()
