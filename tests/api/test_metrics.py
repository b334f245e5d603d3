"""GET /metrics of a whole daemon, the page in docs/metrics.md and the dashboard for Grafana."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from cerberus_core.testing import ScriptedServer
from tests.conftest import Box, StartBox, endpoint
from tests.gateway.test_energy import METERS
from tests.loading.conftest import Site, site

__all__ = ["site"]

pytestmark = pytest.mark.anyio

DOCS = Path(__file__).parents[2] / "docs"
ASK: dict[str, Any] = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}
PRICES = '[prices."up/m"]\ninput = 1.0\noutput = 2.0\n'
STRANGE = ["gemma:27b", "org/name:Q4_K_M", "a b", "模型", "M", "m"]


async def scrape(box: Box) -> str:
    answer = await box.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return answer.text


def families(text: str) -> dict[str, set[str]]:
    """Every metric, as PromQL names it → its labels; those that have no value yet have none."""
    found: dict[str, set[str]] = {}
    for family in parse(text):
        ends = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
        for end in ends.get(family.type, [""]):
            found.setdefault(family.name + end, set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


async def test_one_request_is_counted_with_its_figures(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    more = 'local = false\n[energy]\ncurrency = "CHF"\n'
    async with start_box(endpoint(upstream, more=more) + PRICES) as box:
        await box.http.post("/v1/chat/completions", json=ASK)
        record = await box.record()
        text = await scrape(box)
    path = "/v1/chat/completions"
    lines = text.splitlines()
    assert f'cerberus_requests_total{{model="up/m",path="{path}",status="200"}} 1.0' in lines
    assert f'cerberus_prompt_tokens_total{{model="up/m"}} {record.prompt_tokens}.0' in lines
    assert f'cerberus_completion_tokens_total{{model="up/m"}} {record.completion_tokens}.0' in lines
    assert re.search(r'^cerberus_cost_total\{currency="CHF",model="up/m"\} ', text, re.MULTILINE)
    assert 'cerberus_request_duration_seconds_count{model="up/m"} 1.0' in lines
    assert "cerberus_requests_in_flight 0.0" in lines
    assert 'cerberus_memory_total_bytes{pool="host"}' in text


async def test_two_daemons_of_one_process_share_no_figure(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    for _ in range(2):
        async with start_box(endpoint(upstream)) as box:
            assert "cerberus_requests_total{" not in await scrape(box)
            await box.http.post("/v1/chat/completions", json=ASK)
            assert "cerberus_requests_total{" in await scrape(box)


async def test_only_the_owner_may_read_it(box: Box) -> None:
    made = (await box.http.post("/api/keys", json={"name": "laptop"})).json()
    for headers in ({"authorization": f"Bearer {made['token']}"}, {"authorization": ""}):
        answer = await box.http.get("/metrics", headers=headers)
        assert answer.status_code == 401
        assert "cerberus_requests" not in answer.text
    assert (await box.http.head("/metrics")).content == b""


async def test_g33_every_name_is_a_label_and_unknown_ones_are_one(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    async with start_box(endpoint(upstream, models=STRANGE)) as box:
        for name in STRANGE:
            await box.http.post("/v1/chat/completions", json={**ASK, "model": f"up/{name}"})
        for number in range(20):
            await box.http.post("/v1/chat/completions", json={**ASK, "model": f"up/no{number}"})
        text = await scrape(box)
    asked = {
        sample.labels["model"]: sample.value
        for family in parse(text)
        for sample in family.samples
        if sample.name == "cerberus_requests_total"
    }
    assert asked == {**{f"up/{name}": 1 for name in STRANGE}, "unknown": 20}


async def test_what_keys_were_refused_is_counted(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    async with start_box(endpoint(upstream)) as box:
        wanted = {"name": "laptop", "models": ["else/*"]}
        made = (await box.http.post("/api/keys", json=wanted)).json()
        for token, status in ((made["token"], 403), (made["token"][:-4] + "xxxx", 401)):
            headers = {"authorization": f"Bearer {token}"}
            answer = await box.http.post("/v1/chat/completions", json=ASK, headers=headers)
            assert answer.status_code == status
        text = await scrape(box)
    lines = text.splitlines()
    for key, code in (("laptop", "model_not_allowed"), ("", "unauthenticated")):
        assert f'cerberus_key_refusals_total{{code="{code}",key="{key}"}} 1.0' in lines


async def test_the_dashboard_and_the_page_name_what_there_is(
    start_box: StartBox, upstream: ScriptedServer, site: Site
) -> None:
    site.add("meters", METERS)
    async with start_box(endpoint(upstream)) as box:
        await box.http.post("/v1/chat/completions", json=ASK)
        await box.record()
        there = families(await scrape(box))
    asked = [name for query in queries() for name in names(query)]
    assert len(set(asked)) > 20
    assert [name for name in asked if name not in there] == []
    page = (DOCS / "metrics.md").read_text("utf-8")
    rows = re.findall(r"^\| `(cerberus_\w+)` \| ([\w, ]*?) ?\|", page, re.MULTILINE)
    told = {name: set(labels.split(", ")) - {""} for name, labels in rows}
    kept = {plain(name): labels - {"le"} for name, labels in there.items()}
    assert sorted(told) == sorted(name for name in kept if name.startswith("cerberus_"))
    for name, labels in told.items():
        assert kept[name] <= labels, name
    for query in queries():
        labels = set().union(*(told.get(plain(name), set()) for name in names(query)))
        assert used_labels(query) <= labels | {"instance", "le"}, query


def test_the_dashboard_takes_any_prometheus() -> None:
    dashboard = json.loads((DOCS / "grafana.json").read_text("utf-8"))
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == (
        "datasource",
        "prometheus",
    )
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    for place in [*panels, *[target for panel in panels for target in panel["targets"]]]:
        assert place["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert dashboard.get("id") is None


def test_the_client_is_imported_by_the_first_scrape_alone() -> None:
    code = (
        "import sys, cerberus_core.daemon, cerberus_core.api.app, cerberus_core.cli\n"
        "from cerberus_core.metrics import Tallies\n"
        "print('prometheus_client' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def queries() -> Iterator[str]:
    """Every PromQL expression of the dashboard, those of its variables included."""
    dashboard = json.loads((DOCS / "grafana.json").read_text("utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def plain(name: str) -> str:
    """A histogram's name of one of its series."""
    return re.sub(r"_(bucket|sum|count)$", "", name)


def names(query: str) -> list[str]:
    return re.findall(r"\b(?:cerberus|process)_\w+", query)


def used_labels(query: str) -> set[str]:
    """Those that it groups or selects by."""
    grouped = re.findall(r"\b(?:by|on|group_left) ?\(([\w, ]*)\)", query)
    selected = re.findall(r"[{,] ?(\w+) ?(?:=|!=|=~|!~) ?\"", query)
    return {label.strip() for part in grouped for label in part.split(",") if label} | {*selected}
