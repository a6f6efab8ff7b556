"""Pictures of pages served inside."""

from __future__ import annotations

import os
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.checks import screenshot
from amplifier_digital_twin.checks.screenshot import check_screenshot, judge_page, judge_picture
from amplifier_digital_twin.profile.model import Check, Screenshot, User

_PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x01"


def _with_path(context: Any, folder: Path) -> Any:
    """Return the context for a universe in which there is nothing but a shell's tools and what the folder holds."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("cat", "mkdir", "rm"):
        os.symlink(shutil.which(name) or "", tools / name)
    environment = {"PATH": f"{folder}:{tools}"}

    def own(user: User) -> dict[str, str]:
        return environment

    return replace(context, environment=own)


@pytest.fixture
def own_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only a browser on the path be found."""
    monkeypatch.setattr(screenshot, "BROWSERS", ("chromium",))


def _browser(folder: Path, script: str) -> None:
    program = folder / "chromium"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def _painter(folder: Path, page: str = "<p>something</p>") -> None:
    """Make a browser that paints the same picture of every page, and shows the same text."""
    (folder / "picture").write_bytes(_PICTURE)
    paint = f'--screenshot=*) cat {folder}/picture > "${{a#*=}}";; --dump-dom) echo "{page}";;'
    _browser(folder, f'for a; do case "$a" in {paint} esac; done')


@pytest.mark.usefixtures("own_browser")
async def test_no_browser_is_said(context: Any, tmp_path: Path) -> None:
    """What is missing is named with what to do."""
    check = Check("page", screenshot=Screenshot("http://localhost/"))
    problems, _ = await check_screenshot(check, _with_path(context, tmp_path))
    assert problems == ["there is no browser in the universe: add chromium to the base's packages"]


@pytest.mark.usefixtures("own_browser")
async def test_a_picture_is_kept_byte_by_byte(context: Any, tmp_path: Path, server: str) -> None:
    """What the browser wrote is the evidence."""
    _painter(tmp_path)
    check = Check("page", screenshot=Screenshot(server, "start.png"))
    problems, details = await check_screenshot(check, _with_path(context, tmp_path))
    assert problems == []
    assert details == {"file": "checks/page/start.png", "bytes": len(_PICTURE)}
    assert (context.evidence.folder / "checks" / "page" / "start.png").read_bytes() == _PICTURE


@pytest.mark.usefixtures("own_browser")
async def test_a_browser_that_fails_is_a_problem(context: Any, tmp_path: Path) -> None:
    """Its last words are the reason, and a picture of an earlier run does not help it."""
    earlier = context.twin.root / "tmp" / "twin-screenshot-page"
    earlier.mkdir()
    (earlier / "page.png").write_bytes(_PICTURE)
    _browser(tmp_path, "echo no display >&2; exit 1")
    check = Check("page", screenshot=Screenshot("http://localhost/"))
    problems, _ = await check_screenshot(check, _with_path(context, tmp_path))
    assert problems == ["the browser made no picture of http://localhost/ (exit code 1): no display"]


@pytest.mark.usefixtures("own_browser")
async def test_a_page_that_nobody_can_tell_of_is_a_problem(context: Any, tmp_path: Path, server: str) -> None:
    """A picture alone does not say whether it is of that page."""
    _painter(tmp_path, page="")
    check = Check("page", screenshot=Screenshot(server))
    problems, _ = await check_screenshot(check, _with_path(context, tmp_path))
    assert problems == [f"the browser did not say what {server} shows"]


def test_what_is_no_picture_is_refused() -> None:
    """A file of that name is not enough."""
    assert judge_picture(_PICTURE) == []
    assert judge_picture(b"<html>") == ["what the browser wrote is no picture"]
    assert judge_picture(_PICTURE[:16] + b"\0" * 8) == ["the picture is empty"]


@pytest.mark.parametrize(
    ("text", "is_shown"), [("Hello & welcome", True), ("Hello\n  &", True), ("var hidden", False), ("h1", False)]
)
def test_text_is_what_a_reader_sees(text: str, is_shown: bool) -> None:
    """Neither tags nor scripts count, and white space is only white space."""
    page = "<h1>Hello\n &amp; <b>welcome</b></h1><script>var hidden</script>"
    assert (judge_page(Screenshot("u", expect_text=text), page) == []) == is_shown


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        (
            '<body class="neterror">gone <b>ERR_CONNECTION_REFUSED</b>',
            ["the browser could not show u: ERR_CONNECTION_REFUSED"],
        ),
        ('<body id="body" class="ssl">your connection is not private', ["the browser could not show u"]),
        ('<body class="ssl">about certificates', []),
        ("<p>what neterror means</p>", []),
    ],
)
def test_pages_of_the_browser_itself_are_none(body: str, problems: list[str]) -> None:
    """What it shows because a page cannot be had is not that page, and its reason is told."""
    assert judge_page(Screenshot("u"), f"<html>{body}</html>") == problems


@pytest.mark.usefixtures("own_browser")
async def test_a_picture_of_a_refusal_is_a_problem(context: Any, tmp_path: Path, server: str) -> None:
    """A page that was answered with a fault is no success, and its picture is kept for whoever wants to know why."""
    _painter(tmp_path)
    inside, seen = _with_path(context, tmp_path), {}
    for path in ("/absent", "/moved"):
        check = Check("page", screenshot=Screenshot(server + path))
        seen[path] = (await check_screenshot(check, inside))[0]
    assert seen == {"/absent": [f"{server}/absent: the status is 404, not a success"], "/moved": []}
    assert (context.evidence.folder / "checks" / "page" / "page.png").read_bytes() == _PICTURE


@pytest.mark.skipif(not any(map(shutil.which, screenshot.BROWSERS)), reason="there is no chromium on this machine")
async def test_a_real_browser_takes_a_picture(context: Any, server: str) -> None:
    """A page is drawn in the size that was asked for, and its text is found."""
    check = Check("page", screenshot=Screenshot(server, width=320, height=200, expect_text="Hello & welcome"))
    problems, _ = await check_screenshot(check, context)
    assert problems == []
    picture = (context.evidence.folder / "checks" / "page" / "page.png").read_bytes()
    assert (int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")) == (320, 200)
    check = Check("page", screenshot=Screenshot(server, expect_text="Farewell"))
    assert (await check_screenshot(check, context))[0] == ["the page does not show 'Farewell'"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        check = Check("page", screenshot=Screenshot(f"http://127.0.0.1:{taken.getsockname()[1]}/"))
        problems, _ = await check_screenshot(check, context)
    assert len(problems) == 1
    assert "ERR_CONNECTION_REFUSED" in problems[0]
