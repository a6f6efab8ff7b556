"""Keep API keys: the environment wins, then the keyring for the names that lie there, then keys.env."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

from amplifier_foundation.files import locked, replace_unmasked
from amplifier_foundation.paths import Home
from amplifier_foundation.settings.errors import KeysError
from amplifier_foundation.settings.key_lines import KeyLine, check_name, key_line, parse_lines, render_lines
from amplifier_foundation.settings.keychain import TIMEOUT, Keychain

Lines = list[KeyLine]
Names = list[str]

#: Of a key at least this long the last few characters may be shown.
_LONG: Final = 12
_TAIL: Final = 4


class KeyEntry(NamedTuple):
    """One key as it may be shown."""

    name: str
    #: Where its value comes from.
    where: Literal["environment", "keyring", "file"]
    #: The last characters of a long value, empty for short ones and for those in the keyring.
    tail: str


Entries = list[KeyEntry]


class KeyStore:
    """The keys of one home. It holds no values itself: they are read when asked for.

    `warnings` has what went wrong while reading and did not stop it, for the app to show.
    """

    def __init__(
        self, home: Home, environ: Mapping[str, str] = os.environ, *, keyring_timeout: float = TIMEOUT
    ) -> None:
        """Look for keys in this home, overruled by this environment; nothing is read yet."""
        self.path = home.keys
        self.warnings: list[str] = []
        self._environ = environ
        self._keychain = Keychain(home.path, keyring_timeout)

    def __repr__(self) -> str:
        return f"KeyStore({str(self.path)!r})"

    def load(self) -> dict[str, str]:
        """Return the value of every key that is kept here, as the environment has it if it has it.

        The keyring is asked only for names that lie there and that the environment does not have; when it cannot be
        asked, they are left out and `warnings` says so. Raises KeysError for a file that cannot be read or understood.
        """
        kept = self._kept()
        asked = self._from_keyring(
            [name for name, value in kept.items() if value is None and name not in self._environ]
        )
        found = {name: self._environ.get(name, asked.get(name, value)) for name, value in kept.items()}
        values = {name: value for name, value in found.items() if value is not None}
        if values:
            self._remember(values)
        return values

    def apply(self, environ: MutableMapping[str, str]) -> Names:
        """Put the keys that `environ` does not have into it, and return their names; raises KeysError."""
        added = {name: value for name, value in self.load().items() if name not in environ}
        environ.update(added)
        return list(added)

    def _remember(self, found: Mapping[str, str]) -> None:
        """Let no file of this process hold one of them, and no command be given one."""
        from amplifier_kit.guard.redaction import live_values_from_keys, remember_keys, remember_secrets

        remember_keys(found)
        remember_secrets(live_values_from_keys(found))

    def values_in_file(self) -> tuple[str, ...]:
        """Return what must be in no other file; none when the file cannot be read. The keyring is not asked."""
        from amplifier_kit.guard.redaction import live_values_from_keys

        try:
            kept = self._kept()
        except KeysError:
            return ()
        return tuple(live_values_from_keys({name: value for name, value in kept.items() if value is not None}))

    def list(self, also: Iterable[str] = ()) -> Entries:
        """Return what is kept here, and of the names in `also` those that the environment has; raises KeysError.

        The keyring is not asked: that it is said to hold a key is enough for a list.
        """
        kept = self._kept()
        names = [*kept, *(name for name in also if name in self._environ and name not in kept)]
        return [self._entry(name, kept.get(name)) for name in dict.fromkeys(names)]

    def set(self, name: str, value: str, store: Literal["file", "keyring"] = "file") -> None:
        """Keep a key; raises KeysError when it cannot be kept, and then whatever was there before still is.

        A key that moves from the keyring to the file, or back, is gone from where it was.
        """
        fresh = key_line(name, value)
        self._remember({name: value})
        with self._changing():
            lines = self._read()
            was_in_keyring = any(line.name == name and line.value is None for line in lines)
            if store == "keyring":
                self._keychain.set(name, value)
                fresh = key_line(name, None)
            self._write(_with_line(lines, fresh))
            if store == "file" and was_in_keyring:
                self._forget(name)

    def set_new(self, name: str, value: str) -> str:
        """Keep a key in the file under this name, or a numbered one when it is taken by another value; return which."""
        key_line(name, value)
        self._remember({name: value})
        with self._changing():
            lines = self._read()
            taken = {line.name: line.value for line in lines if line.name is not None}
            number, free = 1, name
            while (free in taken and taken[free] != value) or self._environ.get(free, value) != value:
                number += 1
                free = f"{name}_{number}"
            if free not in taken:
                self._write(_with_line(lines, key_line(free, value)))
        return free

    def remove(self, name: str) -> bool:
        """Forget a key, and tell whether there was one; raises KeysError. The environment stays as it is."""
        check_name(name)
        with self._changing():
            lines = self._read()
            found = [line for line in lines if line.name == name]
            if found:
                self._write([line for line in lines if line.name != name])
            if any(line.value is None for line in found):
                self._forget(name)
        return bool(found)

    def _entry(self, name: str, kept: str | None) -> KeyEntry:
        if name in self._environ:
            return KeyEntry(name, "environment", _tail(self._environ[name]))
        return KeyEntry(name, "keyring", "") if kept is None else KeyEntry(name, "file", _tail(kept))

    def _kept(self) -> dict[str, str | None]:
        """Return what the file says, None for what is in the keyring."""
        kept: dict[str, str | None] = {}
        for line in self._read():
            if line.name is not None:
                if line.name in kept:
                    self._warn(f"{self.path}: {line.name} is given twice: the last one counts")
                kept[line.name] = line.value
        return kept

    def _from_keyring(self, names: Names) -> dict[str, str]:
        if not names:
            return {}
        try:
            found = self._keychain.get(names)
        except KeysError as error:
            self._warn(f"{', '.join(names)}: {error}")
            return {}
        for name in names:
            if name not in found:
                self._warn(f"{self.path}: {name} is said to be in the keyring, which does not have it: set it again")
        return found

    def _forget(self, name: str) -> None:
        try:
            self._keychain.remove(name)
        except KeysError as error:
            self._warn(f"{name} may still be in the keyring: {error}")

    def _read(self) -> Lines:
        try:
            with open(self.path, "rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                content = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise KeysError(f"{self.path}: cannot be read: {error.strerror}") from error
        is_open = bool(mode & 0o077)
        if is_open and not self.path.is_symlink():
            self._mend_mode()
        lines = parse_lines(self.path, content)
        if is_open and self.path.is_symlink():
            self._mend_mode()  # not before it is known to hold keys: a link may lead to any file
        return lines

    def _mend_mode(self) -> None:
        try:
            self.path.chmod(0o600)
        except OSError as error:
            self._warn(f"{self.path}: others may read your keys, and that cannot be changed: {error.strerror}")
        else:
            self._warn(f"{self.path}: others could read your keys; now only you can: consider new keys")

    def _write(self, lines: Iterable[KeyLine]) -> None:
        replace_unmasked(Path(os.path.realpath(self.path)), render_lines(lines), mode=0o600)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock of the file; faults of the file system become KeysError."""
        try:
            with locked(self.path.with_name(f"{self.path.name}.lock")):
                yield
        except OSError as error:
            raise KeysError(
                f"{self.path}: cannot be written: {error.strerror or error}: keys can be given as environment variables"
            ) from error

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


def _with_line(lines: Lines, fresh: KeyLine) -> Lines:
    """Return the lines with this one in place of the first of its name, and no other of that name."""
    kept: Lines = []
    is_placed = False
    for line in lines:
        if line.name != fresh.name:
            kept.append(line)
        elif not is_placed:
            kept.append(fresh)
            is_placed = True
    return kept if is_placed else [*kept, fresh]


def _tail(value: str) -> str:
    return value[-_TAIL:] if len(value) >= _LONG else ""
