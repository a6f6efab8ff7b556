"""Snapshots and resets: what the file system was comes back, and the world around it is there again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from amplifier_digital_twin.errors import TwinError

PROFILE = """
network: {mode: gateway}
mocks: [{name: m, run: python3 ~/echo.py 3000 here, port: 3000, domains: [api.example.com]}]
provision:
  files: [{src: echo.py, dest: ~/echo.py}]
  commands: ["echo provisioned > ~/mark; date +%s%N > ~/when"]
"""
CURL = "curl -sS --max-time 20"


async def asked(universe: Any, say: Any) -> int:
    """Return how often the mock was asked since it started; fails when something does not answer."""
    told = [
        json.loads(await say(universe, f"{CURL} {more} https://api.example.com/")) for more in ("", "--noproxy '*'")
    ]
    assert "403" in await say(universe, f"{CURL} -o /dev/null -w '%{{http_code}}' http://unlisted.example/")
    assert "<html>" in await say(universe, f"{CURL} $PIP_INDEX_URL")
    return int(told[1]["count"])


@pytest.mark.parametrize("is_warm", [False, True])
async def test_reset_to_the_start_keeps_what_provisioning_made(here: Any, say: Any, is_warm: bool) -> None:
    """Changes are gone, processes have ended, provisioning is as it was, and everything is served again."""
    if is_warm:
        async with here.launched(PROFILE):
            pass
    async with here.launched(PROFILE) as universe:
        assert (await universe.status())["warm"] is is_warm
        when = await say(universe, "cat ~/when")
        assert await asked(universe, say) == 2
        await say(universe, "rm ~/mark; touch ~/new; setsid sleep 987651 >/dev/null 2>&1 &")
        for _ in range(2):
            await universe.reset(None)
            assert await say(universe, "cat ~/mark; ls ~") == "provisioned\necho.py\nmark\nwhen\n"
            assert await say(universe, "cat ~/when") == when
            assert await say(universe, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '^987651'") == "0\n"
            assert await asked(universe, say) == 2, "the mock was started anew"


async def test_reset_to_a_snapshot(here: Any, say: Any) -> None:
    """A name brings back what was kept under it, as often as wanted, and the start is still there."""
    async with here.launched(PROFILE) as universe:
        await say(universe, "echo one > ~/state")
        await universe.snapshot("one")
        await say(universe, "echo two > ~/state; rm ~/mark")
        await universe.snapshot("two")
        await say(universe, "rm -r ~/.[a-z]* ~/state")
        for name, content in (("one", "one\nprovisioned\n"), ("two", "two\n"), ("one", "one\nprovisioned\n")):
            assert await universe.reset(name) == {"reset": name}
            assert await say(universe, "cat ~/state; cat ~/mark 2>/dev/null") == content
        assert await asked(universe, say) == 2
        await universe.reset(None)
        assert await say(universe, "cat ~/mark; ls ~") == "provisioned\necho.py\nmark\nwhen\n"


async def test_reset_to_an_unknown_snapshot_changes_nothing(here: Any, say: Any) -> None:
    """The universe goes on, with everything that serves it."""
    async with here.launched(PROFILE) as universe:
        await say(universe, "touch ~/new")
        with pytest.raises(TwinError) as caught:
            await universe.reset("never-made")
        assert caught.value.code == "snapshot_missing"
        assert await say(universe, "ls ~/new") == "/home/user/new\n"
        assert await asked(universe, say) == 2


async def test_reset_is_not_the_end(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a universe is reset its twin does not run, and whoever watches for its end must not see one."""
    monkeypatch.setattr("amplifier_digital_twin.universe._ALIVE_POLL", 0.001)
    async with here.launched() as universe:
        watch = asyncio.create_task(universe.ended())
        for _ in range(3):
            await universe.reset(None)
        assert not watch.done()
        await universe.twin.destroy()
        assert await asyncio.wait_for(watch, 60) == "its twin has ended"
