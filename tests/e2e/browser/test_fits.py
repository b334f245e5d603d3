"""What fits the machine, at each model's row, and kept true."""

from pathlib import Path

import pytest
from cerberus_llamacpp.testing import copy_gguf
from playwright.sync_api import expect

from tests.e2e.browser.conftest import OpenVisit, row
from tests.e2e.conftest import start_daemon, stop_daemon

pytestmark = pytest.mark.timeout(180)


def test_a_row_says_what_stands_in_the_way_once_another_model_is_loaded(
    tmp_path: Path,
    engine_config: str,
    models_folder: Path,
    starter_model: Path,
    visit: OpenVisit,
) -> None:
    copy_gguf(starter_model, models_folder / "other.gguf", {})
    daemon = start_daemon(tmp_path, f"{engine_config}[engines]\nmax_loaded = 1\n")
    try:
        page = visit(daemon).page()
        other = row(page, "other")
        expect(other).to_have_attribute("data-state", "unloaded")
        expect(other).not_to_contain_text("leaves for it")
        page.get_by_role("button", name="Load smol", exact=True).click()
        expect(row(page, "smol")).to_have_attribute("data-state", "ready", timeout=30_000)
        expect(other).to_contain_text("1\u00a0model leaves for it")
        expect(row(page, "smol")).not_to_contain_text("leaves for it")
    finally:
        stop_daemon(daemon)
