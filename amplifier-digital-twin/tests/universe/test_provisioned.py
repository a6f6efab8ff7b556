"""Provisioning: done once, kept as a layer, done again when anything it depends on is different; and when it fails."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.errors import TwinError

PROFILE = """
provision:
  files: [{src: given, dest: ~/given, recursive: true}]
  commands:
    - "cat ~/given/* > ~/both; mkdir -p ~/closed; chmod 0 ~/closed; ln -s both ~/link; date +%s%N > ~/when"
    - {run: "echo made by $(id -un) > ~/who"}
"""
LOOK = "cat ~/both ~/when ~/who; stat -c '%n %U %a' ~ ~/closed ~/both; readlink ~/link; ls -A ~"


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """Return the folder that is pushed."""
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "a").write_text("a\n", encoding="utf-8")
    return folder


async def test_second_launch_is_warm_and_the_same(here: Any, say: Any, given: Path) -> None:
    """What the first launch left is what the second one starts with, down to permissions; a change makes it cold."""
    async with here.launched(PROFILE) as universe:
        first = await say(universe, LOOK)
        status = await universe.status()
        assert not status["warm"]
        await say(universe, "echo later > ~/both")
    async with here.launched(PROFILE) as universe:
        assert await say(universe, LOOK) == first
        again = await universe.status()
        assert (again["warm"], again["layer"]) == (True, status["layer"])
        assert "provision" not in again["timings"]
    (given / "b").write_text("b\n", encoding="utf-8")
    async with here.launched(PROFILE) as universe:
        assert not (await universe.status())["warm"]
        assert (await say(universe, "cat ~/both")) == "a\nb\n"
    (given / "b").unlink()
    async with here.launched(PROFILE + "checks: [{name: c, run: 'true'}]") as universe:
        assert (await universe.status())["warm"], "what comes after provisioning does not count"
    async with here.launched(PROFILE + "environment: {NEW: value}") as universe:
        assert not (await universe.status())["warm"]


async def test_what_provisioning_started_has_ended(here: Any, say: Any, given: Path) -> None:
    """A cold launch is as a warm one: no process of a command of `provision` is there afterwards."""
    profile = PROFILE.replace("    - {run", '    - "setsid sleep 987652 > /dev/null 2>&1 &"\n    - {run')
    for is_warm in (False, True):
        async with here.launched(profile) as universe:
            assert (await universe.status())["warm"] is is_warm
            assert await say(universe, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '^98765'") == "0\n"


async def test_two_cold_launches_at_once(here: Any, say: Any, given: Path) -> None:
    """Both succeed, one layer is kept, and each has the files of one of the two provisionings, whole."""

    async def one() -> str:
        async with here.launched(PROFILE) as universe:
            return str(await say(universe, LOOK))

    found = await asyncio.gather(one(), one(), one())
    assert all(text.startswith("a\n") and "made by user" in text for text in found)
    assert len(list(here.cache.glob("embedded/*/layers/[!.]*"))) == 1
    async with here.launched(PROFILE) as universe:
        assert (await universe.status())["warm"]
        assert await say(universe, LOOK) in found
    assert list(here.cache.glob("**/.aside-*")) == []


async def test_failed_provisioning_leaves_evidence_and_no_layer(here: Any, say: Any, given: Path) -> None:
    """The command, its code and its last words are told and kept; with the universe at hand one can look around."""
    text = PROFILE + "    - {run: 'echo so far; echo it broke >&2; exit 6'}\n    - {run: 'touch ~/never'}\n"
    async with here.made(text) as universe:
        with pytest.raises(TwinError, match="exit code 6:\nit broke") as caught:
            await universe.launch()
        assert await say(universe, "ls ~/never 2>&1; cat ~/who") == (
            "ls: cannot access '/home/user/never': No such file or directory\nmade by user\n"
        )
    assert caught.value.code == "provision_failed"
    assert json.loads((here.evidence / "error.json").read_bytes()) == caught.value.record()
    events = [json.loads(line) for line in (here.evidence / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    command = [event for event in events if event["event"] == "command"][-1]
    assert (command["exit_code"], command["stdout"], command["stderr"]) == (6, "so far", "it broke")
    assert "launch" in json.loads((here.evidence / "timings.json").read_bytes())
    assert list(here.cache.glob("embedded/*/layers/*")) == []


async def test_evidence_that_cannot_be_written(here: Any) -> None:
    """It hides no fault of a launch, and without it there is no verdict."""
    here.evidence.write_text("in the way", encoding="utf-8")
    async with here.made("provision: {commands: ['exit 5']}") as universe:
        with pytest.raises(TwinError, match="exit code 5"):
            await universe.launch()
    async with here.launched("checks: [{name: c, run: 'true'}]") as universe:
        with pytest.raises(TwinError) as caught:
            await universe.check()
    assert caught.value.code == "evidence_unwritable"


async def test_command_that_takes_too_long_is_ended(here: Any, say: Any) -> None:
    """A command's own time is a bound, and all of its processes end with it."""
    async with here.made("provision: {commands: [{run: 'sleep 987653 & sleep 987653', timeout: 1}]}") as universe:
        with pytest.raises(TwinError, match="not done after 1 s") as caught:
            await universe.launch()
        assert await say(universe, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '^98765'") == "0\n"
    assert caught.value.code == "provision_failed"


async def test_wall_time_bounds_launch_and_checks(here: Any) -> None:
    """However long each part may take, the whole ends at the profile's wall time."""
    slow = "limits: {wall: 2s}\nprovision: {commands: [{run: sleep 60, timeout: 50}]}"
    async with here.made(slow) as universe:
        with pytest.raises(TwinError, match="launching was not done after 2 s") as caught:
            await universe.launch()
    assert caught.value.code == "wall_limit"
    assert json.loads((here.evidence / "error.json").read_bytes())["code"] == "wall_limit"
    for seconds in (3, 40):  # twice only where not even the launch was done in time
        text = f"limits: {{wall: {seconds}s}}\nchecks: [{{name: slow, run: sleep 90, timeout: 80}}]"
        async with here.made(text) as universe:
            try:
                await universe.launch()
            except TwinError as late:
                if late.code != "wall_limit":
                    raise
                continue
            with pytest.raises(TwinError) as caught:
                await universe.check()
            break
    assert (caught.value.code, "launching" in str(caught.value)) == ("wall_limit", False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
async def test_file_that_cannot_be_read_is_named(here: Any, given: Path) -> None:
    """It is a fault of the profile that is told, not one of the program."""
    (given / "a").chmod(0)
    async with here.made(PROFILE) as universe:
        with pytest.raises(TwinError, match="given/a"):
            await universe.launch()


async def test_file_that_went_away_is_named(here: Any, given: Path) -> None:
    """A file that is gone between reading the profile and launching it is told by name."""
    async with here.made(
        PROFILE.replace("{src: given, dest: ~/given, recursive: true}", "{src: given/a, dest: ~/x}")
    ) as u:
        (given / "a").unlink()
        with pytest.raises(TwinError, match="given/a") as caught:
            await u.launch()
    assert caught.value.code == "source_unreadable"
