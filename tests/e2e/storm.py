"""A storm of requests: who asks, what is watched meanwhile, and the table at its end."""

import asyncio
import contextlib
import json
import math
import random
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import httpx
import psutil

EVERY_S = 0.02
_MIB = 1 << 20


@attrs.define
class Outcome:
    """How one request ended: `answered`, `left`, a code of ours, or what else came."""

    model: str
    how: str
    status: int | None
    wait_s: float
    retry_after: str | None = None


class Watch(threading.Thread):
    """Looks at the engines below a process again and again, until `done`."""

    def __init__(self, daemon: int, told: Callable[[], Mapping[str, int]]) -> None:
        """`told`: what the stand-ins say that their models hold, in MiB."""
        super().__init__(daemon=True)
        self._root = psutil.Process(daemon)
        self._told = told
        self.done = threading.Event()
        self.samples = 0
        self.peak_mib = 0
        self.at_peak: dict[str, int] = {}
        self.each: dict[str, int] = {}
        """Model → the most that it held."""
        self.engines: dict[str, set[int]] = defaultdict(set)
        """Model → the engines it ever had."""
        self.twice: list[str] = []
        self.checked: list[tuple[float, float]] = []
        """What was counted of an engine, and what its mappings add up to; in MiB."""
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.done.wait(EVERY_S):
                self._look()
        except BaseException as error:  # noqa: BLE001 the test tells it
            self.fault = error

    def _check(self, pid: int, held_mib: float) -> None:
        """What the kernel says of its single mappings must be near what was counted."""
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/smaps").read_text()
            kib = sum(int(line.split()[1]) for line in text.splitlines() if line[:4] == "Rss:")
            self.checked.append((held_mib, kib / 1024))

    def _look(self) -> None:
        now: Counter[str] = Counter(self._told())
        seen: Counter[str] = Counter()
        for process in self._root.children(recursive=True):
            try:
                line = process.cmdline()
                held = process.memory_info().rss / _MIB
            except psutil.Error:
                continue
            if "cerberus_llamacpp.engine" in line and held:
                model = json.loads(line[-1])["alias"]
                self.engines[model].add(process.pid)
                now[model] += math.ceil(held)
                seen[model] += 1
                if self.samples % 50 == 0:
                    self._check(process.pid, held)
        self.samples += 1
        self.twice += [model for model, count in seen.items() if count > 1]
        for model, mib in now.items():
            self.each[model] = max(mib, self.each.get(model, 0))
        if now.total() > self.peak_mib:
            self.peak_mib, self.at_peak = now.total(), dict(now)


@attrs.define
class Storm:
    """`clients` at a time, each asking for one model after the other."""

    url: str
    headers: Mapping[str, str]
    models: list[str]
    requests: int
    clients: int
    dice: random.Random = attrs.field(factory=lambda: random.Random(7))
    outcomes: list[Outcome] = attrs.field(factory=list)

    async def rage(self) -> None:
        left = [self._wish() for _ in range(self.requests)]
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        async with httpx.AsyncClient(
            base_url=self.url, headers=dict(self.headers), timeout=120, limits=limits
        ) as http:

            async def client() -> None:
                while left:
                    outcome = await self._one(http, *left.pop())
                    self.outcomes.append(outcome)
                    if outcome.how == "overloaded":
                        await asyncio.sleep(0.2)

            async with asyncio.TaskGroup() as tasks:
                for _ in range(self.clients):
                    tasks.create_task(client())

    def _wish(self) -> tuple[dict[str, Any], float | None]:
        """What is asked, and the seconds after which its client leaves."""
        leaves = self.dice.uniform(0.02, 1.2) if self.dice.random() < 0.1 else None
        stream = self.dice.random() < 0.6
        body = {
            "model": self.dice.choice(self.models),
            "messages": [{"role": "user", "content": f"Count to {self.dice.randint(2, 99)}."}],
            "max_tokens": 200 if leaves else self.dice.randint(1, 4),
            "stream": stream,
        }
        return body, leaves

    async def _one(
        self, http: httpx.AsyncClient, body: dict[str, Any], leaves: float | None
    ) -> Outcome:
        began = time.monotonic()
        outcome = Outcome(body["model"], "?", None, 0.0)
        try:
            async with asyncio.timeout(leaves):
                async with http.stream("POST", "/v1/chat/completions", json=body) as answer:
                    outcome.status = answer.status_code
                    outcome.retry_after = answer.headers.get("retry-after")
                    text = ""
                    async for piece in answer.aiter_text():
                        text += piece
                        if not outcome.wait_s and "{" in text:  # no comment
                            outcome.wait_s = time.monotonic() - began
            outcome.how = _how(answer.status_code, text, stream=body["stream"])
        except TimeoutError:
            outcome.how = "left"
        except httpx.HTTPError as error:
            outcome.how = f"broken off: {type(error).__name__}"
        return outcome

    def table(self, rows: Mapping[str, Mapping[str, object]]) -> str:
        """A line for each model: how its requests ended, the waits, and what `rows` adds."""
        lines = [
            f"{'model':24} {'asked':>5} {'answered':>8} {'left':>4} {'p50 s':>6} {'p95 s':>6}  "
            + " ".join(f"{name:>9}" for name in next(iter(rows.values())))
            + "  refused"
        ]
        for model in self.models:
            mine = [one for one in self.outcomes if one.model == model]
            ways = Counter(one.how for one in mine)
            waits = sorted(one.wait_s for one in mine if one.how == "answered") or [0.0]
            refused = {k: v for k, v in ways.items() if k not in ("answered", "left")}
            lines.append(
                f"{model:24} {len(mine):>5} {ways['answered']:>8} {ways['left']:>4} "
                f"{statistics.median(waits):>6.2f} {waits[int(len(waits) * 0.95)]:>6.2f}  "
                + " ".join(f"{value!s:>9}" for value in rows[model].values())
                + f"  {', '.join(f'{k} {v}' for k, v in refused.items()) or '-'}"
            )
        return "\n".join(lines)


def _how(status: int, text: str, *, stream: bool) -> str:
    """`answered` for a whole one only; else the code of the error."""
    if status != 200:
        return str(json.loads(text)["error"]["code"])
    if not stream:
        finish = json.loads(text)["choices"][0]["finish_reason"]
        return "answered" if finish in ("stop", "length") else "no finish"
    events = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    values = [json.loads(event) for event in events if event != "[DONE]"]
    errors = [value["error"]["code"] for value in values if "error" in value]
    if errors:
        return f"{errors[0]} in a stream" if "[DONE]" not in events else "DONE after an error"
    finished = any(c.get("finish_reason") for v in values for c in v.get("choices", ()))
    done = events.count("[DONE]") == 1 and events[-1] == "[DONE]"
    return "answered" if finished and done else "cut off"
