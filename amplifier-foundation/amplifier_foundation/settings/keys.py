"""API keys: the environment wins, then the keyring of the system for the names kept there, then keys.env.

A line of keys.env is `NAME="value"`, a comment, or `NAME=@keyring` for a key in the keyring.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeVar

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import locked, replace_unmasked
from amplifier_foundation.paths import Home
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct

#: How long the keyring may take, in seconds: where it cannot be unlocked it may hang.
KEYRING_TIMEOUT: Final = 2.0
#: The last few characters of a key at least this long may be shown.
_LONG: Final = 12
_TAIL: Final = 4

T = TypeVar("T")


class KeysError(FoundationError):
    """A key cannot be read or kept; the text names the file and line, or the key, and never a value."""

    code: ClassVar[str] = "keys_invalid"


class KeyNameError(KeysError):
    """A name cannot be that of a key."""

    code: ClassVar[str] = "key_name"


class KeyNotFoundError(KeysError):
    """No key of that name is stored."""

    code: ClassVar[str] = "key_not_found"


class KeyEntry(NamedTuple):
    """One key as it may be shown."""

    name: str
    #: Where its value comes from.
    where: Literal["environment", "keyring", "file"]
    #: The last characters of a long value, empty for short ones and for those in the keyring.
    tail: str


# `KeyStore.list` hides the type of that name.
Entries = list[KeyEntry]
Lines = list["KeyLine"]
Names = list[str]


class KeyStore:
    """The keys of one home, read when asked for.

    `warnings` has problems that did not stop the reading, for the app to show.
    """

    def __init__(
        self, home: Home, environ: Mapping[str, str] = os.environ, *, keyring_timeout: float = KEYRING_TIMEOUT
    ) -> None:
        self.path = home.keys
        self.warnings: list[str] = []
        self._environ = environ
        self._keychain = Keychain(home.path, keyring_timeout)

    def __repr__(self) -> str:
        return f"KeyStore({str(self.path)!r})"

    def load(self) -> dict[str, str]:
        """Return the value of every key that is kept here, from the environment if it is set there.

        The keyring is read only for names that are kept there and that the environment does not have; when it fails,
        they are left out with a warning. Raises KeysError for a file that cannot be read or parsed.
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
        """Add the keys that `environ` does not have to it, and return their names; raises KeysError."""
        added = {name: value for name, value in self.load().items() if name not in environ}
        environ.update(added)
        return list(added)

    def _remember(self, found: Mapping[str, str]) -> None:
        """Keep the values out of files that this process writes and of commands that it runs."""
        from amplifier_kit.guard.redaction.known_values import live_values_from_keys
        from amplifier_kit.guard.redaction.redactor import remember_keys, remember_secrets

        remember_keys(found)
        remember_secrets(live_values_from_keys(found))

    def values_in_file(self) -> tuple[str, ...]:
        """Return the values in keys.env, which no other file may hold; none when it cannot be read."""
        from amplifier_kit.guard.redaction.known_values import live_values_from_keys

        try:
            kept = self._kept()
        except KeysError:
            return ()
        return tuple(live_values_from_keys({name: value for name, value in kept.items() if value is not None}))

    def list(self, also: Iterable[str] = ()) -> Entries:
        """Return the keys that are kept here, and those in `also` that the environment has; raises KeysError.

        The keyring is not read: the file says which keys it holds.
        """
        kept = self._kept()
        names = [*kept, *(name for name in also if name in self._environ and name not in kept)]
        return [self._entry(name, kept.get(name)) for name in dict.fromkeys(names)]

    def set(self, name: str, value: str, store: Literal["file", "keyring"] = "file") -> None:
        """Keep a key in one store and remove it from the other; raises KeysError, and then nothing has changed."""
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
        """Keep a key in the file under this name, or a numbered one when it has another value; return the name."""
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
        """Remove a key and return whether it was kept here; raises KeysError. The environment stays as it is."""
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
        """Return the keys of the file, None for a value in the keyring."""
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
                self._warn(f"{self.path}: {name} should be in the keyring, which does not have it: set it again")
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
            self._restrict_mode()
        lines = parse_lines(self.path, content)
        if is_open and self.path.is_symlink():
            self._restrict_mode()  # not before it is known to hold keys: a link may point to any file
        return lines

    def _restrict_mode(self) -> None:
        try:
            self.path.chmod(0o600)
        except OSError as error:
            self._warn(f"{self.path}: other users may read your keys, and the mode cannot be changed: {error.strerror}")
        else:
            self._warn(f"{self.path}: other users could read your keys; now only you can: consider new keys")

    def _write(self, lines: Iterable[KeyLine]) -> None:
        replace_unmasked(Path(os.path.realpath(self.path)), render_lines(lines), mode=0o600)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock of the file; errors of the file system become KeysError."""
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
    """Return the lines with `fresh` in place of the first line of its name, and no other line of that name."""
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


# -- the lines of keys.env --
#
# Not python-dotenv: its errors do not say which quotes are wrong, it reads more escapes than this program writes
# ("C:\temp" would get a tab), and every start with a key file would import it.

#: In place of a value that is in the keyring of the system.
IN_KEYRING: Final = "@keyring"

# Patterns are compiled when a file is there to be read.
_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
_LINE: Final = rf"\s*(?:export\s+)?(?P<name>{_NAME})\s*=\s*(?P<rest>.*)"
_QUOTED: Final = r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)')\s*(?:#.*)?"""
_BARE_COMMENT: Final = r"(?:^|\s)#.*"
_ESCAPE: Final = r"\\(.)"
_ESCAPED: Final = {"n": "\n", "r": "\r", '"': '"', "\\": "\\"}


