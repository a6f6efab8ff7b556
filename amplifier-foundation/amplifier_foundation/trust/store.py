"""Keep which projects the user trusts: for good, in a file of the home, or for one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Literal

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import locked, replace_file
from amplifier_foundation.paths import Home
from amplifier_foundation.trust.control_files import ControlFileError, control_file_hashes, covered_by
from amplifier_kit.struct import FrozenStruct

_VERSION: Final = 1


class TrustStoreError(FoundationError):
    """The record of trusted folders cannot be read or written: nothing is trusted, and nothing is overwritten."""

    code = "trust_store"


class Trust(FrozenStruct):
    """Whether a folder is trusted, and if no longer, why."""

    state: Literal["trusted", "changed", "unknown"]
    #: The control files, relative to the folder, that were added, changed or removed since it was trusted.
    changed: tuple[str, ...] = ()
    #: Why the question could not be answered; the state is then not "trusted".
    problem: str | None = None

    @property
    def trusted(self) -> bool:
        """Return whether code that the folder names may run."""
        return self.state == "trusted"


class TrustedFolder(FrozenStruct):
    """One record of the store."""

    path: Path
    trusted_at: str
    files: Mapping[str, str] = field(default_factory=dict)
    #: Files and folders that count besides those that count in every project, relative to the path.
    covers: tuple[str, ...] = ()


class TrustStore:
    """Keep the folders that the user trusts, each with the content its control files had then. Safe for processes."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def trust(self, folder: Path, files: Iterable[Path] = ()) -> TrustedFolder:
        """Trust the folder as it is now, and return its record; `files` inside of it count as control files too.

        Of a folder among them everything counts that is in it.

        Raises TrustStoreError when the path is not a folder or the store cannot be used, ControlFileError when a
        control file cannot be read.
        """
        from datetime import UTC, datetime

        real = folder.resolve()
        if not real.is_dir():
            raise TrustStoreError(f"{folder}: not a folder, so there is nothing to trust")
        inside = [path.resolve() for path in files if path.resolve().is_relative_to(real)]
        more = tuple(sorted({path.relative_to(real).as_posix() for path in inside}))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        record = TrustedFolder(real, now, control_file_hashes(real, more), more)
        self._change(real, record)
        return record

    def accept(self, folder: Path, file: Path) -> None:
        """Take over one control file as it is now: for an app that has just edited it for the user.

        Does nothing for a folder that was never trusted; other changes remain untrusted. Raises as `trust` does.
        """
        real = folder.resolve()
        record = self._read().get(str(real))
        if record is None:
            return
        relative = (file.parent.resolve() / file.name).relative_to(real).as_posix()
        files = {name: digest for name, digest in record.files.items() if name != relative}
        now = control_file_hashes(real, [relative, *record.covers])
        if relative in now:
            files[relative] = now[relative]
        self._change(real, TrustedFolder(real, record.trusted_at, files, record.covers))

    def revoke(self, folder: Path) -> bool:
        """Trust the folder no longer, and return whether it was known; raises TrustStoreError."""
        return self._change(folder.resolve(), None)

    def state(self, folder: Path) -> Trust:
        """Return whether the folder is trusted as it is now; a store that cannot be read trusts nothing and says so."""
        real = folder.resolve()
        try:
            record = self._read().get(str(real))
            if record is None:
                return Trust("unknown")
            now = control_file_hashes(real, (*record.files, *record.covers))
        except (TrustStoreError, ControlFileError) as error:
            return Trust("unknown", problem=str(error))
        changed = sorted(name for name in {*record.files, *now} if record.files.get(name) != now.get(name))
        return Trust("changed", tuple(changed)) if changed else Trust("trusted")

    def covers(self, folder: Path, path: Path) -> bool:
        """Return whether what lies at a path counts in the trust in the folder, so that it cannot change unnoticed."""
        real = folder.resolve()
        record = self._read().get(str(real))
        if record is None or not path.resolve().is_relative_to(real):
            return False
        return covered_by(path.resolve().relative_to(real).as_posix(), record.covers)

    def list(self) -> tuple[TrustedFolder, ...]:
        """Return the records in order of their paths; raises TrustStoreError."""
        return tuple(record for _, record in sorted(self._read().items()))

    def _change(self, folder: Path, record: TrustedFolder | None) -> bool:
        """Put or remove one record under the lock, so that what another process did in between stays."""
        path = self.home.trust
        try:
            with locked(path.with_name(f"{path.name}.lock")):
                records = self._read()
                known = records.pop(str(folder), None) is not None
                if record is not None:
                    records[str(folder)] = record
                if known or record is not None:
                    replace_file(path, _encoded(records))
        except OSError as error:
            raise TrustStoreError(f"{path}: cannot be written: {error.strerror or error}") from error
        return known

    def _read(self) -> dict[str, TrustedFolder]:
        import json

        path = self.home.trust
        try:
            data = json.loads(path.read_bytes().decode("utf-8-sig"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise TrustStoreError(f"{path}: cannot be read: {error.strerror or error}; nothing is trusted") from error
        except (ValueError, RecursionError) as error:
            line = getattr(error, "lineno", 1)
            raise TrustStoreError(f"{path}:{line}: malformed ({error}); nothing is trusted{_ADVICE}") from error
        try:
            return _decoded(data)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise TrustStoreError(f"{path}: not a record of trusted folders ({error}){_ADVICE}") from error


_ADVICE: Final = ": delete the file and trust your folders again"


def _encoded(records: Mapping[str, TrustedFolder]) -> bytes:
    import json

    folders = {
        path: {
            "trusted_at": record.trusted_at,
            "files": dict(sorted(record.files.items())),
            "covers": list(record.covers),
        }
        for path, record in sorted(records.items())
    }
    return (json.dumps({"version": _VERSION, "folders": folders}, indent=2) + "\n").encode("utf-8")


def _decoded(data: Any) -> dict[str, TrustedFolder]:
    if data["version"] != _VERSION:
        raise ValueError(f"version {data['version']!r}, known: {_VERSION}")
    records = {}
    for path, entry in data["folders"].items():
        files = entry["files"]
        if not all(isinstance(digest, str) for digest in files.values()):
            raise ValueError(f"a hash of {path} is no text")
        covers = tuple(map(str, entry.get("covers", ())))  # older records have none
        records[path] = TrustedFolder(Path(path), str(entry["trusted_at"]), files, covers)
    return records


class GivenTrust(FrozenStruct):
    """Trust in a project for one run; it ends when a control file is added, changed or removed.

    Otherwise a run would be trusted for what it has written itself.
    """

    project: Path
    #: The hash of each control file; None when they could not be read, and then nothing is trusted.
    files: Mapping[str, str] | None
    #: Further files and folders that are covered, relative to the project.
    covers: tuple[str, ...] = ()

    @classmethod
    def of(cls, project: Path, given: bool | GivenTrust | None, code: Iterable[Path] = ()) -> GivenTrust | None:
        """Return trust in the project as it is now, or the trust given before, or None. Never raises.

        `code` are files and folders of the project that are covered besides the control files of every project.
        """
        if given is not True:
            return given or None
        real = project.resolve()
        covers = tuple(sorted(path.relative_to(real).as_posix() for path in code if path.is_relative_to(real)))
        return cls(project, _hashes(project, covers), covers)

    @property
    def holds(self) -> bool:
        """Whether the project is still what was trusted."""
        return self.files is not None and _hashes(self.project, self.covers) == self.files


def _hashes(project: Path, covers: tuple[str, ...]) -> dict[str, str] | None:
    try:
        return control_file_hashes(project.resolve(), covers)
    except (ControlFileError, OSError):
        return None  # what is trusted is unknown, so nothing is
