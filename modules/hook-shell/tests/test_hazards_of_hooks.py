"""Hazards of hooks as programs and as entries of a file: which run, how often, and what they leave behind."""

from __future__ import annotations

import gc
import json
import os
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_module_hook_shell.hook_events import Matcher, MatcherError

Group = Callable[..., list[dict[str, Any]]]
LOG = 'echo ran >>"$AMPLIFIER_PROJECT_DIR/log"'


def _runs(project: Path) -> int:
    path = project / "log"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


async def test_same_callable_registered_twice(make_rig: Any, group: Group, project: Path) -> None:
    """The same command in two files, and twice in one, runs as often as it is written."""
    hooks = {"hooks": {"PreToolUse": group(LOG)}}
    files = {
        ".amplifier/hooks/one/hooks.json": hooks,
        ".amplifier/hooks/two/hooks.json": {"PreToolUse": group(LOG, LOG)},
        ".claude/settings.json": hooks,
    }
    rig = await make_rig(files=files)
    await rig.run()
    assert _runs(project) == 4
    assert [data["hook"] for data in rig.heard("hook-shell:ran")] == [
        ".amplifier/hooks/one/hooks.json#PreToolUse.0.0",
        ".amplifier/hooks/two/hooks.json#PreToolUse.0.0",
        ".amplifier/hooks/two/hooks.json#PreToolUse.0.1",
        ".claude/settings.json#PreToolUse.0.0",
    ]


async def test_handler_runs_once_per_event(make_rig: Any, group: Group, project: Path) -> None:
    """A hook runs once for each event, also when its file is reached by several ways."""
    file = ".amplifier/hooks/hooks.json"
    (project / ".amplifier" / "hooks" / "again").mkdir(parents=True)
    (project / ".amplifier" / "hooks" / "again" / "hooks.json").symlink_to("../hooks.json")
    (project / ".amplifier" / "hooks" / "loop").symlink_to(".", target_is_directory=True)
    rig = await make_rig(files={file: {"hooks": {"PreToolUse": group(LOG)}}}, config={"files": [file]})
    rig.session.coordinator.register_capability("amplifier.home", project / ".amplifier")
    await rig.run()
    assert _runs(project) == 1


async def test_a_module_that_is_mounted_twice_runs_files_once(make_rig: Any, group: Group, project: Path) -> None:
    """Two entries of the module in a plan run the hooks of each config, and those of the files once."""
    hooks = {"PreToolUse": group(LOG)}
    entries = [{"module": "hook-shell", "config": {"hooks": hooks}}] * 2
    rig = await make_rig(files={".amplifier/hooks/hooks.json": hooks}, plan={"hooks": entries})
    await rig.run()
    assert _runs(project) == 3


@pytest.mark.parametrize("hook_event", ["PreToolUse", "PostToolUseFailure"])
async def test_injected_context_survives_tool_error(make_rig: Any, group: Group, hook_event: str) -> None:
    """What a hook gives the model before a tool runs, or when it has failed, is read although the tool failed."""
    hooks = {hook_event: group('echo \'{"contextInjection": "mind the disk"}\'')}
    rig = await make_rig(hooks, [[("boom", {})], "done"])
    await rig.run()
    assert "the disk is gone" in (await rig.texts("tool"))[0]
    assert [text for text in await rig.texts("user") if "mind the disk" in text]
    assert "mind the disk" in str(rig.provider.requests[1].messages)


