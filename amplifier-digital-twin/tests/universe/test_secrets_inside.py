"""Secrets: commands see them by name, and nothing that lasts or can be looked at from outside has them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.errors import TwinError

PROFILE = """
network: {mode: gateway}
secrets: [{env: TWIN_TEST_KEY}, {env: TWIN_TEST_ABSENT, optional: true}]
mocks: [{name: m, run: python3 ~/echo.py 3000 "$TWIN_TEST_KEY", port: 3000, domains: [api.example.com]}]
provision:
  files: [{src: echo.py, dest: ~/echo.py}]
  commands: ['test -n "$TWIN_TEST_KEY"; echo "the key is $TWIN_TEST_KEY" >&2']
checks:
  - {name: seen, run: 'echo "key: $TWIN_TEST_KEY"; echo {\\"key\\": \\"$TWIN_TEST_KEY\\"} > ~/told.json'}
  - {name: fails, run: 'echo "$TWIN_TEST_KEY" >&2; exit 1'}
artifacts: [~/told.json]
"""


def holders(folder: Path, value: str) -> list[str]:
    """Return the files below a folder that have a value in them, or its base64, in content or name."""
    needles = [value.encode(), base64.b64encode(value.encode())]
    found = []
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        if any(needle in content or needle in os.fsencode(path) for needle in needles):
            found.append(str(path))
    return found


def command_lines() -> Iterator[bytes]:
    """Give the arguments of every process of the host but this one."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.parent.name != str(os.getpid()):
                yield entry.read_bytes()
        except OSError:
            pass  # it has ended


async def test_secret_is_seen_by_commands_and_found_nowhere(here: Any, say: Any, tmp_path: Path) -> None:
    """Its value is in the environment of commands; in no file, log, layer, snapshot, evidence or argument."""
    value = f"sk-{uuid.uuid4().hex}"
    environ = {"TWIN_TEST_KEY": value, "OTHER_OF_THE_HOST": "not-for-universes"}
    profile = PROFILE.replace(' "$TWIN_TEST_KEY",', " x,")
    async with here.launched(profile, environ) as universe:
        assert await say(universe, 'echo "$TWIN_TEST_KEY"; env | grep -c "ABSENT\\|OTHER_OF"') == f"{value}\n0\n"
        long = asyncio.create_task(universe.exec('sleep 2; test -n "$TWIN_TEST_KEY"', None, 30, None))
        await asyncio.sleep(0.7)
        assert not any(value.encode() in line for line in command_lines())
        assert (await long).exit_code == 0
        await universe.snapshot("kept")
        assert holders(tmp_path, value) == []
        verdict = await universe.check()
        assert verdict["verdict"] == "fail"
        assert value not in json.dumps(verdict)
        await say(universe, "rm ~/told.json")
        assert holders(tmp_path, value) == []
    assert (here.evidence / "artifacts").is_dir()
    assert holders(tmp_path, value) == []
    assert list(here.cache.glob("embedded/*/layers/*")), "the layer was kept"


async def test_layer_with_a_secret_in_it_is_not_kept(here: Any, say: Any, tmp_path: Path) -> None:
    """What provisioning writes down stays in this universe; the next one provisions again, and a reset does not."""
    value = f"sk-{uuid.uuid4().hex}"
    profile = (
        PROFILE
        + """
limits: {disk: 1g}
"""
    )
    profile = profile.replace(">&2']", "> ~/key; date +%s%N > ~/when']").replace(' "$TWIN_TEST_KEY",', " x,")
    for _ in range(2):
        async with here.launched(profile, {"TWIN_TEST_KEY": value}) as universe:
            assert (await universe.status())["warm"] is False
            log = universe.place.log.read_text(encoding="utf-8")
            assert "a secret is in /home/user/key" in log
            when = await say(universe, "cat ~/when")
            await universe.reset(None)
            assert await say(universe, "cat ~/when") == when
            assert await say(universe, "cat ~/key") == f"the key is {value}\n"
    assert holders(tmp_path, value) == []
    assert list(here.cache.glob("embedded/*/layers/*")) == []


