"""Whom users inside are on the host."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin.embedded.id_maps import COUNT, FIRST_ID, IdMap, Range, subordinate_ids
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import User

OWN = User("user", 1000)


def test_subordinate_ids_are_found_by_name_and_number(tmp_path: Path) -> None:
    """Both ways of naming a user count, several stretches are joined, and other users' lines do not."""
    me = pwd.getpwuid(os.getuid())
    file = tmp_path / "subuid"
    text = f"\ufeff\r\n# comment\nelse:1:65536\n{me.pw_name}:1000:30000\r\n{me.pw_uid}:90000:50000\nbroken:::\n"
    file.write_text(text, encoding="utf-8", newline="")
    assert subordinate_ids(file, me.pw_uid) == (Range(1, 1000, 30000), Range(30001, 90000, COUNT - 30001))


def test_too_few_subordinate_ids_are_none(tmp_path: Path) -> None:
    """A user whose stretch does not reach `nobody` has no use for it."""
    file = tmp_path / "subuid"
    file.write_text(f"{os.getuid()}:1000:1000\n", encoding="utf-8")
    assert subordinate_ids(file, os.getuid()) == ()
    assert subordinate_ids(tmp_path / "none", os.getuid()) == ()


def test_a_user_without_an_account_has_none(tmp_path: Path) -> None:
    """The program that writes the map refuses him, so his line is not counted on."""
    file = tmp_path / "subuid"
    file.write_text("54321:100000:65536\n", encoding="utf-8")
    assert subordinate_ids(file, 54321) == ()


@given(st.text(max_size=200))
def test_no_file_of_ids_is_a_fault(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Whatever is in the file, reading it gives stretches that follow each other and end in time."""
    file = tmp_path_factory.mktemp("ids") / "subuid"
    file.write_text(f"{os.getuid()}:5:70000\n{text}", encoding="utf-8", errors="replace")
    inside = 1
    for entry in subordinate_ids(file, os.getuid()):
        assert entry.inside == inside
        inside += entry.length
    assert inside == COUNT


def test_root_of_the_host_is_nobody_inside() -> None:
    """A universe that root makes has ids of its own, far from any account."""
    if os.geteuid() != 0:
        assert IdMap.of_this_user().kind in {"single", "subordinate"}
        return
    ids = IdMap.of_this_user()
    assert ids.kind == "range"
    assert ids.uids == (Range(0, FIRST_ID, COUNT),)
    assert ids.owner(1000) == (FIRST_ID + 1000, FIRST_ID + 1000)


def test_only_one_user_without_root() -> None:
    """In a map of one user nobody else can be, root least of all, and the error says what would help."""
    ids = IdMap("single", (Range(0, 1, 1),), (Range(0, 1, 1),))
    ids.check_user(OWN, OWN)
    for user in (User("root", 0), User("else", 1001)):
        with pytest.raises(TwinError, match="cannot exist") as caught:
            ids.check_user(user, OWN)
        assert "usermod" in caught.value.remedy


def test_ids_inside_have_an_end() -> None:
    """A user whose number is not in the map is refused before anything is made."""
    ids = IdMap("range", (Range(0, 1, COUNT),), (Range(0, 1, COUNT),))
    ids.check_user(User("last", COUNT - 2), OWN)
    for number in (-1, COUNT - 1, COUNT, 2**31):
        with pytest.raises(TwinError, match="is not one of"):
            ids.check_user(User("far", number), OWN)
