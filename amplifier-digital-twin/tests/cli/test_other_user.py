"""Two users of one machine: each has universes, and neither touches the other's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import amplifier_core
import amplifier_digital_twin
import amplifier_foundation
import amplifier_kit

_UID = 1001


@pytest.fixture
def other(twin: Any) -> Iterator[Any]:
    """Return a way to run the program as another user, in a home of that user's."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None or not _is_fit(python):
        pytest.skip("there is no python3 of 3.11 or later that every user can run")
    home = Path(tempfile.mkdtemp(prefix="other-user-"))
    profile = home / "pretend.yaml"
    profile.write_bytes(twin.profile.read_bytes())
    for path in (home, profile):
        os.chown(path, _UID, _UID)
    packages = [amplifier_core, amplifier_kit, amplifier_foundation, amplifier_digital_twin, click]
    roots = [str(Path(str(package.__file__)).parents[1]) for package in packages]
    twin.environ["PYTHONPATH"] = os.pathsep.join([twin.environ["PYTHONPATH"], *roots])
    environ = {**twin.environ, "HOME": str(home), "AMPLIFIER_HOME": str(home / ".amplifier")}

    def run(*arguments: str) -> Any:
        ended = subprocess.run(
            [python, "-m", "amplifier_digital_twin", *arguments],
            env=environ,
            capture_output=True,
            text=True,
            timeout=90,
            user=_UID,
            group=_UID,
            extra_groups=[],
            cwd="/",
            check=False,
        )
        return ended.returncode, json.loads(ended.stdout or ended.stderr)

    run.home = home  # type: ignore[attr-defined]
    run.profile = str(profile)  # type: ignore[attr-defined]
    if subprocess.run([python, "-c", "import click, yaml"], env=environ, user=_UID, check=False).returncode:
        pytest.skip("the installed packages cannot be read by other users")
    yield run
    for state in home.rglob("state.json"):
        os.kill(json.loads(state.read_bytes())["holder"]["pid"], 9)
    shutil.rmtree(home)


def _is_fit(python: str) -> bool:
    code = f"import sys; sys.exit(sys.version_info[:2] != {tuple(__import__('sys').version_info[:2])!r})"
    return subprocess.run([python, "-c", code], check=False).returncode == 0


def test_another_user_has_universes(other: Any) -> None:
    """Everything works without being root."""
    code, launched = other("launch", other.profile)
    assert code == 0
    assert other("exec", launched["id"], "--", "id -u")[1]["stdout"] == f"{_UID}\n"
    assert other("destroy", launched["id"])[0] == 0
    assert list((other.home / ".amplifier" / "digital-twin" / "universes").glob("dtu-*")) == []


def test_folders_that_deny_everything_are_removed_without_being_root(other: Any) -> None:
    """What an overlay leaves, a folder without permissions, does not stop its owner's prune."""
    _, launched = other("launch", other.profile)
    folder = other.home / ".amplifier" / "digital-twin" / "universes" / launched["id"]
    os.kill(json.loads((folder / "state.json").read_bytes())["holder"]["pid"], 9)
    while True:
        code, pruned = other("prune", "--mine")
        if pruned["removed"]:
            break
    assert (code, pruned["removed"]) == (0, [launched["id"]])
    assert not folder.exists()


def test_root_does_not_touch_the_universes_of_another_user(other: Any, twin: Any) -> None:
    """Not even root's prune, exec or destroy reaches into them, dead or alive; the keeper itself refuses, too."""
    _, launched = other("launch", other.profile)
    identifier = launched["id"]
    twin.environ["AMPLIFIER_HOME"] = str(other.home / ".amplifier")
    assert twin.run("prune", "--mine").record["kept"] == {identifier: f"it belongs to user {_UID}"}
    for arguments in (("exec", identifier, "--", "true"), ("destroy", identifier)):
        ended = twin.run(*arguments)
        assert (ended.code, ended.record["error"]["code"]) == (2, "not_yours")
    folder = other.home / ".amplifier" / "digital-twin" / "universes" / identifier
    assert _ask_as_root(folder / "control.sock") == "not_yours"
    assert other("exec", identifier, "--", "true")[0] == 0


def _ask_as_root(path: Path) -> str:
    from amplifier_digital_twin.control_client import ask, connect
    from amplifier_digital_twin.errors import TwinError

    with pytest.raises(TwinError) as refused:
        ask(connect(path), "destroy", patience=30)
    return str(refused.value.code)


def test_another_user_cannot_look_into_the_universes_of_root(other: Any, twin: Any) -> None:
    """A home that others can enter still keeps its universes to itself."""
    identifier = twin.launch()
    folder = twin.folder / "universes"
    for path in (*folder.parents,):
        if path.stat().st_uid == 0 and str(path).startswith(str(twin.home.parent)):
            path.chmod(0o755)
    ended = subprocess.run(
        ["ls", str(folder / identifier)], user=_UID, group=_UID, extra_groups=[], capture_output=True, check=False
    )
    assert ended.returncode != 0


def test_root_makes_no_universe_in_the_home_of_another_user(other: Any, twin: Any) -> None:
    """Whoever owns the folders could change what root's universe is made of: it is refused, and theirs live on."""
    _, launched = other("launch", other.profile)
    twin.environ["AMPLIFIER_HOME"] = str(other.home / ".amplifier")
    ended = twin.run("launch", str(twin.profile))
    assert (ended.code, ended.record["error"]["code"]) == (2, "home_unsafe")
    code, pruned = other("prune", "--mine")
    assert (code, pruned["failed"], pruned["removed"]) == (0, {}, [])
    assert other("status", launched["id"])[0] == 0


def test_another_user_leaves_what_root_made_in_their_home(other: Any) -> None:
    """A universe of root's in somebody's own home is shown as not theirs, and prune goes on without it."""
    _, launched = other("launch", other.profile)
    universes = other.home / ".amplifier" / "digital-twin" / "universes"
    (universes / "dtu-00000000").mkdir(mode=0o700)
    code, pruned = other("prune", "--mine")
    assert (code, pruned["failed"], pruned["removed"]) == (0, {}, [])
    assert pruned["kept"]["dtu-00000000"] == "it belongs to user 0"
    assert other("status", launched["id"])[0] == 0