@pytest.mark.parametrize(
    ("text", "matched", "others"),
    [
        ("bash", "bash", "bashful Bashful xbash BASH"),
        ("Bash", "bash", "bashful edit_file"),
        ("Edit|Write", "edit_file write_file apply_patch Edit", "NotebookEdit edit read_file"),
        ("edit_file, write_file", "edit_file write_file", "edit_file2 file"),
        ("", "bash anything", ""),
        ("*", "bash anything", ""),
        ("mcp_*", "mcp_a_b", "bash amcp_x"),
        ("web_?etch", "web_fetch", "web_fetcher web_search"),
        ("mcp__github__.*", "mcp__github__get mcp_github_get", "mcp_gitlab_get xmcp_github_get"),
        ("mcp__github__get", "mcp__github__get mcp_github_get", "mcp_github_getter"),
        ("read_.*", "read_file read_", "xread_file"),
        ("(Bash|Edit)", "bash edit_file", "bashful"),
        ("^bash$", "bash", "bashful"),
        ("Notebook(Edit|Read)", "NotebookRead", "NotebookReader Notebook"),
        ("a.b", "a.b axb", "a.bc"),
    ],
)
def test_matcher_is_exact_unless_glob(text: str, matched: str, others: str) -> None:
    """A part of a name never matches by accident; globs and regular expressions are for whole names too."""
    matcher = Matcher(text)
    assert [name for name in matched.split() if not matcher.matches(name)] == []
    assert [name for name in others.split() if matcher.matches(name)] == []


@pytest.mark.parametrize("text", ["(", "Bash(git *)", "Bash(rm:*)", "(a+)+", "(x*)*y", "[z-a]", "x" * 1001])
def test_matchers_that_cannot_be_meant(text: str) -> None:
    """What is no regular expression, takes for ever, or names inputs is an error instead of never matching."""
    with pytest.raises(MatcherError):
        Matcher(text)


async def test_matchers_choose_tools(make_rig: Any, group: Group, project: Path) -> None:
    """Only the hooks whose matcher fits run."""
    hooks = {"PreToolUse": [*group(LOG, matcher="Bash"), *group("exit 2", matcher="bash_")]}
    rig = await make_rig(hooks, [[("bashful", {}), ("bash", {})], "done"])
    await rig.run()
    assert _runs(project) == 1
    assert len(rig.tools["bash"].inputs) == len(rig.tools["bashful"].inputs) == 1


async def test_bad_hook_entry_is_reported_alone(make_rig: Any, group: Group, project: Path) -> None:
    """Entries that are wrong, and files that are none, are each reported by name; all others run."""
    wrong = [
        {"hooks": [{"type": "command"}, {"type": "carrier pigeon"}, 7, {"command": LOG, "timeout": "soon"}]},
        {"matcher": "(", "hooks": [{"command": LOG}]},
        {"matcher": 3, "hooks": [{"command": LOG}]},
        {"hooks": {"command": LOG}},
        "no group",
        {"hooks": [{"command": LOG, "if": "Bash(git *)"}, {"command": LOG, "on_error": "maybe"}, {"command": LOG}]},
    ]
    indented = json.dumps({"hooks": {"tool:pre": group(LOG)}}, indent=1).replace("\n", "\r\n")
    files = {
        ".amplifier/hooks/a/hooks.json": {"PreToolUse": wrong, "PreToolUze": [], "PostToolUse": {}, "Stop": None},
        ".amplifier/hooks/b/hooks.json": "{no json",
        ".amplifier/hooks/c/hooks.json": f"\ufeff{indented}",
        ".amplifier/hooks/d/hooks.json": "[]",
        ".amplifier/hooks/e/hooks.json": "[" * 100_000,
        ".claude/settings.json": {"hooks": [], "model": "x"},
        ".claude/settings.local.json": {"permissions": {}},
    }
    rig = await make_rig(files=files)
    await rig.run()
    assert _runs(project) == 2
    reported = [data for data in rig.heard("hook-shell:failed") if data["cause"] == "entry"]
    a = ".amplifier/hooks/a/hooks.json#"
    assert [data["hook"] for data in reported] == [
        *(f"{a}PreToolUse.0.{index}" for index in range(4)),
        *(f"{a}PreToolUse.{index}" for index in range(1, 5)),
        f"{a}PreToolUse.5.0",
        f"{a}PreToolUse.5.1",
        f"{a}PreToolUze",
        f"{a}PostToolUse",
        f"{a}Stop",
        *(f".amplifier/hooks/{name}/hooks.json" for name in "bde"),
        ".claude/settings.json",
    ]
    assert all(data["error"] for data in reported)
    assert len([level for level, _ in rig.display.shown if level == "warning"]) == len(reported)


