"""Read and write `bundle.lock`: the commit and the content of every fetched source of a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_foundation.errors import DocumentError, FoundationError
from amplifier_foundation.files import make_private, replace_file
from amplifier_foundation.paths import Home
from amplifier_foundation.shapes import Keys, Problems, anything, fields, mapping_of, text
from amplifier_foundation.sources.fetched import Pin
from amplifier_kit.guard.private_files import read_regular
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_foundation.sources.fetched import Fetched

_VERSION = 1
_MODE = 0o644  # it is shared with the project's other files, and holds no secret


class LockError(FoundationError):
    """A lock file cannot be read, understood or written; the text starts with the file."""

    code = "lock_invalid"


class BundleLock(FrozenStruct):
    """The pins of every fetched source of one bundle."""

    path: Path
    bundle: str
    sources: dict[str, Pin] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> BundleLock | None:
        """Return the lock in `path`, None when the file does not exist.

        Raises LockError, naming file and line, for a file that is unreadable, malformed, made by a newer version, or
        that has an unknown key or an invalid value: an unreadable pin must not count as a missing pin.
        """
        try:
            content = read_regular(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LockError(f"{path}: cannot be read: {error.strerror or error}") from error
        return _parsed(path, content)

    def with_sources(self, fetched: Mapping[str, Fetched]) -> BundleLock:
        """Return the lock with exactly these sources pinned; local ones are left out: they have no fixed state.

        Raises LockError for a source without a content hash.
        """
        pins: dict[str, Pin] = {}
        for uri, source in fetched.items():
            if source.is_local:
                continue
            if source.sha256 is None:
                raise LockError(f"{self.path}: {uri} has no content hash and cannot be pinned: fetch it again")
            pins[uri] = Pin(source.commit, source.sha256)
        return BundleLock(self.path, self.bundle, pins)

    def write(self) -> bool:
        """Write the file if its content changed, and return whether it was written.

        A bundle without fetched sources needs no file: none is created, but an existing one is updated.
        Raises LockError when the file cannot be written.
        """
        content = self._content()
        try:
            existing = read_regular(self.path)
        except FileNotFoundError:
            existing = None
        except OSError as error:
            raise LockError(f"{self.path}: cannot be read: {error.strerror or error}") from error
        if existing == content or (existing is None and not self.sources):
            return False
        try:
            make_private(self.path.parent)
            mode = self.path.stat().st_mode & 0o777 if existing is not None else _MODE
            replace_file(self.path, content, mode=mode)
        except OSError as error:
            raise LockError(f"{self.path}: cannot be written: {error.strerror or error}") from error
        return True

    def _content(self) -> bytes:
        import json

        sources = {
            uri: {"commit": pin.commit, "sha256": pin.sha256}
            for uri, pin in sorted(self.sources.items(), key=lambda item: item[0])
        }
        document = {"version": _VERSION, "bundle": self.bundle, "sources": sources}
        return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def lock_path(bundle_file: Path | None, name: str, uri: str, home: Home, project: Path) -> Path:
    """Return the path of a bundle's lock: beside a bundle of the project, else below the user's home.

    One folder may hold several bundles, so only `bundle.md` and `bundle.yaml` are locked by `bundle.lock`, any other
    file by `<its name>.bundle.lock`. What is in the user's home is the user's, even when the home is in the project.
    """
    if bundle_file is not None:
        real = bundle_file.resolve()
        if real.is_relative_to(project.resolve()) and not real.is_relative_to(home.path.resolve()):
            return real.with_name("bundle.lock" if real.stem == "bundle" else f"{real.stem}.bundle.lock")
    import hashlib

    return (
        home.locks / f"{_file_name(name)}-{hashlib.sha256(uri.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.lock"
    )


def find_lock(bundle_file: Path | None, uri: str, home: Home, project: Path) -> Path | None:
    """Return the lock that a bundle has, None when it has none; for a fetched bundle whose name is not known yet."""
    path = lock_path(bundle_file, "*", uri, home, project)
    if path.parent != home.locks:
        return path if path.is_file() else None
    return max(home.locks.glob(f"*{path.stem[path.stem.rindex('-') :]}.lock"), default=None, key=_written_at)


def _written_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0  # deleted just now


def differences(old: BundleLock | None, new: BundleLock) -> list[str]:
    """Return a readable line for each source added, removed or changed between two locks, in order of their URIs."""
    before = old.sources if old is not None else {}
    lines = []
    for uri in sorted({*before, *new.sources}):
        was, now = before.get(uri), new.sources.get(uri)
        if was == now:
            continue
        if was is None and now is not None:
            lines.append(f"{uri}: new, {_described(now)}")
        elif now is None and was is not None:
            lines.append(f"{uri}: gone, was {_described(was)}")
        elif was is not None and now is not None:
            lines.append(f"{uri}: {_described(was)} became {_described(now)}{_same_commit(was, now)}")
    return lines


def _described(pin: Pin) -> str:
    content = f"content {pin.sha256[:12]}"
    return f"commit {pin.commit[:12]}, {content}" if pin.commit else content


def _same_commit(was: Pin, now: Pin) -> str:
    same = was.commit is not None and was.commit == now.commit
    return " (the same commit with other content: someone changed it)" if same else ""


def _file_name(name: str) -> str:
    """Return the name with whatever is unsafe in a file name replaced."""
    safe = "".join(char if char.isalnum() or char in "._-" else "-" for char in name).strip(".-")
    return safe[:80] or "bundle"


def _parsed(path: Path, content: bytes) -> BundleLock:
    import json

    try:
        data = json.loads(content.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise LockError(f"{path}:{error.lineno}: malformed JSON: {error.msg}{_ADVICE}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise LockError(f"{path}:1: not a lock file: {error}{_ADVICE}") from error
    problems = Problems(lambda *keys: f"{path}:{_line(path, content, keys)}")
    _check(data, problems)
    if problems.faults:
        raise LockError(f"{problems.faults[0]}{_ADVICE}")
    sources = {uri: Pin(pin["commit"], pin["sha256"]) for uri, pin in data["sources"].items()}
    return BundleLock(path, data["bundle"], sources)


_ADVICE = ": restore the file from version control, or delete it to pin what is fetched next"


def _check(data: Any, problems: Problems) -> None:
    version = data.get("version") if isinstance(data, dict) else _VERSION
    if type(version) is int and version > _VERSION:
        newer = f"written by a newer version (format {version}, known: {_VERSION}): update the program"
        problems.fault(("version",), newer)
    elif type(version) is not int or version != _VERSION:
        problems.fault(("version",), f"'version' must be {_VERSION}, got {version!r}")
    elif problems.expect(isinstance(data, dict), "a mapping", data, ()):
        fields({"version": anything, "bundle": text, "sources": mapping_of(_pin)})(data, (), problems)
        for key in ("bundle", "sources"):
            problems.expect(data.get(key) is not None, "set", data.get(key), (key,))


def _pin(value: Any, at: Keys, problems: Problems) -> None:
    if problems.expect(isinstance(value, dict), "a mapping", value, at):
        fields({"commit": anything, "sha256": anything})(value, at, problems)
        commit, sha256 = value.get("commit"), value.get("sha256")
        is_commit = "commit" in value and (commit is None or _is_hex(commit, 40, 64))
        problems.expect(is_commit, "null or 40 hex digits", commit, (*at, "commit"))
        problems.expect(_is_hex(sha256, 64), "64 hex digits", sha256, (*at, "sha256"))


def _is_hex(value: Any, *lengths: int) -> bool:
    return isinstance(value, str) and len(value) in lengths and all(char in "0123456789abcdef" for char in value)


def _line(path: Path, content: bytes, keys: tuple[str | int, ...]) -> int:
    """Return the line of an entry: JSON that has parsed is YAML too, and our YAML reader knows lines."""
    from amplifier_foundation.documents import parse_document

    try:
        return parse_document(path, content).line(*keys)
    except DocumentError:
        return 1  # JSON that YAML reads differently (a key twice, say): the file is named all the same
