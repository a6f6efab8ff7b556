"""Whether services inside a universe answer: signs of readiness, and requests made from outside."""

from __future__ import annotations

import http.client
import io
import json
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from amplifier_digital_twin.engines.engine import end_of
from amplifier_digital_twin.profile.model import HttpProbe, Readiness

if TYPE_CHECKING:
    from amplifier_digital_twin.universe import Universe

MAX_BODY: Final = 4 * 1024 * 1024
#: How long a single look may take, where the sign's own time is not shorter.
_LOOK: Final = 10.0
_INSIDE: Final = ("localhost", "127.0.0.1")


class Answer(NamedTuple):
    """The answer of an HTTP server."""

    status: int
    body: bytes


def wait_ready(universe: Universe, item: Readiness, *, once: bool) -> dict[str, Any]:
    """Look at a sign until it is there or its time is up; `once`: look a single time."""
    begin = time.monotonic()
    attempts = 0
    while True:
        attempts += 1
        left = item.timeout - (time.monotonic() - begin)
        problem = _problem(universe, item, max(min(left, _LOOK), 0.1))
        spent = time.monotonic() - begin
        if not problem or once or attempts == item.retries or spent + item.interval >= item.timeout:
            times = {"attempts": attempts, "seconds": round(spent, 3)}
            return {"name": item.name, "ready": not problem, "reason": problem, **times}
        universe.time_left()
        time.sleep(item.interval)


def _problem(universe: Universe, item: Readiness, timeout: float) -> str:
    """Return why a sign is missing; empty when it is there."""
    if item.http is not None:
        return probe_http(universe, item.http, timeout)[0]
    if item.tcp is not None:
        done = universe.run(["socat", "-u", "OPEN:/dev/null", f"TCP:127.0.0.1:{item.tcp}"], timeout=timeout)
        return "" if done.exit_code == 0 else f"nothing listens on port {item.tcp}"
    assert item.command is not None
    done = universe.run(item.command, timeout=timeout)
    if done.is_timed_out:
        return f"the command was not done after {timeout:g} s"
    words = end_of(done.stderr or done.stdout, 300)
    return f"the command's exit code is {done.exit_code}: {words}" if done.exit_code else ""


def probe_http(universe: Universe, probe: HttpProbe, timeout: float) -> tuple[str, Answer | None]:
    """Ask a server inside, and return why its answer is not the expected one (empty when it is), and the answer."""
    from amplifier_digital_twin.checks import difference

    answer = _get(universe, probe.url, timeout)
    if answer is None:
        return f"{probe.url}: no answer", None
    if probe.expect_status is None and not 200 <= answer.status < 300:
        return f"{probe.url}: the status is {answer.status}, not a success", answer
    if probe.expect_status is not None and answer.status != probe.expect_status:
        return f"{probe.url}: the status is {answer.status}, not {probe.expect_status}", answer
    if probe.expect_text is not None and probe.expect_text not in answer.body.decode("utf-8", "replace"):
        return f"{probe.url}: the answer does not contain {probe.expect_text!r}", answer
    if probe.expect_json is None:
        return "", answer
    try:
        found = difference(probe.expect_json, json.loads(answer.body))
    except (ValueError, RecursionError):
        found = "the answer is not JSON"
    return (f"{probe.url}: {found}" if found else ""), answer


def _get(universe: Universe, url: str, timeout: float) -> Answer | None:
    """Make one GET request through a command inside; None without an answer of HTTP."""
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    address = f"127.0.0.1:{parts.port or 80}"
    if parts.hostname not in _INSIDE:
        # Other hosts are asked through the universe's proxy, as programs inside would.
        path, address = f"http://{parts.netloc}{path}", "127.0.0.1:8080"
    request = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: */*\r\nConnection: close\r\n\r\n".encode()
    argv = ["socat", f"-t{timeout:g}", "-", f"TCP:{address}"]
    done = universe.run(argv, timeout=timeout, stdin=request)
    try:
        response = http.client.HTTPResponse(_Received(done.stdout))  # type: ignore[arg-type]  # all it does is makefile
        response.begin()
        return Answer(response.status, response.read(MAX_BODY))
    except (http.client.HTTPException, OSError):
        return None


class _Received:
    """The part of a socket that reading a response needs."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)
