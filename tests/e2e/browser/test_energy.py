"""The energy of a request stands with its speed, an estimate marked, an unknown one not at all."""

import re

import pytest
from playwright.sync_api import Route, expect

from tests.e2e.browser.conftest import OpenVisit, Scripted, post, switch_to

pytestmark = pytest.mark.timeout(180)

ENERGY = {
    "energy_j": 14.5,
    "energy_gpu_j": 12.25,
    "energy_cpu_j": 2.25,
    "energy": "estimated",
    "tok_per_j": 3.5,
}


@pytest.mark.parametrize("phone", [True, False], ids=["phone", "desktop"])
def test_energy_is_shown_with_the_speed(scripted: Scripted, visit: OpenVisit, phone: bool) -> None:
    for question in ("one", "two"):
        post(scripted.daemon, question)

    def told(route: Route) -> None:
        answer = route.fetch()
        requests = answer.json()
        requests["recent"][0].update(ENERGY)
        route.fulfill(response=answer, json=requests)

    here = visit(scripted.daemon, phone=phone)
    here.context.route("**/api/requests*", told)
    page = here.page()
    if phone:
        switch_to(page, "Requests")
    rows = page.get_by_role("table", name="Finished").get_by_role("row")
    shown = rows.get_by_title("Energy above idle")
    expect(shown).to_have_text(re.compile(r"^~14\.5\sJ$"))
    parts = r"GPU ~12\.3\sJ, CPU ~2\.25\sJ, ~3\.50\stok/J$"
    expect(shown).to_have_attribute("title", re.compile(parts))
