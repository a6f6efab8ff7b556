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
    from amplifier_foundation.policy.permissions import Permissions
    from amplifier_foundation.policy.policy_file import PolicySource
    from amplifier_foundation.settings.settings import Settings
    from amplifier_kit.guard.policy.rules import Rule

Mode = Literal["read-only", "ask", "accept-edits", "auto"]

#: Emitted when the mode of a session changes, also when it starts in another one than `ask`.
MODE_CHANGED: Final = "policy:mode_changed"
#: Emitted at the end of a turn in `auto` mode that changed files which others run by themselves.
UNASKED_CHANGE: Final = "policy:unasked_change"
#: The key in the metadata of a session.
METADATA_KEY: Final = "permission_mode"
#: The key in settings.
SETTING: Final = "permissions.mode"
DEFAULT: Final[Mode] = "ask"
#: The mode that allows commands, if they run in the sandbox.
AUTO: Final[Mode] = "auto"
READ_ONLY: Final[Mode] = "read-only"
#: The modes that edit files without asking.
_EDITING: Final[tuple[Mode, ...]] = ("accept-edits", AUTO)
_WRITE: Final = "filesystem.write"
#: From the strictest to the loosest.
_BY_STRICTNESS: Final[tuple[Mode, ...]] = get_args(Mode)
#: Files and folders of a project, at any depth, that programs run or obey by themselves, or that a server runs with the
#: keys of the repository after a push: no mode allows to write one, so that the rules decide.
RUN_BY_OTHERS: Final = (
    # editors
    *(".vscode", ".idea", ".devcontainer", ".zed", "*.code-workspace", ".vimrc", ".exrc", ".nvimrc", ".nvim.lua"),
    ".dir-locals.el",
    # shells
    *(".envrc", ".mise", ".mise.toml", "mise.toml"),
    # git, in the file or folder `.git` and in the usual places of hooks
    *(".git", ".husky", ".githooks", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml"),
    # servers
    *(".github/workflows", ".github/actions", ".gitlab-ci.yml", ".circleci", ".woodpecker", ".drone.yml"),
    *("Jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml"),
    # other agents
    *(".cursor", ".gemini", ".codex"),
)
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

    def exempt(self, project: Path) -> Permissions | None:
        """Return permissions that ask for calls which the mode leaves to the rules, as they write what others run."""
        if self.mode not in _EDITING or not_a_project(project):
            return None
        from amplifier_foundation.policy.permissions import Permissions
        from amplifier_foundation.policy.policy_file import PolicySource
        from amplifier_kit.guard.policy.rules import Rule

        everything = PolicySource("mode", "", (Rule("allow"),))
        return Permissions([everything], project, self._guards(project))

    def _guards(self, project: Path) -> tuple[Rule, ...]:
        from amplifier_kit.guard.control_files import Use, hooks_folders, project_rows
        from amplifier_kit.guard.policy.paths import escaped
        from amplifier_kit.guard.policy.rules import Rule

        folders = [str(folder) for folder in self.folders]
        places = ["**", *(f"{escaped(folder)}/**" for folder in folders)]
        why = "editors, shells, git or a server run what lies here by themselves"
        others = [found for folder in (str(project), *folders) for found in hooks_folders(folder)]
        # Dotfiles often lie in a repository, and the home folder has links to them.
        others += _of_login()
        patterns = [*(f"{place}/{name}" for place in places for name in RUN_BY_OTHERS), *map(escaped, others)]
        rules = [Rule("ask", action=_WRITE, path=pattern, reason=why) for pattern in patterns]
        # The rows of the project itself are guarded in every mode.
        why = "this decides what a session runs that is started there"
        rows = {row.pattern: row for use in (Use.POLICY, Use.TRUST) for row in project_rows(use)}
        nested = [f"{place}/{name}" for place in places for name in rows if name.startswith(".")]
        added = [f"{escaped(folder)}/{row.pattern}" for folder in folders for row in project_rows(Use.POLICY)]
        return (*rules, *(Rule("ask", action=_WRITE, path=each, reason=why, is_exact=True) for each in nested + added))

    def _rules_of_mode(self, project: Path, *, is_confined: bool) -> tuple[Rule, ...]:
        if self.mode not in _EDITING or not_a_project(project):
            return ()
        from amplifier_kit.guard.policy.paths import escaped
        from amplifier_kit.guard.policy.rules import Rule

        name = f"{self.mode} mode"
        places = ["**", *(f"{escaped(str(folder))}/**" for folder in self.folders)]
        rules = [
            Rule("allow", action=_WRITE, path=place, reason=f"{name}: editing inside the project") for place in places
        ]
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


#: By the id of each session that runs in this process: what other processes that it starts sessions in have to be told.
RUNNING: Final[dict[str, RunPermissions]] = {}
#: The fields of a rule that say what it means.
_RULE: Final = ("verdict", "action", "tool", "command", "path", "host", "reason", "where", "is_exact")


def to_data(run: RunPermissions) -> dict[str, Any]:
    """Return the mode and the rules as plain data, for another process; folders are not passed on."""
    return {"mode": run.mode, "rules": [{name: getattr(rule, name) for name in _RULE} for rule in run.rules]}


def from_data(data: Mapping[str, Any]) -> RunPermissions:
    """Return what `to_data` returned as data; raises what reading other data raises."""
    from amplifier_kit.guard.policy.rules import Rule

    return RunPermissions(parse_mode(data["mode"]), rules=tuple(Rule(**rule) for rule in data["rules"]))


def not_a_project(folder: Path) -> str:
    """Return why files of a folder are not edited unasked; empty for a folder that may be a project."""
    import os

    from amplifier_kit.guard.processes.programs import is_below
    from amplifier_kit.guard.sandbox.system_paths import SECRETS, STARTUP, is_too_wide

    real, home = os.path.realpath(folder), os.path.realpath(os.path.expanduser("~"))
    if is_below(home, real):
        return "contains your home folder, where files decide what runs at login"
    for name in (*SECRETS, *STARTUP):
        place = os.path.join(home, name)
        if is_below(place, real) or is_below(real, os.path.realpath(place)):
            return f"has to do with ~/{name}, which holds secrets or decides what runs"
    return "is a part of the system" if is_below(real, "/etc") or is_too_wide(real, home) else ""


def _of_login() -> list[str]:
    """Return where the files of the home folder lie that decide what runs at login, links resolved."""
    import os

    from amplifier_kit.guard.sandbox.system_paths import STARTUP

    return [os.path.realpath(os.path.join(os.path.expanduser("~"), name)) for name in STARTUP]


def check_place(mode: Mode, folder: Path) -> None:
    """Raise PermissionModeError for a mode that edits without asking, in a folder that is no project."""
    if mode in _EDITING and (why := not_a_project(folder)):
        raise PermissionModeError(
            f"{mode} mode needs a project: {folder} {why}; go to the folder of a project, or use the mode ask"
        )
