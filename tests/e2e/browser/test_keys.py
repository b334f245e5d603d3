"""Gateway keys on the page: made, shown once, used, revoked."""

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.browser.conftest import OpenVisit, Scripted, switch_to
from tests.e2e.browser.test_looks import well_made

pytestmark = pytest.mark.timeout(180)


def status(scripted: Scripted, token: str) -> int:
    """Of a request with this key."""
    body = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}
    headers = {"authorization": f"Bearer {token}"}
    url = f"{scripted.daemon.url}/v1/chat/completions"
    return httpx.post(url, json=body, headers=headers).status_code


def key_row(page: Page, name: str) -> Locator:
    return page.locator("tr[data-key]").filter(has_text=name)


@pytest.mark.parametrize("phone", [False, True])
def test_a_key_is_made_shown_once_used_and_revoked(
    scripted: Scripted, visit: OpenVisit, phone: bool
) -> None:
    each = visit(scripted.daemon, phone=phone)
    each.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = each.page()
    if phone:
        switch_to(page, "Keys")
    expect(page.get_by_text("No keys yet.")).to_be_visible()

    page.get_by_role("button", name="Add a key").click()
    form = page.get_by_role("form", name="Add a key")
    form.get_by_label("Name").fill("laptop")
    form.get_by_label("Models", exact=False).first.fill("up/*, qwen*")
    form.get_by_label("Tokens a day").fill("5000")
    form.get_by_label("Local models only").check()
    well_made(page, phone=phone)
    form.get_by_role("button", name="Make the key").click()

    token = page.get_by_test_id("token").inner_text()
    assert token.startswith("ck-")
    well_made(page, phone=phone)
    page.get_by_role("button", name="Copy the key").click()
    assert page.evaluate("navigator.clipboard.readText()") == token
    page.get_by_role("button", name="Done").click()
    assert token not in page.content()
    row = key_row(page, "laptop")
    expect(row).to_contain_text("up/*, qwen* · local only")
    expect(row).to_contain_text("0 of 5,000\u00a0tokens a day")

    assert status(scripted, token) == 200
    expect(row).to_contain_text("7 of 5,000\u00a0tokens a day")

    page.get_by_role("button", name="Revoke laptop").click()
    page.get_by_role("button", name="Keep laptop").click()
    assert status(scripted, token) == 200
    page.get_by_role("button", name="Revoke laptop").click()
    well_made(page, phone=phone)
    page.get_by_role("button", name="Yes, revoke laptop").click()
    expect(row).to_have_count(0)
    assert status(scripted, token) == 401


def test_a_name_that_is_taken_is_told_and_the_form_keeps_what_was_typed(
    scripted: Scripted, visit: OpenVisit
) -> None:
    headers = scripted.daemon.headers
    httpx.post(f"{scripted.daemon.url}/api/keys", json={"name": "laptop"}, headers=headers)
    page = visit(scripted.daemon).page()
    page.get_by_role("button", name="Add a key").click()
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Make the key").click()
    expect(page.get_by_role("alert")).to_contain_text("There is a key named 'laptop' already")
    expect(page.get_by_label("Name")).to_have_value("laptop")
