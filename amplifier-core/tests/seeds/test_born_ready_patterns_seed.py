"""The patterns that mount order cost, and their cures: they load and work, and the validator tells their authors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.validation import HookValidator, ToolValidator

DUAL_PATH = """
TOOL_SKILLS_DISCOVERY_CAPABILITY = "skills.discovery"


async def mount(coordinator, config=None):
    async def _refresh_watched_skills():
        discover = coordinator.get_capability(TOOL_SKILLS_DISCOVERY_CAPABILITY)
        coordinator.session_state.setdefault("watched", []).append(discover())

    async def on_skills_discovered(event, data):
        await _refresh_watched_skills()

    # mount() registers the event handler AND
    # immediately runs setup if the tool is
    # already there — because it might not be.
    coordinator.hooks.register(
      "skills:discovered", on_skills_discovered
    )
    if coordinator.get_capability(
        TOOL_SKILLS_DISCOVERY_CAPABILITY
    ) is not None:
        # duplicate path — tool mounted first
        await _refresh_watched_skills()
"""

SKILLS_TOOL = """
from amplifier_core.testing import MockTool


async def mount(coordinator, config=None):
    coordinator.register_capability("skills.discovery", lambda: ["skill-a"])
    await coordinator.mount("tools", MockTool("skills"))
"""

LATE_SKILLS = """
async def mount(coordinator, config=None):
    coordinator.register_capability("skills.discovery", lambda: ["skill-b"])
    await coordinator.hooks.emit("skills:discovered", {})
"""

TRIPLE_PATH = """
from amplifier_core.events import ALL_EVENTS


async def _discover_events(coordinator):
    # Path 1: core canonical list
    discovered = set(ALL_EVENTS)
    # Path 2: contribution channels
    contributions = await coordinator \\
        .collect_contributions("obs.events")
    for ev in contributions:
        discovered.update(ev)
    # Path 3: legacy capability fallback
    cap = coordinator.get_capability(
        "observability.events")
    if cap is not None:
        discovered.update(cap() if callable(cap)
                           else cap)
    return discovered  # 3 paths for 1 answer


async def mount(coordinator, config=None):
    coordinator.session_state["discovered"] = await _discover_events(coordinator)
"""

WRONG_API = """
from amplifier_core.testing import MockTool


async def mount(coordinator, config=None):
    obs_events = coordinator.get_capability(
        "observability.events") or []
    obs_events.extend([
        "delegate:agent_spawned",
        "delegate:agent_resumed",
        "delegate:agent_completed",
        "delegate:agent_cancelled",
        "delegate:error",
    ])
    coordinator.register_capability(
        "observability.events", obs_events
    )
    # register_capability ≠ register_contributor
    # collect_contributions() never sees this
    await coordinator.mount("tools", MockTool("delegate"))
"""

RIGHT_API = """
from amplifier_core.testing import MockTool


async def mount(coordinator, config=None):
    coordinator.register_contributor(
        "observability.events",
        "tool-delegate",
        lambda: [
            "delegate:agent_spawned",
            "delegate:agent_resumed",
            "delegate:agent_completed",
            "delegate:agent_cancelled",
            "delegate:error",
        ],
    )
    # now visible to collect_contributions()
    await coordinator.mount("tools", MockTool("delegate"))
"""

DELEGATION = [
    "delegate:agent_spawned",
    "delegate:agent_resumed",
    "delegate:agent_completed",
    "delegate:agent_cancelled",
    "delegate:error",
]

SESSION_LOGGER = """
import json
from pathlib import Path

from amplifier_core.events import ALL_EVENTS


class SessionLogger:
    def __init__(self, path):
        self.path = Path(path)

    def write(self, event, data):
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, "session_id": data["session_id"], "data": data}) + "\\n")

"""

LOGGING_BEFORE = (
    SESSION_LOGGER
    + """
async def mount(coordinator, config=None):
    config = config or {}
    auto_discover = config.get("auto_discover", True)
    priority = int(config.get("priority", 100))
    session_logger = SessionLogger(config["path"])

    # define handler closure...
    async def handler(event, data):
        session_logger.write(event, data)

    events = list(ALL_EVENTS)
    if auto_discover:
        # race condition: tools may not be mounted
        discovered = coordinator.get_capability(
            "observability.events") or []
        events.extend(discovered)

    for ev in events:
        coordinator.hooks.register(ev, handler)
