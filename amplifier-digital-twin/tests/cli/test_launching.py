"""Universes from launch to destroy, through real keeper processes."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Wait = Callable[[Callable[[], object]], None]


def test_universe_lives_from_launch_to_destroy(twin: Any, runs: Callable[[int], bool]) -> None:
    """What was launched can be listed, asked, used and destroyed, and then nothing of it is left."""
    launched = twin.run("launch", str(twin.profile), "--name", "mine")
    assert launched.code == 0
    identifier = launched.record["id"]
    assert "launching in mode ok" in launched.stderr
    assert launched.record["ports"] == [{"label": "web", "host": 1234, "container": 80}]
    [listed] = twin.run("list").record["universes"]
    assert (listed["id"], listed["name"], listed["phase"], listed["backend"]) == (
        identifier,
        "mine",
        "ready",
        "pretend",
    )
    keeper = listed["keeper"]
    assert runs(keeper)
    status = twin.run("status", "mine")
    assert (status.code, status.record["twin"], status.record["phase"]) == (0, "running", "ready")
    destroyed = twin.run("destroy", identifier[:8])
    assert (destroyed.code, destroyed.record) == (0, {"id": identifier, "destroyed": True})
    assert not runs(keeper)
    assert twin.universes() == []
    assert twin.run("list").record == {"universes": [], "faults": {}}
    assert twin.notes == f"{identifier} destroyed\n"


def test_folders_are_closed_to_others(twin: Any) -> None:
    """Nobody else can look into the folder of a universe, or into the one of all of them."""
    identifier = twin.launch()
    for folder in (twin.folder / "universes", twin.folder / "universes" / identifier):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in ("state.json", "request.json", "log.jsonl"):
        assert (twin.folder / "universes" / identifier / name).exists()


def test_keeper_is_in_a_session_of_its_own(twin: Any) -> None:
    """A keeper belongs to no terminal, so that closing one does not end universes."""
    pid = twin.state(twin.launch())["holder"]["pid"]
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.readlink(f"/proc/{pid}/fd/0") == os.devnull


def test_name_can_be_used_once(twin: Any) -> None:
    """A second launch with the same name is an error, and leaves the first one alone."""
    identifier = twin.launch("--name", "mine")
    again = twin.run("launch", str(twin.profile), "--name", "mine")
    assert (again.code, again.record["error"]["code"]) == (2, "name_taken")
    assert identifier in again.record["error"]["message"]
    assert twin.universes() == [identifier]
    twin.run("destroy", "mine")
    assert twin.launch("--name", "mine") != identifier


def test_concurrent_launches_with_one_name_give_one_universe(twin: Any) -> None:
    """However many ask for a name at the same time, one gets it."""
    started = [twin.start("launch", str(twin.profile), "--name", "mine") for _ in range(4)]
    ends = [(process.communicate(timeout=90), process.returncode) for process in started]
    assert sorted(code for _, code in ends) == [0, 2, 2, 2]
    assert {json.loads(out)["error"]["code"] for (out, _), code in ends if code} == {"name_taken"}
    assert len(twin.universes()) == 1


def test_concurrent_universes_do_not_meet(twin: Any) -> None:
    """Universes that were launched at the same time have their own keepers, files and answers."""
    started = [twin.start("launch", str(twin.profile)) for _ in range(3)]
    identifiers = [json.loads(process.communicate(timeout=90)[0])["id"] for process in started]
    assert len({twin.state(identifier)["holder"]["pid"] for identifier in identifiers}) == 3
    for identifier in identifiers:
        twin.run("exec", identifier, "--", f"echo {identifier} > own")
    for identifier in identifiers:
        assert twin.run("exec", identifier, "--", "cat", "own").record["stdout"] == f"{identifier}\n"
    twin.run("destroy", identifiers[1])
    assert twin.run("status", identifiers[0]).code == twin.run("status", identifiers[2]).code == 0


def test_failed_launch_leaves_nothing(twin: Any, runs: Callable[[int], bool]) -> None:
    """When a launch fails its error is told, and the universe is destroyed."""
    ended = twin.run("launch", str(twin.profile), "--var", "MODE=fail")
    assert (ended.code, ended.record["error"]["code"]) == (2, "pretend_failed")
    assert "the launch failed as asked for" in ended.stderr
    assert twin.universes() == []
    assert "destroyed" in twin.notes


def test_failed_launch_is_kept_when_asked_for(twin: Any) -> None:
    """With --keep, one can look around in a universe whose launch failed."""
    ended = twin.run("launch", str(twin.profile), "--var", "MODE=fail", "--keep", "--name", "broken")
    assert (ended.code, ended.record["error"]["code"]) == (2, "pretend_failed")
    status = twin.run("status", "broken")
    assert (status.code, status.record["phase"]) == (1, "failed")
    assert twin.run("exec", "broken", "--", "echo", "here").record["stdout"] == "here\n"
    assert twin.run("destroy", "broken").code == 0
    assert twin.universes() == []


def test_fault_of_the_program_is_told_and_leaves_nothing(twin: Any) -> None:
    """A launch that ends in a fault nobody thought of is an error like any other."""
    ended = twin.run("launch", str(twin.profile), "--var", "MODE=crash", "--keep")
    assert (ended.code, ended.record["error"]["code"]) == (2, "internal")
    assert "RuntimeError: a fault of the program" in ended.record["error"]["message"]
    assert twin.universes() == []


def test_keeper_that_dies_while_launching_is_told_and_leaves_nothing(twin: Any) -> None:
    """The program says that the keeper died, and removes what it left."""
    ended = twin.run("launch", str(twin.profile), "--var", "MODE=die")
    assert (ended.code, ended.record["error"]["code"]) == (2, "keeper_ended")
    assert "-9" in ended.record["error"]["message"]
    assert twin.universes() == []


def test_keeper_that_cannot_start_tells_its_last_words(twin: Any) -> None:
    """What a keeper wrote before it ended is part of the error."""
    twin.environ["AMPLIFIER_DIGITAL_TWIN_FACTORY"] = "no_such_module:make"
    ended = twin.run("launch", str(twin.profile))
    assert ended.code == 2
    assert "no_such_module" in ended.record["error"]["message"]
    assert twin.universes() == []


def test_lease_ends_the_universe(twin: Any, wait_until: Wait) -> None:
    """A universe whose lease is over is destroyed by its keeper."""
    identifier = twin.launch("--lease", "8s")  # it counts from the start: the launch has to fit into it
    wait_until(lambda: not twin.universes())
    assert f"{identifier} destroyed" in twin.notes


def test_universe_that_ends_by_itself_is_removed(twin: Any, wait_until: Wait) -> None:
    """When the universe says that it is over, its keeper destroys it."""
    twin.launch("--var", "MODE=short")
    wait_until(lambda: not twin.universes())
    assert "destroyed" in twin.notes


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--lease", "soon"), "bad_argument"),
        (("--var", "MODE"), "bad_argument"),
        (("--var", "MDOE=ok"), "profile_invalid"),
        (("--name", "Not a name"), "name_invalid"),
        (("--name", "dtu-mine"), "name_invalid"),
    ],
)
def test_bad_arguments_make_nothing(twin: Any, arguments: tuple[str, ...], code: str) -> None:
    """What is wrong on the command line is told before anything is made."""
    ended = twin.run("launch", str(twin.profile), *arguments)
    assert (ended.code, ended.record["error"]["code"]) == (2, code)
    assert twin.universes() == []


def test_missing_secret_is_told_before_anything_is_made(twin: Any) -> None:
    """A profile that needs a variable of the environment says which."""
    twin.profile.write_text("dtu: 1\nname: p\nsecrets: [{env: NEEDED_KEY}]\n", encoding="utf-8")
    ended = twin.run("launch", str(twin.profile))
    assert (ended.code, ended.record["error"]["code"]) == (2, "secret_missing")
    assert "NEEDED_KEY" in ended.record["error"]["message"]
    assert twin.universes() == []


def test_keeper_knows_only_what_it_needs_of_the_environment(twin: Any) -> None:
    """Variables that neither the profile nor the services need do not reach the keeper."""
    twin.environ |= {"PRETEND_KEY": "s3cret-of-the-profile", "OTHER_TOKEN": "s3cret-of-others", "https_proxy": "x:1"}
    twin.environ |= {"UV_INDEX_URL": "u", "PIP_INDEX_URL": "p", "SSL_CERT_FILE": "/c", "LC_ALL": "C.UTF-8"}
    names = set(twin.run("status", twin.launch()).record["environment"])
    assert {"PRETEND_KEY", "https_proxy", "UV_INDEX_URL", "PIP_INDEX_URL", "SSL_CERT_FILE", "HOME", "PATH"} <= names
    assert "OTHER_TOKEN" not in names


def test_secrets_and_variables_are_in_no_file_and_no_command_line(twin: Any) -> None:
    """Values of secrets and of variables stay in memory: not in the folder, not in the keeper's arguments."""
    twin.environ["PRETEND_KEY"] = "s3cret-of-the-profile"
    identifier = twin.launch("--var", "MODE=t0ken-in-a-variable")
    pid = twin.state(identifier)["holder"]["pid"]
    texts = [path.read_bytes() for path in (twin.folder / "universes").rglob("*") if path.is_file()]
    texts.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    assert texts
    for text in texts:
        assert b"s3cret-of-the-profile" not in text
        assert b'"t0ken-in-a-variable"' not in text


def test_long_paths_work(twin: Any, tmp_path: Path) -> None:
    """A home whose path is longer than the address of a socket may be works like any other."""
    deep = tmp_path / ("a folder with a very long näme " * 4) / ("and another one " * 8) / "home"
    twin.environ["AMPLIFIER_HOME"] = str(deep)
    twin.folder = deep / "digital-twin"
    identifier = twin.launch()
    assert twin.run("exec", identifier, "--", "echo", "far").record["stdout"] == "far\n"
    assert twin.run("destroy", identifier).code == 0
    assert twin.universes() == []
