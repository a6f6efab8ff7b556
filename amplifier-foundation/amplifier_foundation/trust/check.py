"""Refuse what only a trusted project may have: code that it names or holds, and values that loosen or redirect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amplifier_foundation.errors import FoundationError
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_foundation.trust.store import Trust, TrustStore

#: The section of the Python packages that bundles bring themselves.
PACKAGES: Final = "packages"


class ModuleUse(NamedTuple):
    """One module that is not installed with the program: where it comes from, and who named it."""

    #: The place in the plan: `tools`, `agents.explorer.tools`, `session`, or `packages` for a bundle's own package.
    section: str
    module: str
    #: A source address, or the path of a folder.
    source: str
    owner: str
    named_by: str
    given_by_user: bool
    #: `file:line` where it is named.
    where: str


class ValueUse(NamedTuple):
    """One value that a file of the project sets and that only a trusted project may set."""

    #: What it does: one of those that `TrustCheck.refuse_values` knows.
    kind: str
    #: Its dotted key.
    key: str
    #: `file:line` where it is set.
    where: str


class Refusal(FrozenStruct):
    """One thing that is not done because an untrusted project asks for it."""

    what: str
    #: `file:line` where it is asked for.
    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}: {self.why}"


class UntrustedError(FoundationError):
    """A project asks for something that only a trusted one may have; every such thing is named."""

    code = "untrusted"

    def __init__(self, refusals: Sequence[Refusal], project: Path, bundle: str | None = None) -> None:
        """`bundle` is the one that was named for this run, which `amplifier trust` looks at only if it is named too."""
        self.refusals = tuple(refusals)
        self.project = project
        import shlex

        listed = "\n".join(f"  {refusal}" for refusal in refusals)
        named = f"--bundle {shlex.quote(bundle)} " if bundle is not None else ""
        command = f"amplifier trust {named}{shlex.quote(str(project))}"
        super().__init__(
            f"the project {project} names what may only run in a trusted project:\n{listed}\n"
            f"Look at these files. Then run `{command}`, or give `--trust` for one run."
        )


_UNCOVERED: Final = "the project is trusted, but this code was not looked at then: trust it again"

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
    """Decide, for one run in one project, what to refuse. The store is read when a decision depends on it."""

    def __init__(self, store: TrustStore, project: Path, trust_all: bool = False) -> None:
        self._store = store
        self._project = project.resolve()
        self._trust_all = trust_all
        self._known: Trust | None = None

    def refuse(self, modules: Iterable[ModuleUse], values: Iterable[ValueUse] = ()) -> tuple[Refusal, ...]:
        """Return a refusal for each module and each value that needs a trusted project while this one is not."""
        refused = [
            Refusal(_description(use), use.where, self._why() or _UNCOVERED)
            for use in modules
            if self._needs_trust(use) and not (self._trusted() and self._is_covered(use))
        ]
        refused += [
            Refusal(f"{value.key} {_DOES.get(value.kind, 'needs trust')}", value.where, self._why())
            for value in values
            if not self._trusted()
        ]
        return tuple(refused)

    def _needs_trust(self, use: ModuleUse) -> bool:
        """Return whether a module may only run when the project is trusted.

        It needs trust when the project's files name its source, or when its code is in the project and the user's own
        settings do not name it. What is in the user's home is the user's, even when the home is in the project.
        """
        path, home = local_folder(use.source), self._store.home.path
        if path is not None and _is_inside(path, self._project) and not _is_inside(path, home):
            return not (use.named_by == "user" and use.owner == "user")
        return use.named_by == "project" and not use.given_by_user

    def _is_covered(self, use: ModuleUse) -> bool:
        """Return whether the trust in the project covers the code of a module; fetched code is pinned instead."""
        path = local_folder(use.source)
        is_inside = path is not None and _is_inside(path, self._project)
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
            return f"cannot determine whether the project is trusted: {state.problem}"
        if state.state == "changed":
            return f"the project was trusted, but {_listed(state.changed)} changed since"
        return "" if state.trusted else "the project is not trusted"


def _description(use: ModuleUse) -> str:
    from amplifier_foundation.sources.uri import without_secrets

    return f"{use.section}: module {use.module!r} from {without_secrets(use.source)}"


def local_folder(source: str | None) -> Path | None:
    """Return the folder that a source names on this machine; None for one that is fetched."""
    if source is None:
        return None
    if source.startswith("file://"):
        from urllib.parse import unquote

        path, _, fragment = source[len("file://") :].partition("#")
        part = fragment.removeprefix("subdirectory=") if fragment.startswith("subdirectory=") else ""
        return Path(unquote(path)) / unquote(part).lstrip("/")
    return Path(source) if source.startswith("/") else None


def _is_inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _listed(names: Sequence[str], most: int = 5) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
