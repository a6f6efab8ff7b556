"""Know where things are: one home, moved as a whole by $AMPLIFIER_HOME, one folder per project, one per session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.errors import FoundationError
from amplifier_kit.home import amplifier_home as kit_home
from amplifier_kit.home import project_slug
from amplifier_kit.struct import FrozenStruct

__all__ = [
    "Home",
    "NoHomeError",
    "ProjectGoneError",
    "amplifier_home",
    "current_project",
    "expanded",
    "project_slug",
]


class NoHomeError(FoundationError):
    """The home folder cannot be determined."""

    code = "no_home"


class ProjectGoneError(FoundationError):
    """The folder the program was started in no longer exists."""

    code = "project_gone"


def amplifier_home(environ: Mapping[str, str] | None = None) -> Path:
    """Return `$AMPLIFIER_HOME`, else `~/.amplifier`, absolute; raise NoHomeError when neither is known."""
    variables = os.environ if environ is None else environ
    given = variables.get("AMPLIFIER_HOME")
    if not given and variables.get("HOME") == "":
        raise _no_home("HOME is empty")  # which would be taken for the root of the file system
    try:
        return kit_home(environ).absolute()
    except RuntimeError as error:
        raise _no_home(f"{given} is in the home of an unknown user" if given else "HOME is not set") from error
    except FileNotFoundError as error:
        where = "it is relative to the current folder, which does not exist any more"
        raise _no_home(f"{given}: {where}" if given else f"HOME: {where}") from error


def _no_home(why: str) -> NoHomeError:
    return NoHomeError(f"there is no home directory to keep sessions in ({why}): set HOME or AMPLIFIER_HOME")


def expanded(text: str) -> Path:
    """Return a path that may start with `~` or `~user`; raise NoHomeError for an unknown user."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise NoHomeError(f"{text}: cannot tell which home directory is meant: write the full path") from error


def current_project() -> Path:
    """Return the folder the program runs in, links followed; raise ProjectGoneError when it was deleted."""
    try:
        return Path.cwd().resolve()
    except FileNotFoundError as error:
        named = os.environ.get("PWD", "the current folder")
        raise ProjectGoneError(
            f"{named} does not exist any more (it was deleted while this shell stood in it): go to another folder"
        ) from error


POLICY_FILE: Final = "policy.yaml"
LOCAL_POLICY_FILE: Final = "policy.local.yaml"


class Home(FrozenStruct):
    """The places below one home. Nothing is created by asking where it would be."""

    path: Path
    #: Where fetched sources are, if not in the home.
    cache_folder: Path | None = None

    @classmethod
    def find(cls, environ: Mapping[str, str] | None = None) -> Home:
        """Return the user's home; raises NoHomeError."""
        return cls(amplifier_home(environ))

    @property
    def settings(self) -> Path:
        """Return the user's settings file."""
        return self.path / "settings.yaml"

    @property
    def keys(self) -> Path:
        """Return the file with API keys."""
        return self.path / "keys.env"

    @property
    def registry(self) -> Path:
        """Return the registry of known bundles."""
        return self.path / "registry.json"

    @property
    def trust(self) -> Path:
        """Return the record of trusted folders."""
        return self.path / "trust.json"

    @property
    def cache(self) -> Path:
        """Return the folder of fetched sources and installed dependencies; it may be deleted at any time."""
        return self.cache_folder or self.path / "cache"

    @property
    def locks(self) -> Path:
        """Return the folder of the `bundle.lock` files of bundles that lie outside of projects."""
        return self.path / "locks"

    @property
    def bundles(self) -> Path:
        """Return the folder of the user's own bundles."""
        return self.path / "bundles"

    @property
    def index(self) -> Path:
        """Return the index of all sessions; it may be deleted at any time."""
        return self.path / "index.sqlite"

    @property
    def projects(self) -> Path:
        """Return the folder that has one folder per project."""
        return self.path / "projects"

    def project(self, project: Path) -> Path:
        """Return the folder of one project."""
        return self.projects / project_slug(project)

    def sessions(self, project: Path) -> Path:
        """Return the folder that holds the sessions of one project."""
        return self.project(project) / "sessions"

    def policy_files(self, project: Path, session: Path | None) -> tuple[Path, ...]:
        """Return the files that rules may be in: the user's, the project's two, and the session's if there is one."""
        folder = project / ".amplifier"
        files = (self.path / POLICY_FILE, folder / POLICY_FILE, folder / LOCAL_POLICY_FILE)
        return files if session is None else (*files, session / POLICY_FILE)


#: What published apps import from here; `resolution.py` needs more than a run does.
_OF_RESOLUTION: Final = (
    "ParsedURI",
    "construct_agent_path",
    "construct_context_path",
    "find_bundle_root",
    "find_files",
    "normalize_path",
    "parse_uri",
)


def __getattr__(name: str) -> Any:
    if name not in _OF_RESOLUTION:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from amplifier_foundation.paths import resolution

    return getattr(resolution, name)
