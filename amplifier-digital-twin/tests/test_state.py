"""What is written of a universe."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.registry import Found, Registry, Wish
from amplifier_digital_twin.state import Place, State, TwinPlace


@pytest.fixture
def found(tmp_path: Path) -> Found:
    """Return a new universe."""
    return Registry(tmp_path / "digital-twin").create(Wish("mine", "profile", tmp_path / "profile.yaml", 60.0))


def test_state_is_read_as_it_was_written(found: Found) -> None:
    """Every field survives."""
    assert found.place.read() == found.state
    state = found.place.update(phase="ready", ports=({"host": 1},), backend="podman")
    assert found.place.read() == state
    assert State.from_record(json.loads(json.dumps(state.record()))) == state


def test_twins_are_written_before_they_are_made(found: Found) -> None:
    """A twin is noted once, with its backend, and forgotten when it was removed."""
    for _ in range(2):
        found.place.add_twin("podman", "dtu-1-build", found.place.folder / "build")
    found.place.add_twin("embedded", "dtu-1", found.place.folder)
    state = found.place.read()
    assert state.twins[0] == TwinPlace("podman", "dtu-1-build", found.place.folder / "build")
    assert len(state.twins) == 2
    found.place.remove_twin("dtu-1-build")
    assert [twin.id for twin in found.place.read().twins] == ["dtu-1"]


def test_write_leaves_the_old_state_when_it_fails(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full costs the change, not the state."""

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        found.place.update(phase="ready")
    assert found.place.read().phase == "starting"
    assert {path.name for path in found.place.folder.iterdir()} == {"state.json"}


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b"\xff", b'{"schema": 2}'])
def test_state_that_is_none_is_told(found: Found, content: bytes) -> None:
    """Half a file, another schema, anything else: an error that names the file."""
    found.place.state_file.write_bytes(content)
    with pytest.raises(TwinError) as fault:
        found.place.read()
    assert (fault.value.code, str(found.place.state_file) in fault.value.message) == ("state_invalid", True)


def test_lock_is_held_by_one(found: Found) -> None:
    """Who does not get the lock is told at once, and it is free again afterwards."""
    with found.place.held() as first, found.place.held() as second:
        assert (first, second) == (True, False)
    with found.place.held() as again:
        assert again


def test_missing_universe_is_told(tmp_path: Path) -> None:
    """A folder that is gone has a code of its own."""
    with pytest.raises(TwinError) as fault:
        Place(tmp_path / "gone").read()
    assert fault.value.code == "universe_gone"


def test_universe_is_found_by_what_is_typed(tmp_path: Path, found: Found) -> None:
    """Identifier, name, and unique start with or without what all have in common."""
    registry = Registry(tmp_path / "digital-twin")
    for given in (found.state.id, "mine", found.state.id[:9], found.state.id[4:]):
        assert registry.get(given).state.id == found.state.id
    for given in ("min", "", "dtu-zzz"):
        with pytest.raises(TwinError, match="there is no universe"):
            registry.get(given)
