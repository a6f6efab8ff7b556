"""Keys that lie in the keyring of the system."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping

import keyring.core
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, NoKeyringError

from amplifier_foundation.paths import Home
from amplifier_foundation.settings.keys import KeyEntry, KeysError, KeyStore

SECRET = "sk-0123456789-hunter2"


class Drawer(KeyringBackend):
    """A keyring in memory; with a fault, one that fails; with an event, one that hangs until it is set."""

    priority = 0.1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # keyring does not annotate it
        self.held: dict[tuple[str, str], str] = {}
        self.fault: Exception | None = None
        self.hangs: threading.Event | None = None
        self.asked = 0

    def _answer(self) -> None:
        self.asked += 1
        if self.hangs is not None:
            self.hangs.wait()
        if self.fault is not None:
            raise self.fault

    def get_password(self, service: str, username: str) -> str | None:
        self._answer()
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._answer()
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._answer()
        del self.held[service, username]


def store(home: Home, environ: Mapping[str, str] | None = None) -> KeyStore:
    """Return the keys of a home, with all the time that a busy machine may need to start a thread."""
    return KeyStore(home, environ or {}, keyring_timeout=60)


@pytest.fixture
def drawer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Drawer]:
    """Replace the system's keyring with a fake; threads that hang in it are released at the end."""
    fresh = Drawer()
    monkeypatch.setattr(keyring.core, "_keyring_backend", fresh)
    yield fresh
    if fresh.hangs is not None:
        fresh.hangs.set()


def test_a_key_in_the_keyring_is_not_in_the_file(home: Home, drawer: Drawer) -> None:
    """The file only says that the key lies in the keyring, under the name of this home."""
    keys = store(home)
    keys.set("NAME", SECRET, store="keyring")
    assert home.keys.read_text(encoding="utf-8") == "NAME=@keyring\n"
    assert drawer.held == {(f"amplifier:{home.path}", "NAME"): SECRET}
    assert store(home).load() == {"NAME": SECRET}


def test_the_keyring_is_asked_only_for_names_that_lie_there(home: Home, drawer: Drawer) -> None:
    """Keys in the file, keys that the environment has, and lists do without the keyring."""
    store(home).set("RING", SECRET, store="keyring")
    store(home).set("FILE", "x")
    drawer.asked = 0
    keys = store(home, {"RING": "env"})
    assert keys.load() == {"RING": "env", "FILE": "x"}
    assert store(home).list() == [KeyEntry("RING", "keyring", ""), KeyEntry("FILE", "file", "")]
    assert drawer.asked == 0


def test_a_key_that_moves_is_gone_from_where_it_was(home: Home, drawer: Drawer) -> None:
    """A key is in the file or in the keyring, never in both; removing it removes it there."""
    keys = store(home)
    keys.set("NAME", SECRET)
    keys.set("NAME", SECRET, store="keyring")
    assert SECRET not in home.keys.read_text(encoding="utf-8")
    keys.set("NAME", SECRET)
    assert drawer.held == {}
    keys.set("NAME", SECRET, store="keyring")
    assert keys.remove("NAME") is True
    assert (drawer.held, keys.load(), keys.warnings) == ({}, {}, [])


@pytest.mark.parametrize("fault", [NoKeyringError("No backend\nmore"), KeyringLocked(f"locked {SECRET}")])
def test_a_keyring_that_cannot_be_asked_is_told(home: Home, drawer: Drawer, fault: Exception) -> None:
    """Loading continues without the key and says why; setting is an error, and neither shows the value."""
    keys = store(home)
    keys.set("FILE", "x")
    keys.set("NAME", "before", store="keyring")
    drawer.fault = fault
    assert keys.load() == {"FILE": "x"}
    assert len(keys.warnings) == 1
    assert "hunter2" not in keys.warnings[0]
    assert keys.warnings[0].startswith(f"NAME: the keyring of this system cannot be used ({type(fault).__name__}: ")
    with pytest.raises(KeysError, match="keep the key in the file instead") as caught:
        keys.set("OTHER", SECRET, store="keyring")
    assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"
    assert "OTHER" not in home.keys.read_text(encoding="utf-8")


def test_a_keyring_that_hangs_is_left_behind(home: Home, drawer: Drawer) -> None:
    """Waiting for it to be unlocked ends after a while, with a warning or an error."""
    keys = KeyStore(home, {}, keyring_timeout=0.05)
    store(home).set("NAME", SECRET, store="keyring")
    drawer.hangs = threading.Event()
    assert keys.load() == {}
    assert "no answer within 0.05 s" in keys.warnings[0]
    with pytest.raises(KeysError, match=r"no answer within 0\.05 s"):
        keys.set("NAME", SECRET, store="keyring")


def test_a_key_that_the_keyring_lost_is_told(home: Home, drawer: Drawer) -> None:
    """A name that should be in the keyring and is missing there is reported."""
    keys = store(home)
    keys.set("NAME", SECRET, store="keyring")
    drawer.held.clear()
    assert keys.load() == {}
    assert "NAME should be in the keyring, which does not have it" in keys.warnings[0]
    assert keys.remove("NAME") is True


def test_a_key_that_cannot_be_forgotten_is_told(home: Home, drawer: Drawer) -> None:
    """Removing a key works without the keyring, and says that it may still be there."""
    keys = store(home)
    keys.set("NAME", SECRET, store="keyring")
    drawer.fault = NoKeyringError("gone")
    assert keys.remove("NAME") is True
    assert keys.warnings[0].startswith("NAME may still be in the keyring: ")
    assert home.keys.read_text(encoding="utf-8") == ""


@pytest.mark.parametrize(
    ("backend", "expected"), [("null", "does not hold it"), ("fail", "NoKeyringError: No recommended backend")]
)
def test_the_backends_of_headless_systems_are_reported(home: Home, backend: str, expected: str) -> None:
    """The real library's backend that forgets, and the one for no backend at all, are errors: no key is lost."""
    code = (
        "import sys; from pathlib import Path; from amplifier_foundation.paths import Home\n"
        "from amplifier_foundation.settings.keys import KeysError, KeyStore\n"
        "keys = KeyStore(Home(Path(sys.argv[1])), {}, keyring_timeout=60)\n"
        "try: keys.set('NAME', sys.stdin.read(), store='keyring')\n"
        "except KeysError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(home.path)],
        input=SECRET,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHON_KEYRING_BACKEND": f"keyring.backends.{backend}.Keyring"},
    )
    assert expected in done.stdout
    assert "hunter2" not in done.stdout + done.stderr
    assert not home.keys.exists()


def test_without_the_library_the_error_says_what_to_install(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keyring is an extra; the file works without it."""
    monkeypatch.setitem(sys.modules, "keyring", None)
    keys = store(home)
    with pytest.raises(KeysError, match="extra `keyring`"):
        keys.set("NAME", SECRET, store="keyring")
    keys.set("NAME", SECRET)
    assert keys.load() == {"NAME": SECRET}