"""
)

LOGGING_AFTER = (
    SESSION_LOGGER
    + """
_deferred_configs: list[dict] = []

async def mount(coordinator, config=None):
    _deferred_configs.append(config or {})

async def on_session_ready(coordinator):
    while _deferred_configs:
        config = _deferred_configs.pop(0)
        auto_discover = config.get("auto_discover", True)
        session_logger = SessionLogger(config["path"])

        async def handler(event, data, session_logger=session_logger):
            session_logger.write(event, data)

        events = list(ALL_EVENTS)
        # legacy path preserved
        if auto_discover:
            discovered = coordinator \\
                .get_capability("observability.events") or []
            events.extend(discovered)
        # new path — safe here, all tools mounted
        if auto_discover:
            contributions = await coordinator \\
                .collect_contributions("observability.events")
            for c in contributions:
                events.extend(c)
        for ev in events:
            coordinator.hooks.register(ev, handler)
"""
)

LATE_HOOK = """
async def mount(coordinator, config=None):
    coordinator.register_contributor("observability.events", "hooks-late", lambda: ["late:seen"])

    async def tell(event, data):
        await coordinator.hooks.emit("late:seen", {})
        await coordinator.hooks.emit("delegate:agent_spawned", {})

    coordinator.hooks.register("prompt:submit", tell)


async def on_session_ready(coordinator):
    if coordinator.config.get("late_fails"):
        raise RuntimeError("late and broken")