async def test_hook_has_no_tty(make_rig: Any, group: Group, project: Path) -> None:
    """A hook has no terminal to ask on or to write to; escape sequences in what it says do not reach one either."""
    command = (
        '{ tty; cat >/dev/null; (echo >/dev/tty) 2>/dev/null || echo none; } >"$AMPLIFIER_PROJECT_DIR/tty" 2>&1; '
        "printf '\\033[2J\\033]0;owned\\007no' >&2; exit 2"
    )
    rig = await make_rig({"PreToolUse": group(command)})
    await rig.run()
    assert (project / "tty").read_text(encoding="utf-8") == "not a tty\nnone\n"
    assert "\x1b" not in str(rig.heard("hook-shell:ran")) + str(await rig.texts("tool"))


async def test_hook_runs_when_cwd_is_gone(
    make_rig: Any, group: Group, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks go on to judge when the project's folder, and our own, have been removed."""
    monkeypatch.chdir(project)
    command = f'pwd >>"{tmp_path}/where"; [ "$(cat | wc -l)" = 1 ] && exit 2'
    rig = await make_rig({"PreToolUse": group(command)}, [[("bash", {})], [("bash", {})], "done"])

    def remove(event: str, data: Any) -> None:
        if project.exists():
            project.rmdir()

    rig.session.coordinator.hooks.register("tool:error", remove)
    await rig.run()
    assert not project.exists()
    assert (tmp_path / "where").read_text(encoding="utf-8").splitlines() == [str(project), "/"]
    assert rig.tools["bash"].inputs == []
    assert rig.reports() == [("hook-shell:ran", "ok", "deny")] * 2


async def test_hook_output_keeps_event_lineage(make_rig: Any, group: Group) -> None:
    """What is reported of a hook belongs to the turn and span of the event, also in a session that goes on."""
    hooks = {"PreToolUse": group('echo \'{"contextInjection": "note"}\'')}
    replies: list[Any] = [[("bash", {})], "one", [("bash", {})], "two"]
    rig = await make_rig(hooks, replies, is_resumed=True, parent_id="the-parent")
    await rig.run()
    await rig.run()
    ran, pre = rig.heard("hook-shell:ran"), rig.heard("tool:pre")
    assert len(ran) == len(pre) == 2
    for report, call in zip(ran, pre, strict=True):
        for field in ("session_id", "parent_id", "trace_id", "turn_id", "span_id", "tool_call_id"):
            assert report[field] == call[field]
    assert ran[0]["turn_id"] != ran[1]["turn_id"]
    notes = [message for message in await rig.messages() if "note" in str(message["content"])]
    assert [(note["metadata"]["hook_name"], note["metadata"]["event"]) for note in notes] == [
        ("hook-shell", "tool:pre")
    ] * 2


@pytest.mark.system
async def test_long_session_memory_is_flat(
    make_rig: Any, group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many runs with much output leave neither memory, nor files, nor processes, nor open files behind."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    command = "head -c 300000 /dev/zero | tr '\\0' x | tee /dev/stderr"
    rig = await make_rig({"PostToolUse": group(command), "Notification": group("exit 2")})
    coordinator = rig.session.coordinator

    async def events(count: int) -> None:
        for number in range(count):
            await coordinator.hooks.emit("tool:post", {"tool_name": "bash", "tool_call_id": f"{number}", "result": "r"})
            await coordinator.hooks.emit("user:notification", {"message": "m" * 1000})
            rig.events.clear()
            rig.display.shown.clear()

    await events(10)
    loaded = len(os.listdir("/proc/self/fd"))
    tracemalloc.start()
    try:
        await events(5)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        await events(30)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 60_000, "the output of one run kept would be more than that"
    assert len(os.listdir("/proc/self/fd")) <= loaded
    notes = place.glob("amplifier-hook-*.json")
    assert [path for path in notes if "mmmm" in path.read_text(encoding="utf-8", errors="replace")] == []
