"""Permission modes: how much a session does without asking, laid over the rules of all sources.

A mode never lifts a rule: what one denies stays denied and what one asks for stays asked. It takes the place of the
product's own rules where these would ask (`accept-edits`, `auto`), or forbids more than they do (`read-only`). One
`RunPermissions` is shared by a session and all its children, so that a change holds for every agent at once, and no
agent, bundle or project file can choose a looser mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_kit.struct import FrozenStruct, Struct

if TYPE_CHECKING:
    from amplifier_foundation.policy.policy_file import PolicySource
    from amplifier_foundation.settings.settings import Settings
    from amplifier_kit.guard.policy.rules import Rule

Mode = Literal["read-only", "ask", "accept-edits", "auto"]

#: Emitted when the mode of a session changes, also when it starts in another one than `ask`.
MODE_CHANGED: Final = "policy:mode_changed"
#: The key in the metadata of a session.
METADATA_KEY: Final = "permission_mode"
#: The key in settings.
SETTING: Final = "permissions.mode"
DEFAULT: Final[Mode] = "ask"
#: The mode that allows commands, if they run in the sandbox.
AUTO: Final[Mode] = "auto"
READ_ONLY: Final[Mode] = "read-only"
#: From the strictest to the loosest.
_BY_STRICTNESS: Final[tuple[Mode, ...]] = get_args(Mode)
#: Files that editors, shells and git hooks of a project run by themselves: writing one is asked about in every mode.
_RUN_BY_OTHERS: Final = ("**/.vscode/**", "**/.idea/**", "**/.devcontainer/**", "**/.husky/**", "**/.envrc")
#: The scopes of settings that may loosen what is asked: files of a project, which others write too, may not.
_MAY_LOOSEN: Final = ("user", "session", "given")


class ModeInfo(FrozenStruct):
    """A permission mode and what it means, for people."""

    name: Mode
    summary: str


#: In the order in which a key goes through them.
MODES: Final = (
    ModeInfo("ask", "ask as the rules say"),
    ModeInfo("accept-edits", "edit files in the project without asking"),
    ModeInfo("auto", "edit files in the project and run commands in the sandbox without asking"),
    ModeInfo("read-only", "deny everything that is not known to only read"),
)


class PermissionModeError(FoundationError):
    """An unknown permission mode, or one that is not available here; the text says why, and what to do."""

    code = "permission_mode"


def parse_mode(text: Any, where: str = "") -> Mode:
    """Return the mode called `text`; raises PermissionModeError with a hint, after `where` if it is given."""
    if text in _BY_STRICTNESS:
        return cast(Mode, text)
    place = f"{where}: " if where else ""
    hint = did_you_mean(str(text), [mode.name for mode in MODES])
    raise PermissionModeError(f"{place}unknown permission mode {text!r:.100}: {hint}")


def mode_of_saved(metadata: Mapping[str, Any]) -> Mode:
    """Return the mode in the metadata of a session; raises PermissionModeError for an unknown one."""
    return parse_mode(metadata.get(METADATA_KEY, DEFAULT), "metadata.json of the session")


class ModeSetting(FrozenStruct):
    """The mode that settings choose, and the file and line that do."""

    mode: Mode = DEFAULT
    where: str = ""


def mode_of_settings(settings: Settings) -> ModeSetting:
    """Return the mode that new sessions start in; raises PermissionModeError for an unknown one.

    The user's settings choose it. Those of a project, trusted or not, can only make it stricter.
    """
    own, stricter = ModeSetting(), list[ModeSetting]()
    for scope, document in settings.documents:
        section = document.data.get("permissions")
        given = section.get("mode") if isinstance(section, Mapping) else None
        if given is not None:
            where = document.where("permissions", "mode")
            found = ModeSetting(parse_mode(given, where), where)
            if scope in _MAY_LOOSEN:
                own = found
            else:
                stricter.append(found)
    return min([own, *stricter], key=lambda setting: _BY_STRICTNESS.index(setting.mode))


class RunPermissions(Struct):
    """What the user sets for a session and its children, besides the rules in files: one object for the whole tree."""

    mode: Mode = DEFAULT
    #: Who chose the mode, for the log: as `answered_by` of approvals, or of the kind `setting` or `resumed`.
    by: Mapping[str, Any] = field(default_factory=dict)
    #: Rules for this run alone.
    rules: tuple[Rule, ...] = ()
    #: Folders that count as part of the project.
    folders: tuple[Path, ...] = ()

    @classmethod
    def starting(
        cls,
        chosen: Mode | None,
        by: Mapping[str, Any],
        saved: Mapping[str, Any] | None,
        settings: Settings,
        rules: Iterable[Rule] = (),
        folders: Iterable[Path] = (),
    ) -> RunPermissions:
        """Return what a session starts with: the mode that was chosen for it, else the one that it had, else settings'.

        `saved` is the metadata of a session that is resumed. Raises PermissionModeError for an unknown mode.
        """
        if chosen is None and saved is not None and METADATA_KEY in saved:
            chosen, by = mode_of_saved(saved), {"kind": "resumed"}
        if chosen is None:
            setting = mode_of_settings(settings)
            chosen, by = setting.mode, {"kind": "setting", "where": setting.where}
        return cls(chosen, by, tuple(rules), tuple(folders))

    def rules_source(self) -> PolicySource | None:
        """Return the rules for this run, None without any."""
        from amplifier_foundation.policy.policy_file import PolicySource

        return PolicySource("run", "the options of this run", self.rules) if self.rules else None

    def mode_source(self, project: Path, *, is_confined: bool) -> PolicySource | None:
        """Return the rules of the mode, None without any; `is_confined` means that a command runs in a sandbox."""
        from amplifier_foundation.policy.policy_file import PolicySource

        rules = self._rules_of_mode(project, is_confined=is_confined)
        return PolicySource("mode", f"{self.mode} mode", rules) if rules else None

    def _rules_of_mode(self, project: Path, *, is_confined: bool) -> tuple[Rule, ...]:
        if self.mode not in ("accept-edits", AUTO) or contains_home(project):
            return ()
        from amplifier_kit.guard.policy.paths import escaped
        from amplifier_kit.guard.policy.rules import Rule

        name = f"{self.mode} mode"
        places = ["**", *(f"{escaped(str(folder))}/**" for folder in self.folders)]
        rules = [
            Rule("allow", action="filesystem.write", path=place, reason=f"{name}: editing inside the project")
            for place in places
        ]
        why = "editors, shells and git hooks run what lies here by themselves"
        rules += [Rule("ask", action="filesystem.write", path=f"/{place}", reason=why) for place in _RUN_BY_OTHERS]
        if self.mode == AUTO:
            rules.append(Rule("allow", action="session.spawn", reason=f"{name}: an agent has the same mode"))
            if is_confined:
                rules.append(Rule("allow", action="process.exec", reason=f"{name}: the command runs in the sandbox"))
        return tuple(rules)

    def denial(self, action: str, details: Mapping[str, Any], project: Path) -> str | None:
        """Return why the mode denies an action, None if it does not; fails closed."""
        if self.mode != READ_ONLY:
            return None
        from amplifier_foundation.policy.permissions import known_action, named_details
        from amplifier_kit.guard.policy.facts import facts
        from amplifier_kit.guard.policy.reading import not_reading

        known = facts(known_action(action, details), named_details(action, details), project)
        why = not_reading(known)
        return None if why is None else f"read-only mode: {why}"


def contains_home(project: Path) -> bool:
    """Return whether a project contains the user's home folder, where any file may decide what runs at login."""
    import os

    home = os.path.expanduser("~")
    return os.path.isabs(home) and Path(os.path.realpath(home)).is_relative_to(os.path.realpath(project))


def check_place(mode: Mode, folder: Path) -> None:
    """Raise PermissionModeError for a mode that edits without asking, in a folder that is no project."""
    if mode in ("accept-edits", AUTO) and contains_home(folder):
        raise PermissionModeError(
            f"{mode} mode needs a project: {folder} contains your home folder, where files decide what runs at "
            "login; go to the folder of a project, or use the mode ask"
        )
