"""The small parent that stands over a process which must not outlive the daemon.

Run as a script (`python -I -S guard.py OPTIONS`) by `processes.spawn`, never
imported by the daemon: standard library only, about 12 MB. It starts the
program in a session of its own, writes the program's output to a bounded log,
and stops the program's whole group when the daemon asks or is gone. A program
can't do that alone: a `llama-server` does not know who started it, and one
that loads weights inside Python holds the interpreter's lock for the whole
load, so that no thread of its own would see the daemon die.

standard input   `stop SECONDS`: SIGTERM, that grace, SIGKILL · `kill`: SIGKILL
                 end of file: the daemon is gone, stop with the orphan grace
standard output  `pid N` once, or `failed WHY`; `out TEXT` for each line of the
                 program's standard output (with `relay`); at the end
                 `exit CODE` or `signal N`
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from typing import IO, Any, TypedDict

_PR_SET_PDEATHSIG = 1
_LINE = 8192
_DRAIN_S = 2.0


class Options(TypedDict):
    argv: list[str]
    log: str
    log_bytes: int
    relay: bool
    orphan_grace_s: float


class Log:
    """A log file of at most `limit` bytes, and one older file of that size beside it."""

    def __init__(self, path: str, limit: int) -> None:
        self.path, self.limit = path, limit
        self.fd, self.size = -1, 0
        self._turn()

    def _turn(self) -> None:
        with contextlib.suppress(OSError):
            if self.fd >= 0:
                os.close(self.fd)
            self.fd = -1
            with contextlib.suppress(FileNotFoundError):
                os.replace(self.path, self.path + ".1")
            self.fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            self.size = 0

    def write(self, chunk: bytes) -> None:
        # A full disk must not stop the program by filling its pipe.
        with contextlib.suppress(OSError):
            if self.size + len(chunk) > self.limit and self.size:
                self._turn()
            self.size += os.write(self.fd, chunk)


class Guard:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.ended = threading.Event()
        self.mutex = threading.Lock()
        self.program: subprocess.Popen[bytes]

    def tell(self, word: str, rest: object) -> None:
        with contextlib.suppress(OSError), self.mutex:
            os.write(1, f"{word} {rest}\n".encode(errors="backslashreplace"))

    def run(self) -> None:
        relay = self.options["relay"]
        try:
            self.program = subprocess.Popen(
                self.options["argv"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if relay else subprocess.STDOUT,
                **_own_group(),
            )
        except (OSError, ValueError) as error:
            self.tell("failed", f"{self.options['argv'][0]}: {error}")
            return
        assert self.program.stdout is not None
        output: IO[bytes] = self.program.stdout
        pumps = [threading.Thread(target=self.pump, args=(self.program.stderr or output,))]
        if relay:
            pumps.append(threading.Thread(target=self.relay, args=(output,)))
        for thread in (*pumps, threading.Thread(target=self.obey)):
            thread.daemon = True
            thread.start()
        self.tell("pid", self.program.pid)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.on_signal)
        code = self.wait()
        for thread in pumps:
            thread.join(_DRAIN_S)
        if code < 0:
            self.tell("signal", -code)
        else:
            self.tell("exit", code)

    def wait(self) -> int:
        if sys.platform == "linux":
            # Unreaped, the program still holds its number: its group can be
            # signalled without hitting a stranger who got the number next.
            os.waitid(os.P_PID, self.program.pid, os.WEXITED | os.WNOWAIT)
        with self.mutex:
            _kill_group(self.program.pid)
            self.ended.set()
        return self.program.wait()

    def on_signal(self, number: int, frame: object) -> None:
        grace = self.options["orphan_grace_s"]
        threading.Thread(target=self.stop, args=(grace,), daemon=True).start()

    def obey(self) -> None:
        for line in sys.stdin.buffer:
            word, _, rest = line.decode().strip().partition(" ")
            if word == "stop":
                # Apart, so that a `kill` is heard during the grace.
                threading.Thread(target=self.stop, args=(float(rest),), daemon=True).start()
            elif word == "kill":
                self.signal_group(kill=True)
        self.stop(self.options["orphan_grace_s"])

    def stop(self, grace_s: float) -> None:
        self.signal_group(kill=False)
        if not self.ended.wait(grace_s):
            self.signal_group(kill=True)

    def signal_group(self, *, kill: bool) -> None:
        with self.mutex:
            if not self.ended.is_set():
                (_kill_group if kill else _terminate_group)(self.program.pid)

    def pump(self, source: IO[bytes]) -> None:
        log = Log(self.options["log"], self.options["log_bytes"])
        while chunk := os.read(source.fileno(), min(65536, log.limit)):
            log.write(chunk)

    def relay(self, source: IO[bytes]) -> None:
        while line := source.readline(_LINE):
            self.tell("out", line.decode(errors="replace").rstrip("\r\n"))


if sys.platform == "win32":

    def _own_group() -> dict[str, Any]:
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}

    def _terminate_group(pid: int) -> None:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.CTRL_BREAK_EVENT)

    def _kill_group(pid: int) -> None:
        command = ["taskkill", "/F", "/T", "/PID", str(pid)]
        with contextlib.suppress(OSError):
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

else:

    def _own_group() -> dict[str, Any]:
        options: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "linux":
            # Whoever kills daemon and guard in one stroke still leaves no engine.
            libc = ctypes.CDLL(None)
            options["preexec_fn"] = lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        return options

    def _terminate_group(pid: int) -> None:
        # EPERM is darwin's answer for a group of zombies.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGTERM)

    def _kill_group(pid: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    Guard(json.loads(sys.argv[1])).run()
    # Threads may still sit in a read; nothing is left to flush.
    os._exit(0)