async def test_snapshot_with_a_secret_in_it_is_refused(here: Any, say: Any, tmp_path: Path) -> None:
    """A file with its value in it is in no snapshot; without that file one can be made, and gone back to."""
    value = f"sk-{uuid.uuid4().hex}"
    async with here.launched("secrets: [{env: TWIN_TEST_KEY}]", {"TWIN_TEST_KEY": value}) as universe:
        await say(universe, 'echo "$TWIN_TEST_KEY" > ~/told; echo mine > ~/mark')
        with pytest.raises(TwinError, match="/home/user/told") as caught:
            await universe.snapshot("kept")
        assert (caught.value.code, value in caught.value.message) == ("secret_in_files", False)
        await say(universe, "rm ~/told")
        assert holders(tmp_path, value) == []
        await universe.snapshot("kept")
        await universe.reset("kept")
        assert await say(universe, "cat ~/mark") == "mine\n"


async def test_failure_does_not_tell_the_secret(here: Any, tmp_path: Path) -> None:
    """The message of a failed command, the log and the evidence have a mask in its place."""
    value = f"sk-{uuid.uuid4().hex}"
    profile = "secrets: [{env: TWIN_TEST_KEY}]\nprovision: {commands: ['echo \"$TWIN_TEST_KEY\" >&2; exit 9']}"
    async with here.made(profile, {"TWIN_TEST_KEY": value}) as universe:
        with pytest.raises(TwinError, match="exit code 9") as caught:
            await universe.launch()
        assert value not in str(caught.value.record())
        assert "[secret]" in caught.value.message
        assert holders(tmp_path, value) == []
    assert json.loads((here.evidence / "error.json").read_bytes())["code"] == "provision_failed"
    assert holders(tmp_path, value) == []


async def test_with_and_without_an_optional_secret_are_two_layers(here: Any, say: Any) -> None:
    """What was provisioned without a secret is not what it would have been with it; which value it has is all one."""
    profile = (
        "secrets: [{env: TWIN_TEST_KEY, optional: true}]\nprovision: {commands: ['echo $TWIN_TEST_KEY | wc -c > x']}"
    )
    seen = []
    for environ in ({}, {"TWIN_TEST_KEY": "first-value"}, {"TWIN_TEST_KEY": "other-value"}, {}):
        async with here.launched(profile, environ) as universe:
            seen.append(((await universe.status())["warm"], await say(universe, "cat ~/x")))
    assert seen == [(False, "1\n"), (False, "12\n"), (True, "12\n"), (True, "1\n")]


async def test_secret_that_is_missing_is_named(here: Any) -> None:
    """A profile that needs a secret is not launched without; which one is in the message."""
    with pytest.raises(TwinError, match="TWIN_TEST_KEY") as caught:
        async with here.made("secrets: [{env: TWIN_TEST_KEY}]"):
            pass
    assert caught.value.code == "secret_missing"


async def test_what_looks_like_a_secret_is_in_no_log_and_no_evidence(here: Any, tmp_path: Path) -> None:
    """A token that no profile names is masked where the twin writes about a universe, and stays in its own files."""
    value = f"ghp_{uuid.uuid4().hex}Q7"
    body = "\n".join(f"{uuid.uuid4().hex}{uuid.uuid4().hex}" for _ in range(4))
    key = "\\\\n".join(["-----BEGIN PRIVATE KEY-----", *body.split(), "-----END PRIVATE KEY-----"])
    profile = f"""
    checks:
      - {{name: seen, run: 'echo "token {value}"; echo {value} > ~/told.txt; printf -- "{key}"'}}
      - {{name: fails, run: 'echo "Authorization: Bearer {value}" >&2; curl http://example.com/{value}; exit 1'}}
    artifacts: [~/told.txt]
    """
    async with here.launched(profile) as universe:
        assert (await universe.check())["verdict"] == "fail"
        about = [path for path in universe.place.folder.iterdir() if path.is_file()]
        assert [path.name for path in about if value.encode() in path.read_bytes()] == []
        (here.folder / "profile.yaml").unlink()  # the test's own
        for secret in (value, body.splitlines()[2]):
            found = [path for path in holders(tmp_path, secret) if "/universes/" not in path]
            assert found == []
    assert b"[REDACTED]" in (here.evidence / "artifacts/home/user/told.txt").read_bytes()
