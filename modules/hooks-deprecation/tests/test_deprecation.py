"""What a person is told of a deprecated bundle, and when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_kit.config import read_config
from amplifier_module_hooks_deprecation.config import DeprecationConfig

OLD = {"bundle_name": "old-tools", "message": "its tools are elsewhere", "replacement": "default"}


class Display:
    """Keeps what is shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str, str]] = []

    def show_message(self, message: str, level: str = "info", source: str = "hook") -> None:
        self.shown.append((message, level, source))


@pytest.fixture
def run(scripted_session: Callable[..., AmplifierSession], tmp_path: Path) -> Any:
    """Give `await run(config, **options)`: run two turns, and return what was shown and the events."""

    async def play(config: dict[str, Any], **options: Any) -> tuple[list[tuple[str, str, str]], list[Any]]:
        session = scripted_session("one", "two", hooks=[{"module": "hooks-deprecation", "config": config}], **options)
        display, events = Display(), []
        session.coordinator.display_system = display
        session.coordinator.register_capability("session.working_dir", str(tmp_path / "project"))
        session.coordinator.register_capability("amplifier.home", str(tmp_path / "home"))
        session.coordinator.hooks.register("deprecation:warning", lambda event, data: events.append(data))
        async with session:
            await session.execute("go")
            await session.execute("on")
        return display.shown, events

    return play


async def test_it_is_told_once_with_what_to_use(run: Any) -> None:
    """The text has everything that the config says; the event has name, replacement and severity."""
    more = {"migration": "Remove the include.", "sunset_date": "2027-01-31", "severity": "error"}
    [(text, level, source)], [event] = await run({**OLD, **more})
    assert text.splitlines() == [
        "The bundle 'old-tools' is deprecated: its tools are elsewhere",
        "It will be gone on 2027-01-31.",
        "Use 'default' in its place.",
        "Remove the include.",
    ]
    assert (level, source) == ("error", "hooks-deprecation")
    assert (event["bundle_name"], event["replacement"], event["severity"]) == ("old-tools", "default", "error")
    assert event["source_files"] == []


async def test_evidence_is_a_file_that_names_the_bundle(run: Any, tmp_path: Path) -> None:
    """With `require_evidence`, nothing is told without such a file; a longer name is another bundle."""
    config = {**OLD, "require_evidence": True}
    (tmp_path / "project").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "settings.yaml").write_text("bundle: {active: old-tools-2}\n", encoding="utf-8")
    assert await run(config) == ([], [])
    bundle = tmp_path / "project" / "bundle.yaml"
    bundle.write_text("includes: [{bundle: old-tools}]\n", encoding="utf-8")
    [(text, _, _)], [event] = await run(config)
    assert f"Named in {bundle}." in text
    assert event["source_files"] == [str(bundle)]


async def test_several_deprecations(run: Any) -> None:
    """A list is told one by one."""
    shown, _ = await run({"deprecations": [OLD, {"bundle_name": "older", "message": "gone"}]})
    assert [text.splitlines()[0] for text, _, _ in shown] == [
        "The bundle 'old-tools' is deprecated: its tools are elsewhere",
        "The bundle 'older' is deprecated: gone",
    ]


async def test_child_sessions_say_nothing(run: Any) -> None:
    """One telling per tree is enough."""
    assert await run(OLD, parent_id="parent") == ([], [])


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"bundle_name": "x"}, "'bundle_name' and 'message' belong together"),
        ({"deprecations": [{"bundle_name": "x"}]}, "deprecations.0.message"),
        ({**OLD, "severity": "loud"}, "one of info, warning, error"),
    ],
)
def test_a_wrong_config_is_named(config: dict[str, Any], expected: str) -> None:
    """The error says which key is missing or wrong."""
    with pytest.raises(ValueError) as raised:
        read_config(DeprecationConfig, config, module="hooks-deprecation")
    assert expected in str(raised.value)
