"""A stand-in for `llama-server`: its flags, its HTTP, and its ways to misbehave.

Configured by the JSON file that FAKE_LLAMA names; appends each argv to
`calls.jsonl` beside it. `nth` picks the behaviour by the number of the start.
"""

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HELP = "--model --alias --host --port --metrics --slots --jinja --no-webui --mmproj"


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


class Handler(BaseHTTPRequestHandler):
    ready_at = 0.0
    key = os.environ.get("LLAMA_API_KEY", "")

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self, status: int, body: Any) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def refused(self) -> bool:
        if self.headers.get("Authorization") == f"Bearer {self.key}":
            return False
        self.answer(401, {"error": {"message": "Invalid API Key", "code": 401}})
        return True

    def stream(self, words: list[str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        choices = [{"index": 0, "delta": {"content": word}} for word in words]
        for choice in [*choices, {"index": 0, "delta": {}, "finish_reason": "stop"}]:
            chunk = {"model": option("--alias"), "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def do_GET(self) -> None:
        loading = time.monotonic() < self.ready_at
        if loading:
            self.answer(503, {"error": {"code": 503, "message": "Loading model"}})
        elif self.path == "/health":
            self.answer(200, {"status": "ok"})
        elif not self.refused():
            each = int(option("--ctx-size")) // int(option("--parallel"))
            self.answer(200, {"default_generation_settings": {"n_ctx": each}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.refused():
            return
        if body.get("stream"):
            self.stream(["Hel", "lo"])
        else:
            message = {"role": "assistant", "content": json.dumps(body["messages"][-1]["content"])}
            self.answer(200, {"model": option("--alias"), "choices": [{"message": message}]})


def main() -> None:
    if "--help" in sys.argv:
        more = os.environ.get("FAKE_LLAMA_HELP", "")
        sys.stdout.write(f"{HELP} {more}".replace(" ", "\n"))
        return
    file = Path(os.environ["FAKE_LLAMA"])
    with (file.parent / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps(sys.argv[1:]) + "\n")
    count = len((file.parent / "calls.jsonl").read_text().splitlines())
    behaviours = json.loads(file.read_text())
    how = behaviours[min(count, len(behaviours)) - 1]
    if how.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how.get("child"):
        script = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", script])
    if "exit" in how:
        time.sleep(how.get("after_s", 0))
        sys.stderr.write(how["says"] + "\n")
        raise SystemExit(how["exit"])
    if how.get("silent"):
        time.sleep(600)
    try:
        server = ThreadingHTTPServer((option("--host"), int(option("--port"))), Handler)
    except OSError as error:
        sys.stderr.write(f"couldn't bind HTTP server socket: {error}\n")
        raise SystemExit(1) from error
    Handler.ready_at = time.monotonic() + how.get("load_s", 0)
    for number in range(how.get("chatter", 0)):
        time.sleep(0.1)
        sys.stderr.write(f"loading tensor {number}\n")
    if how.get("chatter"):
        Handler.ready_at = 0
    server.serve_forever()


if __name__ == "__main__":
    main()
