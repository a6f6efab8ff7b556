"""Take a picture of a page that is served inside a twin, with a browser that is there too."""

from __future__ import annotations

import re
import shlex
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import urlsplit

from amplifier_digital_twin.backends.twin import Finished, Run
from amplifier_digital_twin.checks.context import CheckContext
from amplifier_digital_twin.checks.http import check_http
from amplifier_digital_twin.checks.inside import find_inside
from amplifier_digital_twin.profile.model import Check, HttpProbe, Screenshot, User

_FOLDER: Final = "/tmp/twin-screenshot"
_MAX_PICTURE: Final = 32 * 1024 * 1024
_NO_BROWSER: Final = 69
#: A picture is a PNG: this, then a header with width and height.
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
#: The browser's own walls need namespaces, which a universe does not allow: the universe is the wall.
_OPTIONS: Final = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run"
#: The program itself comes first: Debian's `chromium` is a script that needs files of /etc, which not every base has.
BROWSERS: Final = (
    "/usr/lib/chromium/chromium",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
#: How the browser marks the pages that it shows in the place of one it cannot have: `class` and `id` of their body.
_ITS_OWN: Final = (("neterror", ""), ("ssl", "body"))
#: The least of the statuses that say that a page is not what was asked for.
_NOT_SERVED: Final = 400


async def check_screenshot(check: Check, context: CheckContext) -> tuple[list[str], dict[str, Any]]:
    """Take the picture, keep it as evidence, and return what is not as expected."""
    assert check.screenshot is not None
    wanted = check.screenshot
    folder = f"{_FOLDER}-{check.name}"
    finished = await _browse(context, check, folder, f"--screenshot={folder}/page.png")
    if finished.exit_code == _NO_BROWSER:
        return ["there is no browser in the universe: add chromium to the base's packages"], {}
    found = await find_inside(context.twin, context.user, f"{folder}/page.png", _MAX_PICTURE)
    pictures = [item.content for item in found if item.kind == "file"]
    if not pictures:
        words = finished.stderr[-500:].decode("utf-8", "replace").strip()
        why = "in time" if finished.is_timed_out else f"(exit code {finished.exit_code}): {words}"
        return [f"the browser made no picture of {wanted.url} {why}"], {}
    name = f"checks/{check.name}/{wanted.file}"
    details: dict[str, Any] = {"file": name, "bytes": len(pictures[0])}
    problems = judge_picture(pictures[0])
    if not problems:
        # Pixels are no text: a secret cannot be replaced in them, and a changed byte would spoil the picture.
        context.evidence.add_picture(name, pictures[0])
    page = await _browse(context, check, folder, "--dump-dom")
    faults = judge_page(wanted, page.stdout.decode("utf-8", "replace"))
    return problems + (faults or await _judge_status(wanted.url, context, check.timeout)), details


async def _judge_status(url: str, context: CheckContext, timeout: float) -> list[str]:
    """Return why a page is a refusal or a fault, which can be pictured as well; browsers do not tell."""
    if urlsplit(url).scheme != "http":
        return []  # a host that is refused to them is a page of their own
    problem, answer = await check_http(HttpProbe(url), context.sockets, timeout)
    return [] if answer is not None and answer.status < _NOT_SERVED else [problem]


async def _browse(context: CheckContext, check: Check, folder: str, action: str) -> Finished:
    assert check.screenshot is not None
    wanted, user, place = check.screenshot, context.user, shlex.quote(folder)
    size = f"--window-size={wanted.width},{wanted.height}"
    lines = [
        f'for name in {shlex.join(BROWSERS)}; do program=$(command -v "$name") && break; done',
        f'test -n "$program" || exit {_NO_BROWSER}',
        # A picture of an earlier run is none of this one, and the user's home stays as the profile made it.
        f"rm -rf {place}; mkdir -p {place}; export HOME={place}",
        f'exec "$program" {_OPTIONS} {size} --user-data-dir={place}/profile {shlex.join([action, wanted.url])}',
    ]
    script = "\n".join(lines)
    return await context.twin.run(_run(script, context, user, check.timeout))


def _run(script: str, context: CheckContext, user: User, timeout: float) -> Run:
    return Run(["/bin/sh", "-c", script], context.environment(user), user, user.home, timeout=timeout)


def judge_picture(content: bytes) -> list[str]:
    """Return why a file is no picture; nothing when it is one."""
    if not content.startswith(_SIGNATURE) or len(content) < 24:
        return ["what the browser wrote is no picture"]
    width, height = int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    return [] if width and height else ["the picture is empty"]


def judge_page(wanted: Screenshot, page: str) -> list[str]:
    """Return why a page is not the one wanted, or lacks its text; runs of white space count as one space."""
    if not page.strip():
        return [f"the browser did not say what {wanted.url} shows"]
    reader = _Reader()
    reader.feed(page)
    shown = " ".join("".join(reader.texts).split())
    if reader.body in _ITS_OWN:
        why = re.search(r"\bERR_\w+", shown)
        return [f"the browser could not show {wanted.url}" + (f": {why[0]}" if why else "")]
    expected = " ".join((wanted.expect_text or "").split())
    return [] if expected in shown else [f"the page does not show {wanted.expect_text!r}"]


class _Reader(HTMLParser):
    """Collects the text of a page, without scripts and styles."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        #: `class` and `id` of its body.
        self.body = ("", "")
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "body":
            marks = dict(attrs)
            self.body = (marks.get("class") or "", marks.get("id") or "")
        self._hidden += tag in ("script", "style", "template")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style", "template") and self._hidden > 0

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.texts.append(data)