"""


def warnings(result: Any) -> dict[str, str]:
    return {check.name: check.message for check in result.warnings}


@pytest.mark.parametrize(
    ("tools", "hooks", "watched"),
    [
        (["tool-skills-seed"], ["hooks-dual-path"], [["skill-a"]]),
        ([], ["hooks-dual-path", "hooks-late-skills"], [["skill-b"]]),
        ([], ["hooks-dual-path"], None),
    ],
    ids=["tool first", "tool later", "no tool"],
)
async def test_dual_path_still_works(bench: Any, tools: list[str], hooks: list[str], watched: Any) -> None:
    """A module that defends against both mount orders works in both, and without its partner."""
    bench.install("hooks-dual-path", DUAL_PATH)
    bench.install("tool-skills-seed", SKILLS_TOOL)
    bench.install("hooks-late-skills", LATE_SKILLS)
    async with bench.session(bench.plan(tools=tools, hooks=hooks)) as session:
        assert session.coordinator.session_state.get("watched") == watched
        assert await session.execute("hi") == "echo: hi"


async def test_dual_path_is_warned_of(bench: Any) -> None:
    """The validator passes such a module and tells its author where the code belongs."""
    result = await HookValidator().validate(
        bench.folder("hooks-dual-path", DUAL_PATH) / "amplifier_module_hooks_dual_path"
    )
    assert result.passed
    assert 'get_capability("skills.discovery")' in warnings(result)["mount_order"]
    assert "async def on_session_ready(coordinator)" in warnings(result)["mount_order"]


async def test_triple_path_still_works(bench: Any) -> None:
    """Three paths to one answer: canonical events, a contribution and a legacy capability are all found."""
    bench.install("tool-delegate-wrong", WRONG_API)
    bench.install("hooks-triple-path", TRIPLE_PATH)
    session = bench.session(bench.plan(tools=["tool-delegate-wrong"], hooks=["hooks-triple-path"]))
    session.coordinator.register_contributor("obs.events", "app", lambda: ["app:event"])
    async with session:
        discovered = session.coordinator.session_state["discovered"]
    assert {"session:start", "app:event", *DELEGATION} <= discovered


async def test_triple_path_is_warned_of(bench: Any) -> None:
    """The warning names both looks at other modules."""
    result = await HookValidator().validate(bench.install("hooks-triple-path", TRIPLE_PATH))
    assert result.passed
    message = warnings(result)["mount_order"]
    assert 'collect_contributions("obs.events")' in message
    assert 'get_capability("observability.events")' in message


async def test_wrong_api_is_invisible(bench: Any) -> None:
    """Events offered as a capability load, work, and never reach a collector: the 7 % that were missing."""
    bench.install("tool-delegate-wrong", WRONG_API)
    async with bench.session(bench.plan(tools=["tool-delegate-wrong"])) as session:
        assert "delegate" in session.coordinator.get("tools")
        assert session.coordinator.get_capability("observability.events") == DELEGATION
        assert await session.coordinator.collect_contributions("observability.events") == []


async def test_wrong_api_is_warned_of(bench: Any) -> None:
    """The validator passes the module and names the call that its author meant."""
    result = await ToolValidator().validate(bench.install("tool-delegate-wrong", WRONG_API))
    assert result.passed
    message = warnings(result)["contribution_channel"]
    assert 'register_capability("observability.events", ...)' in message
    assert 'register_contributor("observability.events", "tool-delegate-wrong"' in message


async def test_right_api_is_visible_and_silent(bench: Any) -> None:
    """The corrected module is seen by collectors and gets no warning."""
    package = bench.install("tool-delegate-right", RIGHT_API)
    async with bench.session(bench.plan(tools=["tool-delegate-right"])) as session:
        assert await session.coordinator.collect_contributions("observability.events") == [DELEGATION]
    assert warnings(await ToolValidator().validate(package)) == {}


async def run_logged(bench: Any, tmp_path: Path, source: str, *, late_fails: bool = False) -> list[dict[str, Any]]:
    log = tmp_path / "events.jsonl"
    bench.install("hooks-logging-seed", source)
    bench.install("hooks-late", LATE_HOOK)
    bench.install("tool-delegate-right", RIGHT_API)
    hooks = [{"module": "hooks-logging-seed", "config": {"path": str(log)}}, {"module": "hooks-late"}]
    plan = bench.plan(tools=["tool-delegate-right"], hooks=hooks, late_fails=late_fails)
    async with bench.session(plan) as session:
        await session.execute("hi")
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


async def test_logging_before_misses_what_mounts_later(bench: Any, tmp_path: Path) -> None:
    """A logging hook that discovers in mount() writes the canonical events and nothing that was contributed."""
    events = [entry["event"] for entry in await run_logged(bench, tmp_path, LOGGING_BEFORE)]
    assert [event for event in events if event in ("session:start", "prompt:submit", "session:end")] == [
        "session:start",
        "prompt:submit",
        "session:end",
    ]
    assert "late:seen" not in events
    assert "delegate:agent_spawned" not in events


async def test_logging_after_misses_nothing(bench: Any, tmp_path: Path) -> None:
    """Deferred to on_session_ready, the same hook writes also what tools and later hooks contribute."""
    events = [entry["event"] for entry in await run_logged(bench, tmp_path, LOGGING_AFTER)]
    assert {"session:start", "prompt:submit", "late:seen", "delegate:agent_spawned", "session:end"} <= set(events)
    assert events[-1] == "session:end"


async def test_required_events_are_on_disk(bench: Any, tmp_path: Path) -> None:
    """The end-to-end check of the story, as it greps: every required event is a line of the file."""
    entries = await run_logged(bench, tmp_path, LOGGING_AFTER)
    text = (tmp_path / "events.jsonl").read_text(encoding="utf-8")
    missing = [
        event for event in ("session:start", "prompt:submit", "session:end") if f'"event": "{event}"' not in text
    ]
    assert missing == []
    assert len({entry["session_id"] for entry in entries}) == 1


async def test_failed_callback_is_on_disk(bench: Any, tmp_path: Path) -> None:
    """hooks-logging writes module:on_session_ready_failed, since it is one of the canonical events."""
    entries = await run_logged(bench, tmp_path, LOGGING_AFTER, late_fails=True)
    (failure,) = [entry["data"] for entry in entries if entry["event"] == "module:on_session_ready_failed"]
    assert (failure["module_id"], failure["error"]) == ("hooks-late", "late and broken")


@pytest.mark.parametrize(("source", "warned"), [(LOGGING_BEFORE, True), (LOGGING_AFTER, False)])
async def test_logging_hook_and_the_validator(bench: Any, tmp_path: Path, source: str, warned: bool) -> None:
    """A hook that mounts nothing in mount() is valid; only the one that discovers there gets a warning."""
    package = bench.install("hooks-logging-seed", source)
    result = await HookValidator().validate(package, config={"path": str(tmp_path / "log")})
    assert result.passed
    assert ("mount_order" in warnings(result)) is warned
