"""Secrets are taken by name, and looked for in files without being shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.backends.twin import Finished, Run
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Profile, Secret, User
from amplifier_digital_twin.secret_values import SecretValues

PROFILE = Profile("p", Path("/p.yaml"), secrets=(Secret("A"), Secret("B", optional=True)))


class Searched:
    """A twin in which a search ends with a code and what it found."""

    def __init__(self, code: int, found: bytes = b"", *, has_root: bool = True) -> None:
        self.runs: list[Run] = []
        self._code, self._found, self._has_root = code, found, has_root

    async def run(self, run: Run, sink: Any = None) -> Finished:
        """Search."""
        if run.user.uid == 0 and not self._has_root:
            raise TwinError("user_unavailable", "no root here", "be root")
        self.runs.append(run)
        return Finished(self._code, self._found, b"", False, False, 0.0)


def test_only_what_the_profile_names_is_taken() -> None:
    """An empty value is none."""
    assert SecretValues.of(PROFILE, {"A": "one", "B": "", "C": "three"}).by_name == {"A": "one"}
    with pytest.raises(TwinError, match="needs A") as caught:
        SecretValues.of(PROFILE, {"A": "", "B": "two"})
    assert caught.value.code == "secret_missing"


async def test_values_are_looked_for_and_not_shown() -> None:
    """They go in by standard input: arguments and environments of processes can be seen."""
    twin = Searched(1)
    secrets = SecretValues({"A": "a-long-value", "B": "short", "C": "first\nthe longest line\n"})
    await secrets.check_files(twin, User())  # type: ignore[arg-type]
    [run] = twin.runs
    assert run.stdin == b"a-long-value\nthe longest line\n"
    assert run.user.uid == 0
    shown = f"{run.argv} {run.environment}"
    assert "a-long-value" not in shown
    assert "longest line" not in shown


@pytest.mark.parametrize(
    ("code", "found", "told"),
    [(0, b"/home/user/key\n", "/home/user/key"), (2, b"", "cannot be told"), (127, b"", "cannot be told")],
)
async def test_secret_in_a_file_or_in_doubt_is_an_error(code: int, found: bytes, told: str) -> None:
    """What cannot be searched counts as having it."""
    with pytest.raises(TwinError, match=told) as caught:
        await SecretValues({"A": "a-long-value"}).check_files(Searched(code, found), User())  # type: ignore[arg-type]
    assert caught.value.code == "secret_in_files"


async def test_without_root_the_user_searches() -> None:
    """Where only one user can exist, every file is that user's."""
    twin = Searched(1, has_root=False)
    await SecretValues({"A": "a-long-value"}).check_files(twin, User())  # type: ignore[arg-type]
    assert [run.user for run in twin.runs] == [User()]


async def test_without_secrets_nothing_is_searched() -> None:
    """Values too short to be told from ordinary text are not looked for."""
    twin = Searched(0)
    for values in ({}, {"A": "12345"}):
        await SecretValues(values).check_files(twin, User())  # type: ignore[arg-type]
    assert twin.runs == []
