"""The key store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.settings.keys import KeyEntry, KeysError, KeyStore
from amplifier_kit.guard.processes.programs import command_environment
from amplifier_kit.guard.redaction import redactor

SECRET = "sk-0123456789-hunter2"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_without_a_file_there_are_no_keys(home: Home) -> None:
    """A missing file is not an error, and reading creates nothing."""
    keys = KeyStore(home, {})
    assert (keys.load(), keys.list(), keys.warnings) == ({}, [], [])
    assert keys.remove("NAME") is False
    assert not home.keys.exists()


def test_what_is_set_is_loaded(home: Home) -> None:
    """A key is found by another process, and the file is in the published form."""
    KeyStore(home, {}).set("NAME", SECRET)
    assert KeyStore(home, {}).load() == {"NAME": SECRET}
    assert home.keys.read_text(encoding="utf-8") == f'NAME="{SECRET}"\n'


def test_the_environment_wins(home: Home) -> None:
    """A variable that is set, even to nothing, is not overruled by the file."""
    keys = KeyStore(home, {"A": "env", "B": ""})
    for name in "ABC":
        keys.set(name, "file")
    assert keys.load() == {"A": "env", "B": "", "C": "file"}
    environ = {"A": "env", "B": ""}
    assert keys.apply(environ) == ["C"]
    assert environ == {"A": "env", "B": "", "C": "file"}


def test_no_command_is_given_a_key(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is kept or loaded is in the environment of no command, whatever its name and value."""
    monkeypatch.setattr(redactor, "_known", {})
    monkeypatch.setattr(redactor, "_key_names", set())
    keys = KeyStore(home, {})
    keys.set("ACME_LOGIN", "tr0ub4dor and more")
    keys.set("ACME_REGION", "north")
    redactor._key_names.clear()  # as in a process that has not set them
    environ = {"PATH": "/bin", "ACME_REGION": "south", "COPY": "tr0ub4dor and more"}
    KeyStore(home, environ).apply(environ)
    given, withheld = command_environment((), environ)
    assert withheld == ["ACME_LOGIN", "ACME_REGION", "COPY"]
    assert "PATH" in given


def test_other_lines_survive_a_change(home: Home) -> None:
    """Comments, order and other keys stay when one is set, replaced or removed."""
    home.path.mkdir(parents=True)
    home.keys.write_text("# mine\nA=1\n\nB='2'\nA=3\n# end\n", encoding="utf-8")
    keys = KeyStore(home, {})
    assert keys.load() == {"A": "3", "B": "2"}
    assert keys.warnings[-1].endswith("A is given twice: the last one counts")
    keys.set("A", "4")
    keys.set("C", "5")
    assert home.keys.read_text(encoding="utf-8") == '# mine\nA="4"\n\nB=\'2\'\n# end\nC="5"\n'
    assert keys.remove("A") is True
    assert home.keys.read_text(encoding="utf-8") == "# mine\n\nB='2'\n# end\nC=\"5\"\n"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_the_owner_may_read_the_file(home: Home, umask: int) -> None:
    """Whatever the umask, the file is 0600 from its first moment, and nothing else is left beside it but its lock."""
    before = os.umask(umask)
    try:
        keys = KeyStore(home, {})
        keys.set("NAME", SECRET)
        keys.set("NAME", SECRET + "2")
    finally:
        os.umask(before)
    assert mode(home.keys) == 0o600
    assert mode(home.keys.with_name("keys.env.lock")) == 0o600
    assert sorted(path.name for path in home.path.iterdir()) == ["keys.env", "keys.env.lock"]


def test_a_file_that_others_may_read_is_mended_and_told(home: Home) -> None:
    """Loading closes the file and says that it was open; the next load is quiet."""
    keys = KeyStore(home, {})
    keys.set("NAME", SECRET)
    home.keys.chmod(0o644)
    assert keys.load() == {"NAME": SECRET}
    assert mode(home.keys) == 0o600
    assert len(keys.warnings) == 1
    assert "other users could read your keys" in keys.warnings[0]
    again = KeyStore(home, {})
    again.load()
    assert again.warnings == []


def test_a_list_shows_where_keys_come_from_and_no_more_than_a_tail(home: Home) -> None:
    """Four characters of a long key are shown, none of one shorter than twelve."""
    keys = KeyStore(home, {"ENV": "env-hunter2-9876", "BOTH": "x", "PATH": "/bin"})
    keys.set("LONG", "abcdefgh1234")
    keys.set("SHORT", "abcdefg1234")
    keys.set("BOTH", "in the file, not used")
    assert keys.list(also=["ENV", "LONG", "NOT_SET"]) == [
        KeyEntry("LONG", "file", "1234"),
        KeyEntry("SHORT", "file", ""),
        KeyEntry("BOTH", "environment", ""),
        KeyEntry("ENV", "environment", "9876"),
    ]


