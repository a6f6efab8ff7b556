"""Take a picture of a page that is served inside a universe, with a browser that is there too."""

from __future__ import annotations

import html
import re
import shlex
from typing import Any, Final
from urllib.parse import urlsplit

from amplifier_digital_twin.engines.engine import Finished, end_of
from amplifier_digital_twin.evidence import Evidence
from amplifier_digital_twin.profile.model import HttpProbe, Screenshot
from amplifier_digital_twin.readiness import probe_http
from amplifier_digital_twin.universe import Universe

_FOLDER: Final = "/tmp/twin-screenshot"
_MAX_PICTURE: Final = 32 * 1024 * 1024
_NO_BROWSER: Final = 69
#: A picture is a PNG: this, then a header with width and height.
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
#: The browser's own sandbox needs namespaces, which a universe does not allow.
_OPTIONS: Final = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run"
#: The program itself comes first: Debian's `chromium` is a script that needs files of /etc, which not every base has.
BROWSERS: Final = (
    "/usr/lib/chromium/chromium",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
#: How the browser marks the pages that it shows in the place of one it cannot have.
_ITS_OWN: Final = re.compile(r'<body\b[^>]*(class="neterror"|class="ssl" id="body"|id="body" class="ssl")')
_NOT_SHOWN: Final = re.compile(r"<(script|style|template)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
#: The least of the statuses that say that a page is not what was asked for.
_NOT_SERVED: Final = 400


def check_screenshot(
    check: str, wanted: Screenshot, universe: Universe, evidence: Evidence, timeout: float
) -> tuple[list[str], dict[str, Any]]:
    """Take the picture, keep it as evidence, and return what is not as expected."""
    folder = f"{_FOLDER}-{check}"
    finished = _browse(universe, wanted, folder, f"--screenshot={folder}/page.png", timeout)
    if finished.exit_code == _NO_BROWSER:
        return ["no browser in the universe: add chromium to the base's packages"], {}
    found = universe.place.files(f"{folder}/page.png", _MAX_PICTURE)
    pictures = [item.content for item in found if item.kind == "file"]
    if not pictures:
        code = f"(exit code {finished.exit_code}): {end_of(finished.stderr, 500)}"
        why = "in time" if finished.is_timed_out else code
        return [f"the browser made no picture of {wanted.url} {why}"], {}
    name = f"checks/{check}/{wanted.file}"
    details: dict[str, Any] = {"file": name, "bytes": len(pictures[0])}
    problems = judge_picture(pictures[0])
    if not problems:
        evidence.add_bytes(name, pictures[0], is_masked=False)
    page = _browse(universe, wanted, folder, "--dump-dom", timeout)
    faults = judge_page(wanted, page.stdout.decode("utf-8", "replace"))
    return problems + (faults or _judge_status(wanted.url, universe, timeout)), details


def _judge_status(url: str, universe: Universe, timeout: float) -> list[str]:
    """Return why a page is an error page, which can be pictured as well; browsers do not say."""
    if urlsplit(url).scheme != "http":
        return []  # a host that is refused to them is a page of their own
    problem, answer = probe_http(universe, HttpProbe(url=url), timeout)
    return [] if answer is not None and answer.status < _NOT_SERVED else [problem]


def _browse(universe: Universe, wanted: Screenshot, folder: str, action: str, timeout: float) -> Finished:
    place = shlex.quote(folder)
    size = f"--window-size={wanted.width},{wanted.height}"
    lines = [
        f'for name in {shlex.join(BROWSERS)}; do program=$(command -v "$name") && break; done',
        f'test -n "$program" || exit {_NO_BROWSER}',
        # A picture of an earlier run does not count, and the user's home stays as the profile made it.
        f"rm -rf {place}; mkdir -p {place}; export HOME={place}",
        f'exec "$program" {_OPTIONS} {size} --user-data-dir={place}/profile {shlex.join([action, wanted.url])}',
    ]
    return universe.run("\n".join(lines), timeout=timeout)


def judge_picture(content: bytes) -> list[str]:
    """Return why a file is not a picture; empty when it is one."""
    if not content.startswith(_SIGNATURE) or len(content) < 24:
        return ["what the browser wrote is not a picture"]
    width, height = int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    return [] if width and height else ["the picture is empty"]


def judge_page(wanted: Screenshot, page: str) -> list[str]:
    """Return why a page is not the one wanted, or lacks its text; runs of white space count as one space."""
    if not page.strip():
        return [f"the browser did not say what {wanted.url} shows"]
    shown = " ".join(html.unescape(_NOT_SHOWN.sub("", page)).split())
    if _ITS_OWN.search(page):
        why = re.search(r"\bERR_\w+", shown)
        return [f"the browser could not show {wanted.url}" + (f": {why[0]}" if why else "")]
    expected = " ".join((wanted.expect_text or "").split())
    return [] if expected in shown else [f"the page does not show {wanted.expect_text!r}"]
