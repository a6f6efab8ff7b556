"""Which calls a mode lets run, and what the model reads while it is active."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakeSession = Callable[..., Any]

REVIEW = """\
---
mode:
  name: review
  description: Comment only.
  tools:
    safe: [read_file]
    warn: [bash]
    confirm: [write_file]
    block: [web_fetch]
---
Comment on what could break.
"""


def _result(made: Any, requests_of: Callable[[Any], Any]) -> str:
    """Return what the model read as the result of its first call."""
    return next(str(message["content"]) for message in requests_of(made.session)[1] if message["role"] == "tool")


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("web_fetch", "Mode 'review': 'web_fetch' is blocked. Comment only."),
        (
            "edit_file",
            "Mode 'review': 'edit_file' is not in the allowed list. Use /mode off to exit review mode.",
        ),
        ("bash", "Mode 'review': 'bash' requires confirmation. Call again if this is appropriate for review mode."),
    ],
)
async def test_denials_are_worded_as_documented(
    make_session: MakeSession,
    write_mode: Callable[..., Path],
    requests_of: Callable[[Any], Any],
    tool: str,
    expected: str,
) -> None:
    """A call that the mode does not let run is denied with the documented text, and the tool does not run."""
    write_mode(REVIEW)
    made = make_session([(tool, {})], "done")
    async with made.session:
        await made.activate("review")
        await made.session.execute("go")
        assert expected in _result(made, requests_of)
    assert made.tools[tool].inputs == []


@pytest.mark.parametrize("tool", ["read_file", "todo", "mode"])
async def test_safe_and_infrastructure_tools_run(
    make_session: MakeSession, write_mode: Callable[..., Path], tool: str
) -> None:
    """What the mode calls safe runs, and so does what every mode needs."""
    write_mode(REVIEW)
    made = make_session([(tool, {})], "done")
    async with made.session:
        await made.activate("review")
        await made.session.execute("go")
    assert made.tools[tool].inputs == [{}]


async def test_a_warning_lets_the_second_call_run(make_session: MakeSession, write_mode: Callable[..., Path]) -> None:
    """A tool that the mode warns of is denied once, and again after the mode was left and activated."""
    write_mode(REVIEW)
    made = make_session([("bash", {})], [("bash", {})], [("bash", {})], "done", [("bash", {})], "done")
    async with made.session:
        await made.activate("review")
        await made.session.execute("go")
        assert len(made.tools["bash"].inputs) == 2
        await made.activate("review")
        await made.session.execute("again")
    assert len(made.tools["bash"].inputs) == 2
    outcomes = [each["outcome"] for each in made.emitted("mode:tool_warned")]
    assert outcomes == ["denied", "allowed", "allowed", "denied"]


async def test_everything_runs_without_a_mode(make_session: MakeSession, requests_of: Callable[[Any], Any]) -> None:
    """Without a mode nothing is denied and nothing is added to a request."""
    made = make_session([("deploy", {})], "done")
    async with made.session:
        await made.session.execute("go")
        assert all("system-reminder" not in str(request) for request in requests_of(made.session))
    assert made.tools["deploy"].inputs == [{}]


async def test_confirm_asks_even_where_a_rule_allows(
    make_session: MakeSession, write_mode: Callable[..., Path]
) -> None:
    """A tool to confirm runs only after a yes, whatever other policies allow."""
    write_mode(REVIEW)
    asked: list[str] = []
    made = make_session([("write_file", {})], [("read_file", {})], "done")

    class Approver:
        async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
            asked.append(prompt)
            return options[-1]  # the last one denies

    made.coordinator.approval_system = Approver()
    async with made.session:
        await made.activate("review")
        await made.session.execute("go")
    assert len(asked) == 1
    assert made.tools["write_file"].inputs == []
    assert made.tools["read_file"].inputs == [{}]


async def test_a_mode_allows_nothing_that_a_rule_denies(
    make_session: MakeSession, write_mode: Callable[..., Path]
) -> None:
    """A safe tool is still subject to the policies of the session."""
    write_mode(REVIEW)
    made = make_session([("read_file", {})], "done")
    made.coordinator.register_policy("rules", lambda action, details: ("deny", "not here"))
    async with made.session:
        await made.activate("review")
        await made.session.execute("go")
    assert made.tools["read_file"].inputs == []


async def test_an_unknown_active_mode_denies_everything(make_session: MakeSession) -> None:
    """When the file of the active mode is gone, no tool runs, and the reason says how to leave the mode."""
    made = make_session([("todo", {})], "done")
    async with made.session:
        made.state["active_mode"] = "gone"
        await made.session.execute("go")
    assert made.tools["todo"].inputs == []


async def test_a_child_is_subject_to_the_modes_above(
    make_session: MakeSession, write_mode: Callable[..., Path]
) -> None:
    """An agent may do no more than its caller: the mode of the parent holds beside its own."""
    write_mode(REVIEW)
    write_mode("---\nmode: {name: open, default_action: allow}\n---\n", "open")
    parent = make_session("done")
    async with parent.session:
        await parent.activate("review")
        above = parent.coordinator.get_capability("session.modes")
        child = make_session([("edit_file", {}), ("read_file", {})], "done", capabilities={"session.modes": above})
        async with child.session:
            await child.activate("open")
            await child.session.execute("go")
    assert child.tools["edit_file"].inputs == []
    assert child.tools["read_file"].inputs == [{}]


async def test_the_guidance_is_in_the_request_only(
    make_session: MakeSession, write_mode: Callable[..., Path], requests_of: Callable[[Any], Any]
) -> None:
    """The text of the mode is a reminder in every request and never in the conversation."""
    write_mode(REVIEW)
    made = make_session("done")
    async with made.session:
        await made.activate("review")
        await made.session.execute("go")
        [request] = requests_of(made.session)
        kept = await made.coordinator.get("context").get_messages()
    [reminder] = [message for message in request if "system-reminder" in str(message["content"])]
    assert reminder["role"] == "system"
    assert 'source="mode-review"' in reminder["content"]
    assert "MODE ACTIVE: review\n\nComment on what could break." in reminder["content"]
    assert "MODE ACTIVE" not in str(kept)
    [injected] = made.emitted("mode:context_injected")
    assert injected["mode"] == "review"
    assert injected["context_length"] == len(reminder["content"])


async def test_a_line_that_is_a_mention_becomes_the_file(
    make_session: MakeSession, write_mode: Callable[..., Path], project: Path, requests_of: Callable[[Any], Any]
) -> None:
    """A mentioned file is read when the request is made; a line that leads nowhere vanishes."""
    (project / "rules.md").write_text("Our rules.", encoding="utf-8")
    write_mode("---\nmode: {name: review}\n---\nFirst.\n@app:rules.md\n@app:gone.md\nLast, for @app:rules.md\n")

    class Resolver:
        def resolve(self, mention: str) -> Path | None:
            return project / "rules.md" if mention == "@app:rules.md" else None

    made = make_session("done", capabilities={"mention_resolver": Resolver()})
    async with made.session:
        await made.activate("review")
        await made.session.execute("go")
        content = requests_of(made.session)[0][-1]["content"]
    assert "First.\nOur rules.\nLast, for @app:rules.md\n</system" in content


async def test_changes_are_announced_before_they_are_made(
    make_session: MakeSession, write_mode: Callable[..., Path]
) -> None:
    """Activation, change and clearing are events, at which the state is still the one before."""
    from amplifier_kit.modes import clear

    write_mode(REVIEW)
    made = make_session("done")
    seen: list[tuple[str, Any]] = []
    for event in ("mode:activated", "mode:changed", "mode:cleared"):
        made.coordinator.hooks.register(event, lambda event, data: seen.append((event, made.state["active_mode"])))
    async with made.session:
        await made.activate("review")
        await made.activate("plan")
        assert await clear(made.coordinator) == "plan"
        assert await clear(made.coordinator) is None
    assert seen == [("mode:activated", None), ("mode:changed", "review"), ("mode:cleared", "plan")]
    [activated] = made.emitted("mode:activated")
    assert activated["mode"] == activated["name"] == "review"
    assert activated["warn_tools"] == ["bash"]
    [changed] = made.emitted("mode:changed")
    assert (changed["from_mode"], changed["to_mode"], changed["old"], changed["new"]) == ("review", "plan") * 2
    assert made.emitted("mode:transition_completed") == [
        {"mode": "review", "phase": "activated"},
        {"mode": "plan", "phase": "changed"},
        {"mode": "plan", "phase": "cleared"},
    ]


async def test_what_a_mode_contributes_goes_through_the_overlay(
    make_session: MakeSession, write_mode: Callable[..., Path]
) -> None:
    """What a mode contributes is added when it begins and removed when it ends; without an overlay that is an event."""
    write_mode("---\nmode: {name: review, contributes: {context: [a.md]}}\n---\n")
    calls: list[tuple[Any, ...]] = []

    class Overlay:
        async def apply(self, scope: str, contributes: dict[str, Any]) -> None:
            calls.append(("apply", scope, contributes))

        async def revoke(self, scope: str) -> None:
            calls.append(("revoke", scope))

    made = make_session("done")
    async with made.session:
        await made.activate("review")
        assert [each["mode"] for each in made.emitted("mode:activation_failed")] == ["review"]
        made.state["active_mode"] = None
        made.state["mode_runtime_overlay"] = Overlay()
        await made.activate("review")
        await made.activate("plan")
    assert calls == [("apply", "mode:review", {"context": ["a.md"]}), ("revoke", "mode:review")]
