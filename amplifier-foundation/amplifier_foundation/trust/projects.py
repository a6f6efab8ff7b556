"""Know which projects the user trusts, and refuse what an untrusted one names: its code, and where credentials go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import locked, replace_file
from amplifier_foundation.paths import Home
from amplifier_foundation.trust.control_files import ControlFileError, control_file_hashes, covered_by

_VERSION: Final = 1


class TrustStoreError(FoundationError):
    """The record of trusted folders cannot be read or written: nothing is trusted, and nothing is overwritten."""

    code = "trust_store"


class Trust(NamedTuple):
    """Whether a folder is trusted, and if not any more, why."""

    state: Literal["trusted", "changed", "unknown"]
    #: The control files, relative to the folder, that came, changed or went since it was trusted.
    changed: tuple[str, ...] = ()
    #: Why the question could not be answered; the state is then not "trusted".
    problem: str | None = None

    @property
    def trusted(self) -> bool:
        """Return whether code that the folder names may run."""
        return self.state == "trusted"


@dataclass(frozen=True)
class TrustedFolder:
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

        Raises TrustStoreError when the folder is none or the store cannot be used, ControlFileError when a control file
        cannot be read.
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
        """Take over one control file as it is now: for an app that has just edited it on the user's word.

        Does nothing for a folder that was never trusted; other changes stay what they are. Raises as `trust` does.
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
        """Tell whether what lies at a path counts in the trust in the folder, so that it cannot change unnoticed."""
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


class Refusal(NamedTuple):
    """One thing that is not done because an untrusted project asks for it."""

    what: str
    #: `file:line` of the words that ask for it.
    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}: {self.why}"


class UntrustedError(FoundationError):
    """A project asks for something that only a trusted one may have; every such thing is named."""

    code = "untrusted"

    def __init__(self, refusals: Sequence[Refusal], project: Path) -> None:
        self.refusals = tuple(refusals)
        self.project = project
        import shlex

        listed = "\n".join(f"  {refusal}" for refusal in refusals)
        command = f"amplifier trust {shlex.quote(str(project))}"
        super().__init__(
            f"the project {project} names what may only run in a trusted project:\n{listed}\n"
            f"Look at these files. Then run `{command}`, or give `--trust` for one run."
        )


class NamedBy(Protocol):
    """Whose a file is and on whose word it was read; a Layer is one."""

    @property
    def owner(self) -> str: ...
    @property
    def named_by(self) -> str: ...
    @property
    def given_by_user(self) -> bool: ...


class NamedModule(NamedTuple):
    """A module of a plan, and the file that names it."""

    #: The place in the plan: `tools`, `session`, `agents.explorer.tools`.
    kind: str
    key: str
    source: str | None
    #: Where the module lies, when it lies on this machine already.
    path: Path | None
    #: None when nobody knows who named it.
    layer: NamedBy | None
    #: `file:line`; found in the layer's document when not given.
    where: str | None = None


class NamedValue(Protocol):
    """One value that a project's file sets; `kind` is one of those that `TrustCheck.refuse_values` knows."""

    @property
    def kind(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def where(self) -> str: ...


_UNCOVERED: Final = (
    "the project is trusted, but this code was not looked at then: trust it again, with `--bundle` for a bundle that "
    "only you name"
)

#: What values of each kind do.
_DOES: Final = {
    "endpoint": "decides where credentials and prompts are sent",
    "variable": "reads a variable of your environment",
    "path": "leads out of the project",
    "control": "may have a control file written, by a module that does not ask",
    "guard": "takes the place of something that keeps things from happening",
    "pin": "is a source that you name, in a state that the project chooses",
}


class TrustCheck:
    """Answer, for one run in one project, what has to be refused. The store is asked when an answer depends on it."""

    def __init__(self, store: TrustStore, project: Path, trust_all: bool = False) -> None:
        self._store = store
        self._project = project.resolve()
        self._trust_all = trust_all
        self._known: Trust | None = None

    def refuse_modules(self, entries: Iterable[NamedModule]) -> list[Refusal]:
        """Return a refusal for each module that needs a trusted project while this one is not."""
        from amplifier_foundation.trust.rules import described_module, needs_trust, place_of

        return [
            Refusal(described_module(entry), place_of(entry), self._why() or _UNCOVERED)
            for entry in entries
            if needs_trust(entry, self._project, self._store.home.path)
            and not (self._trusted() and self._is_covered(entry))
        ]

    def refuse_values(self, values: Iterable[NamedValue]) -> list[Refusal]:
        """Return a refusal for each value, all of which the project sets, while the project is not trusted."""
        return [
            Refusal(f"{value.key} {_DOES.get(value.kind, 'needs trust')}", value.where, self._why())
            for value in values
            if not self._trusted()
        ]

    def _is_covered(self, entry: NamedModule) -> bool:
        """Tell whether the code of a module was looked at when the project was trusted; what is fetched is pinned."""
        from amplifier_foundation.trust.rules import local_folder

        path = entry.path or local_folder(entry.source)
        is_inside = path is not None and path.resolve().is_relative_to(self._project)
        return self._trust_all or path is None or not is_inside or self._store.covers(self._project, path)

    def _trusted(self) -> bool:
        return self._trust_all or self._state().trusted

    def _state(self) -> Trust:
        if self._known is None:
            self._known = self._store.state(self._project)
        return self._known

    def _why(self) -> str:
        state = self._state()
        if state.problem is not None:
            return f"whether the project is trusted cannot be told: {state.problem}"
        if state.state == "changed":
            return f"the project was trusted, but {_listed(state.changed)} changed since"
        return "" if state.trusted else "the project is not trusted"


def _listed(names: Sequence[str], most: int = 5) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