def test_a_malformed_file_stops_everything_and_shows_nothing(home: Home) -> None:
    """Keys are never half loaded, and a broken file is not written over."""
    home.path.mkdir(parents=True)
    home.keys.write_text(f"A=1\n{SECRET}\n", encoding="utf-8")
    home.keys.chmod(0o600)
    keys = KeyStore(home, {})
    for act in (keys.load, keys.list, lambda: keys.set("B", SECRET), lambda: keys.remove("A")):
        with pytest.raises(KeysError, match=r"keys\.env:2: ") as caught:
            act()
        assert "hunter2" not in f"{caught.value!r}"
        assert caught.value.code == "keys_invalid"
    assert home.keys.read_text(encoding="utf-8") == f"A=1\n{SECRET}\n"


def test_a_home_that_cannot_be_written_to_is_a_clear_error(tmp_path: Path) -> None:
    """The error names the file and the reason and shows no value; loading finds no keys."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    home = Home(tmp_path / "file" / "home")
    keys = KeyStore(home, {})
    assert keys.load() == {}
    with pytest.raises(KeysError, match=r"keys\.env: cannot be written: Not a directory: .*environment") as caught:
        keys.set("NAME", SECRET)
    assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_home_is_a_clear_error(home: Home) -> None:
    """Keys can be read in a home that cannot be written to, and not be set."""
    keys = KeyStore(home, {})
    keys.set("NAME", SECRET)
    home.path.chmod(0o500)
    try:
        with pytest.raises(KeysError, match="Permission denied"):
            keys.set("NAME", "other")
        assert keys.load() == {"NAME": SECRET}
    finally:
        home.path.chmod(0o700)


def test_a_folder_in_place_of_the_file_is_reported(home: Home) -> None:
    """What stands where keys should, and cannot be read, is never taken for no keys."""
    home.keys.mkdir(parents=True)
    with pytest.raises(KeysError, match="cannot be read: Is a directory"):
        KeyStore(home, {}).load()


def test_a_link_stays_a_link(home: Home, tmp_path: Path) -> None:
    """Who keeps the file elsewhere finds the change there."""
    real = tmp_path / "elsewhere.env"
    real.write_text('A="1"\n', encoding="utf-8")
    real.chmod(0o600)
    home.path.mkdir(parents=True)
    home.keys.symlink_to(real)
    KeyStore(home, {}).set("B", "2")
    assert home.keys.is_symlink()
    assert real.read_text(encoding="utf-8") == 'A="1"\nB="2"\n'


def test_a_new_key_does_not_take_a_name_that_is_taken(home: Home) -> None:
    """Another value under the same name, in the file or the environment, is not overwritten or overruled."""
    keys = KeyStore(home, {"KEY_2": "env"})
    assert keys.set_new("KEY", "one") == "KEY"
    assert keys.set_new("KEY", "one") == "KEY"
    assert keys.set_new("KEY", "two") == "KEY_3"
    assert keys.load() == {"KEY": "one", "KEY_3": "two"}


def test_no_value_is_in_any_repr(home: Home) -> None:
    """A store that is logged by accident shows its place only."""
    keys = KeyStore(home, {"NAME": SECRET})
    keys.set("NAME", SECRET)
    keys.load()
    assert repr(keys) == f"KeyStore({str(home.keys)!r})"
    assert "hunter2"[:3] not in repr(keys.list())


def test_a_link_to_a_file_without_keys_leaves_that_file_alone(home: Home, tmp_path: Path) -> None:
    """Behind a link only a file of keys is closed to others: any other one is an error, and stays as it is."""
    other, real = tmp_path / "accounts", tmp_path / "real.env"
    other.write_text("root:x:0:0\n", encoding="utf-8")
    real.write_text('A="1"\n', encoding="utf-8")
    for file in (other, real):
        file.chmod(0o644)
    home.path.mkdir(parents=True)
    home.keys.symlink_to(other)
    with pytest.raises(KeysError, match=r"keys\.env:1: "):
        KeyStore(home, {}).load()
    assert mode(other) == 0o644
    home.keys.unlink()
    home.keys.symlink_to(real)
    assert KeyStore(home, {}).load() == {"A": "1"}
    assert mode(real) == 0o600
