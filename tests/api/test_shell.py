"""The page's files: nothing beside them can be asked for (U05, U06), and no script runs in them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from anyio.to_thread import run_sync as in_thread

from cerberus_core.api import shell as shell_module
from tests.api.wires import Raw, bearer, raw
from tests.conftest import Box, StartBox

pytestmark = pytest.mark.anyio


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A served folder with dangerous neighbours."""
    folder = tmp_path / "x" / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>page</title>" + " " * 2000)
    (folder / "assets" / "app-1a2b.js").write_text("let x = 1;" * 300)
    (folder / "icon.svg").write_text("<svg/>")
    (tmp_path / "x" / "static_secret").mkdir()
    (tmp_path / "x" / "static_secret" / "key.txt").write_text("SECRET")
    (tmp_path / "x" / "static1.txt").write_text("SECRET")
    (tmp_path / "outside.txt").write_text("SECRET")
    return folder


@pytest.fixture
async def box(
    start_box: StartBox, site: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Box]:
    from cerberus_core.daemon import serving

    monkeypatch.setattr(serving, "build", lambda services: build(services, web_dist=site))
    async with start_box() as running:
        yield running


def build(*args: Any, **more: Any) -> Any:
    from cerberus_core.api import build as real

    return real(*args, **more)


TRICKS = [
    "/../static_secret/key.txt",
    "/../static1.txt",
    "/assets/../../static1.txt",
    "/%2e%2e/static1.txt",
    "/%2e%2e%2fstatic1.txt",
    "/..%2fstatic1.txt",
    "/..%5cstatic1.txt",
    "/..\\static1.txt",
    "/%252e%252e/static1.txt",
    "/%252e%252e%252fstatic1.txt",
    "/assets/%2e%2e/%2e%2e/static1.txt",
    "/_secret/key.txt",
    "_secret/key.txt",
    "/index.html%00.txt",
    "/%00",
    "/assets/",
    "/assets",
    "/./../static1.txt",
]
ABSOLUTE = [
    "//etc/passwd",
    "///etc/passwd",
    "/%2Fetc%2Fpasswd",
    "/assets//etc/passwd",
    "/assets/%2Fetc/passwd",
    "/~/x",
    "/~root/.profile",
    "/file:///etc/passwd",
    "/C:/Windows/win.ini",
]


async def nothing_comes(box: Box, target: str) -> None:
    """For nobody, and not for who may see all else either."""
    stranger = await raw(box, target)
    known = await raw(box, target, lines=[bearer(box)])
    refused = (403, 404) if target.startswith("/") else (400,)  # which is no HTTP at all
    assert stranger.status in (401, *refused), target
    assert known.status in refused, target
    for answer in (stranger, known):
        nothing_came(answer)


def nothing_came(answer: Raw) -> None:
    assert b"SECRET" not in answer.body
    assert b"root:" not in answer.body


async def test_u05_no_path_leads_beside_the_served_folder(box: Box) -> None:
    for target in TRICKS:
        await nothing_comes(box, target)


async def test_u06_no_absolute_path_is_taken(box: Box) -> None:
    for target in ABSOLUTE:
        await nothing_comes(box, target)


async def test_u05_a_link_to_outside_is_no_file_of_the_page(site: Path, tmp_path: Path) -> None:
    (site / "link.txt").symlink_to(tmp_path / "outside.txt")
    (site / "folder").symlink_to(tmp_path / "x" / "static_secret")
    (site / "inside.svg").symlink_to(site / "icon.svg")
    shell = await in_thread(shell_module.Shell, site)
    assert "/link.txt" not in shell
    assert "/folder/key.txt" not in shell
    assert "/inside.svg" in shell


async def test_the_files_themselves_are_there_for_everybody(box: Box) -> None:
    for path in ("/", "/index.html", "/icon.svg", "/assets/app-1a2b.js", "/?x=1", "/%69con.svg"):
        answer = await raw(box, path)
        assert answer.status == 200, path
    missing = await raw(box, "/assets/gone.js")
    assert missing.status == 401


async def test_u04_every_file_forbids_inline_script_and_framing(box: Box) -> None:
    for path in ("/", "/icon.svg", "/assets/app-1a2b.js"):
        headers = (await raw(box, path)).headers
        policy = dict(
            part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


async def test_the_built_assets_are_kept_and_the_page_is_looked_for_anew(box: Box) -> None:
    assert "immutable" in (await raw(box, "/assets/app-1a2b.js")).headers["cache-control"]
    assert (await raw(box, "/")).headers["cache-control"] == "no-cache"


async def test_it_is_packed_for_who_takes_that(box: Box) -> None:
    packed = await raw(box, "/", lines=["accept-encoding: gzip, br"])
    plain = await raw(box, "/")
    refused = await raw(box, "/", lines=["accept-encoding: gzip;q=0"])
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in refused.headers
    assert len(packed.body) < len(plain.body)


async def test_only_reading_is_possible(box: Box) -> None:
    for method in ("POST", "PUT", "DELETE"):
        answer = await raw(box, "/index.html", method=method, lines=["content-length: 0"])
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_a_checkout_without_the_built_page_says_so(
    start_box: StartBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cerberus_core.daemon import serving

    empty = tmp_path / "nothing"
    monkeypatch.setattr(serving, "build", lambda services: build(services, web_dist=empty))
    async with start_box() as running:
        answer = await raw(running, "/")
    assert answer.status == 200
    assert b"scripts/web build" in answer.body