class KeyLine(FrozenStruct):
    """One line of the file; a comment or blank line has no name."""

    text: str = field(repr=False)
    name: str | None = None
    #: None when the value is in the keyring.
    value: str | None = field(default=None, repr=False)


def parse_lines(path: Path, content: bytes) -> list[KeyLine]:
    """Return the lines of the file; raises KeysError with file and line, which shows no value."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise KeysError(f"{path}:{line}: not UTF-8: save the file as UTF-8") from None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [_parsed(path, number, line.removesuffix("\r")) for number, line in enumerate(lines, start=1)]


def render_lines(lines: Iterable[KeyLine]) -> bytes:
    return "".join(f"{line.text}\n" for line in lines).encode("utf-8")


def key_line(name: str, value: str | None) -> KeyLine:
    """Return the line for a key, None as its value for one in the keyring; raises KeysError for an invalid value.

    A variable cannot hold a null character, and a file cannot hold half of a character.
    """
    check_name(name)
    if value is None:
        return KeyLine(f"{name}={IN_KEYRING}", name)
    if not value:
        raise KeysError(f"{name}: a key cannot be empty: remove it instead")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise KeysError(f"{name}: the value is not valid text: copy it again") from None
    if "\0" in value:
        raise KeysError(f"{name}: the value has a null character in it: copy it again")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return KeyLine(f'{name}="{escaped}"', name, value)


def check_name(name: str) -> None:
    """Raise KeysError unless `name` can be the name of a variable; it is not shown, for it may be a value."""
    if re.fullmatch(_NAME, name) is None:
        raise KeyNameError(
            "invalid name of a key: use letters, digits and underscores, not starting with a digit, like OPENAI_API_KEY"
        )


def _parsed(path: Path, number: int, text: str) -> KeyLine:
    if not text.strip() or text.lstrip().startswith("#"):
        return KeyLine(text)
    line = re.fullmatch(_LINE, text, re.DOTALL)
    if line is None:
        raise KeysError(f'{path}:{number}: not of the form NAME="value": repair or delete the line')
    name, rest = line["name"], line["rest"]
    if rest[:1] in ("'", '"'):
        quoted = re.fullmatch(_QUOTED, rest, re.DOTALL)
        if quoted is None:
            raise KeysError(f"{path}:{number}: the quotes of {name} do not match: repair the line or set the key again")
        return KeyLine(text, name, _unquoted(quoted))
    bare = re.sub(_BARE_COMMENT, "", rest, flags=re.DOTALL).strip()
    return KeyLine(text, name, None if bare == IN_KEYRING else bare)


def _unquoted(quoted: re.Match[str]) -> str:
    if quoted["single"] is not None:
        return quoted["single"]
    return re.sub(_ESCAPE, lambda match: _ESCAPED.get(match[1], match[0]), quoted["double"], flags=re.DOTALL)


# -- the keyring --


class Keychain:
    """The entries of one home in the keyring of the system. Its library is imported on first use."""

    def __init__(self, home: Path, timeout: float = KEYRING_TIMEOUT) -> None:
        self._service = f"amplifier:{home}"
        self._timeout = timeout

    def get(self, names: list[str]) -> dict[str, str]:
        """Return the values of those names that the keyring holds; raises KeysError when it fails."""

        def ask() -> dict[str, str]:
            import keyring

            found = {name: keyring.get_password(self._service, name) for name in names}
            return {name: value for name, value in found.items() if value is not None}

        return self._bounded(ask)

    def set(self, name: str, value: str) -> None:
        """Keep a value; raises KeysError when the keyring fails or does not hold it afterwards."""

        def ask() -> bool:
            import keyring

            keyring.set_password(self._service, name, value)
            return keyring.get_password(self._service, name) == value

        if not self._bounded(ask, value):
            raise KeysError(f"the keyring accepted {name} but does not hold it (a null backend?): use the file")

    def remove(self, name: str) -> None:
        """Remove a value, which may be missing; raises KeysError when the keyring fails."""

        def ask() -> None:
            import keyring

            if keyring.get_password(self._service, name) is not None:
                keyring.delete_password(self._service, name)

        self._bounded(ask)

    def _bounded(self, ask: Callable[[], T], secret: str | None = None) -> T:
        """Return the answer of the keyring, from a thread that is abandoned when it hangs."""
        import threading

        answers: list[T] = []
        problems: list[str] = []

        def run() -> None:
            try:
                answers.append(ask())
            except ImportError:
                problems.append("the library for it is not installed: install amplifier with the extra `keyring`")
            except Exception as error:  # a backend may raise anything
                problems.append(f"{type(error).__name__}: {_without_secrets(error, secret)}")

        thread = threading.Thread(target=run, name="amplifier-keyring", daemon=True)
        thread.start()
        thread.join(self._timeout)
        if answers:
            return answers[0]
        problem = problems[0] if problems else f"no answer within {self._timeout:g} s"
        raise KeysError(f"the keyring of this system cannot be used ({problem}): keep the key in the file instead")


def _without_secrets(error: Exception, secret: str | None) -> str:
    """Return the first line of a backend's message, which may hold a secret."""
    from amplifier_kit.guard.redaction.redactor import Redactor

    text = str(error).partition("\n")[0]
    if secret:
        text = text.replace(secret, "…")  # also a short one
    return str(Redactor().scrub(text).value)
