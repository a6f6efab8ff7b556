"""What is posted, where to, and what never is."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockCoordinator
from amplifier_kit.config import read_config
from amplifier_module_hooks_notify_push import mount
from amplifier_module_hooks_notify_push.push import PushConfig


class Inbox(HTTPServer):
    """A server that keeps what is posted."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, str], str]] = []
        self.answer = 200
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Inbox

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.posts.append((self.path, dict(self.headers), body))
        self.send_response(self.server.answer)
        self.send_header("Location", f"{self.server.url}/elsewhere")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Write nothing."""


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    """Return a running server."""
    with Inbox() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def run(
    scripted_session: Callable[..., AmplifierSession], tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Give `await run(answer, config=None, topic="topic-of-mine", **capabilities)`: run a turn."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    async def play(
        answer: str = "Done.", config: Any = None, topic: str = "topic-of-mine", **capabilities: Any
    ) -> None:
        monkeypatch.setenv("AMPLIFIER_NTFY_TOPIC", topic)
        entry = {"module": "hooks-notify-push", "config": {"server": inbox.url, **(config or {})}}
        session = scripted_session(answer, hooks=[entry])
        session.coordinator.register_capability("session.working_dir", str(tmp_path / "shöp"))
        for name, value in capabilities.items():
            session.coordinator.register_capability(name.replace("__", "."), value)
        async with session:
            assert await session.execute("go") == answer

    return play


async def test_a_turn_is_posted_to_the_topic(run: Any, inbox: Inbox) -> None:
    """The body is the beginning of the answer; title, priority and tags are headers."""
    await run("All tests pass.", {"priority": "high", "tags": ["robot", "tada"]})
    [(path, headers, body)] = inbox.posts
    assert (path, body) == ("/topic-of-mine", "All tests pass.")
    assert headers["Title"].startswith("=?UTF-8?B?")
    assert (headers["Priority"], headers["Tags"]) == ("high", "robot,tada")


@pytest.mark.parametrize("answer", [404, 307])
async def test_a_failure_costs_nothing_and_hides_the_topic(
    run: Any, inbox: Inbox, caplog: pytest.LogCaptureFixture, answer: int
) -> None:
    """A server that refuses, or sends the notice elsewhere, is a warning without the topic; nothing is followed."""
    inbox.answer = answer
    await run()
    assert f"answered {answer}" in caplog.text
    assert "topic-of-mine" not in caplog.text
    assert len(inbox.posts) == 1


@pytest.mark.parametrize(
    ("topic", "capabilities"), [("", {}), ("topic-of-mine", {"plan__is_trusted": lambda module: False})]
)
async def test_nothing_is_sent_without_a_topic_or_trust(
    run: Any, inbox: Inbox, caplog: pytest.LogCaptureFixture, topic: str, capabilities: dict[str, Any]
) -> None:
    """Without a topic, or when an untrusted project chose the server, nothing leaves, and the log says why."""
    await run(topic=topic, **capabilities)
    assert inbox.posts == []
    assert "hooks-notify-push" in caplog.text


async def test_secrets_are_not_sent(run: Any, inbox: Inbox) -> None:
    """What the log would mask is masked here."""
    await run("The key is sk-ant-api03-" + "a1B2" * 24)
    assert "a1B2a1B2" not in inbox.posts[0][2]


async def test_the_topic_is_no_config(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic in the config is an unknown key."""
    monkeypatch.delenv("AMPLIFIER_NTFY_TOPIC", raising=False)
    with caplog.at_level(logging.WARNING):
        assert await mount(MockCoordinator(), {"topic": "x"}) is None
    assert "unknown config key 'topic'" in caplog.text


@pytest.mark.parametrize("server", ["ntfy.sh", "file:///etc/passwd", "https://", "https://ada:hunter2@ntfy.sh", ""])
def test_a_server_is_a_web_address(server: str) -> None:
    """Anything else is named."""
    with pytest.raises(ValueError, match="config key 'server' must be an address that begins with https://"):
        read_config(PushConfig, {"server": server}, module="hooks-notify-push")
