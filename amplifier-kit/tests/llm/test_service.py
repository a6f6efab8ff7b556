"""The scripted service: it answers and refuses as real ones do, and runs as a program."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import httpx2
import pytest

from amplifier_testing.llm import ModelServer
from amplifier_testing.llm.service import PROTOCOLS, Service

KEY = "sk-right-0123456789"


def _asked(protocol: str, url: str, *, model: str = "m-1", key: str = KEY) -> tuple[httpx2.Response, httpx2.Response]:
    """Return what a service says to a list of models, and to a call."""
    known = PROTOCOLS[protocol]
    header = known.key_headers[0]
    headers = {header: f"Bearer {key}" if header == "authorization" else key}
    body: dict[str, Any] = {"model": model, "stream": True}
    with httpx2.Client(base_url=url, headers=headers, trust_env=False, timeout=60) as client:
        return client.get(known.listing[0]), client.post(known.calling[0].replace("*", model), json=body)


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_answers_and_refusals(protocol: str) -> None:
    """Every protocol lists its models and says its text; a wrong key, model or path is refused."""
    with ModelServer() as server:
        server.answers(Service(protocol, models=("m-1",), key=KEY, text="Good morning").answer)
        listed, called = _asked(protocol, server.url)
        assert (listed.status_code, called.status_code) == (200, 200)
        assert "m-1" in listed.text
        assert all(piece in called.text for piece in ("Good", "morning"))
        known = PROTOCOLS[protocol]
        refused = _asked(protocol, server.url, key="sk-wrong")
        assert [response.status_code for response in refused] == [known.wrong_key.status] * 2
        assert _asked(protocol, server.url, model="m-2")[1].status_code == 404
        assert _asked(protocol, f"{server.url}/other")[0].headers["content-type"] == "text/html"


def test_any_key_will_do_without_one() -> None:
    """A service without a key accepts every key, and has a default model."""
    with ModelServer() as server:
        server.answers(Service("chat").answer)
        listed, called = _asked("chat", server.url, model=PROTOCOLS["chat"].model, key="whatever")
        assert PROTOCOLS["chat"].model in listed.text
        assert called.status_code == 200


def test_the_program() -> None:
    """It prints its address first, serves, and ends on a signal or by itself."""
    command = [sys.executable, "-m", "amplifier_testing.llm", "ollama", "--model", "m-1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            url = running.stdout.readline().strip()
            assert "m-1" in httpx2.get(f"{url}/api/tags", trust_env=False, timeout=60).text
        finally:
            running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 0
    ended = subprocess.run([*command, "--seconds", "0"], capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0
