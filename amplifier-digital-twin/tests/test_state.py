"""Universes on disk: made, found, dead or alive, and removed when their holder is gone."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from amplifier_digital_twin import lifecycle
from amplifier_digital_twin.engines.engine import LABEL_HOME, LABEL_ID, LABEL_USER
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.processes import ProcessIdentity, end_processes, start_process
from amplifier_digital_twin.state import Found, Home

from .fake_engine import HostEngine


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return an empty home."""
    return Home(tmp_path / "digital-twin")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> HostEngine:
    """Let one engine without real containers be the only one."""
    made = HostEngine()
    monkeypatch.setattr(lifecycle, "all_engines", lambda: {"host": made})
    monkeypatch.setattr(lifecycle, "engine_named", lambda name: made)
    return made


def _create(home: Home, name: str | None = None, lease: float = 3600) -> Found:
    return home.create(name=name, profile="p", profile_path=Path("/p.yaml"), lease=lease)


def _dead() -> ProcessIdentity:
    process = subprocess.Popen(["true"])
    identity = ProcessIdentity(pid=process.pid, start_time=1)
    process.wait()
    return identity


def test_a_universe_is_found_by_all_its_names(home: Home) -> None:
    """Identifier, a unique start of it, with and without the prefix, and the name all mean the same one."""
    made = _create(home, "mine")
    for given in (made.state.id, made.state.id[:-1], made.state.id.removeprefix("dtu-"), "mine"):
        assert home.find(given).state == made.state


def test_unknown_and_ambiguous_names_are_errors(home: Home) -> None:
    """A typing error gets a suggestion, and a start that several share is not guessed."""
    _create(home, "mine")
    _create(home)
    with pytest.raises(TwinError, match="did you mean 'mine'"):
        home.find("mime")
    with pytest.raises(TwinError) as caught:
        home.find("dtu-")
    assert caught.value.code == "universe_ambiguous"


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "-a", "dtu-1", "x" * 41, "ü"])
def test_unfit_names_are_refused(home: Home, name: str) -> None:
    """A name must be fit for a container and a host, and must not look like an identifier."""
    with pytest.raises(TwinError) as caught:
        _create(home, name)
    assert caught.value.code == "name_invalid"


def test_a_name_is_taken_once(home: Home) -> None:
    """Two universes never share a name."""
    _create(home, "mine")
    with pytest.raises(TwinError) as caught:
        _create(home, "mine")
    assert caught.value.code == "name_taken"


def test_a_universe_lives_as_long_as_its_holder_and_lease(home: Home) -> None:
    """Another process of the same number, another boot, or the end of the lease each end it."""
    state = _create(home).state
    assert state.is_alive
    assert not state.model_copy(update={"holder": replace_start(state.holder)}).is_alive
    assert not state.model_copy(update={"boot": "another"}).is_alive
    assert not state.model_copy(update={"lease_until": time.time() - 1}).is_alive


def replace_start(identity: ProcessIdentity) -> ProcessIdentity:
    """Return a process that had the same number before."""
    return ProcessIdentity(pid=identity.pid, start_time=identity.start_time - 1)


def test_a_damaged_state_is_reported_and_nothing_is_touched(home: Home, engine: HostEngine) -> None:
    """What cannot be judged is neither listed nor removed, but named."""
    made = _create(home)
    made.folder.state_file.write_text("{", encoding="utf-8")
    assert list(home.find_all()[1]) == [made.folder.path]
    assert list(lifecycle.prune(home)["failed"]) == [str(made.folder.path)]
    assert made.folder.path.exists()


def test_prune_removes_the_dead_and_leaves_the_living(home: Home, engine: HostEngine) -> None:
    """Directories, containers and processes of dead universes go; those of living ones stay."""
    living, dead = _create(home), _create(home)
    process = subprocess.Popen(["sleep", "60"])
    dead.folder.update(holder=_dead(), services=ProcessIdentity.of(process.pid), engine="host")
    labels = {LABEL_HOME: str(home.path), LABEL_USER: str(os.geteuid())}
    engine.containers = {
        f"amplifier-twin-{living.state.id}": {**labels, LABEL_ID: living.state.id},
        f"amplifier-twin-{dead.state.id}": {**labels, LABEL_ID: dead.state.id},
        "amplifier-twin-dtu-ffffffff-build": {**labels, LABEL_ID: "dtu-ffffffff"},
        "amplifier-twin-dtu-eeeeeeee": {**labels, LABEL_HOME: "/elsewhere", LABEL_ID: "dtu-eeeeeeee"},
        "amplifier-twin-dtu-dddddddd": {**labels, LABEL_USER: "12345", LABEL_ID: "dtu-dddddddd"},
        "somebody-elses": {},
    }
    record = lifecycle.prune(home)
    assert record == {"removed": sorted([dead.state.id, "dtu-ffffffff"]), "kept": [living.state.id], "failed": {}}
    assert [name.removeprefix("amplifier-twin-") for name in engine.containers] == [
        *(living.state.id, "dtu-eeeeeeee", "dtu-dddddddd", "somebody-elses")
    ]
    assert living.folder.path.exists()
    assert not dead.folder.path.exists()
    assert process.wait(5) is not None


def test_prune_removes_a_launch_that_was_killed_before_it_had_a_name(home: Home, engine: HostEngine) -> None:
    """Directories of killed creations and removals go, and one that a straggler made again, without a state."""
    _create(home)
    names = (".new-dtu-12345678", ".old-dtu-12345678", "dtu-12345678")
    for name in names:
        (home.universes / name).mkdir()
    lifecycle.prune(home)
    assert [name for name in names if (home.universes / name).exists()] == []


def test_another_users_universe_is_not_touched(home: Home, engine: HostEngine) -> None:
    """A universe that belongs to another user, or lies where others can write, is refused."""
    made = _create(home)
    made.folder.update(owner=os.geteuid() + 1)
    with pytest.raises(TwinError) as caught:
        lifecycle.destroy(home.find(made.state.id), home)
    assert caught.value.code == "not_yours"
    made.folder.update(owner=os.geteuid())
    made.folder.path.chmod(0o777)
    with pytest.raises(TwinError) as caught:
        lifecycle.destroy(home.find(made.state.id), home)
    assert caught.value.code == "not_yours"


def test_a_process_that_got_the_number_later_is_not_ended() -> None:
    """Only the very process that was started is ever ended."""
    process = subprocess.Popen(["sleep", "60"])
    identity = ProcessIdentity.of(process.pid)
    try:
        assert end_processes([replace_start(identity)]) == []
        assert process.poll() is None
    finally:
        assert end_processes([identity]) == []
        process.wait()
    assert not identity.is_running()


def test_a_service_that_does_not_start_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    """What the process wrote is in the error, not only in a log."""
    config = tmp_path / "services.json"
    config.write_text("not json", encoding="utf-8")
    started: list[ProcessIdentity] = []
    with pytest.raises(TwinError, match="Invalid JSON"):
        start_process("amplifier_digital_twin.services.process", config, tmp_path / "log", started.append)
    assert len(started) == 1
