"""What a running session may do: its current rules, and the rules that a person adds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.policy.modes import RunPermissions
from amplifier_foundation.policy.permissions import Judgement, Permissions
from amplifier_foundation.policy.remembered_rules import MemoryScope, RememberedRule, RememberedRules

if TYPE_CHECKING:
    from amplifier_core.approval import AnsweredBy
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.trust.store import GivenTrust
    from amplifier_kit.guard.policy.rule_parser import Problem
    from amplifier_kit.guard.policy.rules import Rule


#: A bundle's file as tools accept it; other names that begin like this are files of the project.
_MENTION: Final = re.compile(r"@[\w.-]+:")
#: Keys under which tools name one file.
_PATHS: Final = ("file_path", "path")
#: The scopes with rules of a person, the mode that they chose included; those of the product and of bundles are not.
_OF_PERSONS: Final = ("session", "user", "project", "local", "remembered", "run", "mode")


class SessionPermissions:
    """The policy of a session. Files that change while it runs count from the next decision on."""

    def __init__(
        self,
        load: Callable[[], Permissions],
        memory: RememberedRules,
        locate: Callable[[str], Path | None] = lambda mention: None,
        run: RunPermissions | None = None,
    ) -> None:
        """Judge by the rules that `load` reads on first use and whenever a file has changed.

        Remembered decisions go into `memory`. `locate` returns the file that a mention of a bundle's file means. `run`
        is what the user sets for the run, such as the permission mode.
        """
        #: The same object for a session and all its children.
        self.run = run or RunPermissions()
        self._laid_over: tuple[Any, Permissions] | None = None
        self._exempting: tuple[Any, Permissions | None] | None = None
        self._locate = locate
        self._load = load
        self._memory = memory
        self._loaded: Permissions | None = None

    @classmethod
    def of(
        cls,
        prepared: Prepared,
        session: Path,
        *,
        trust: GivenTrust | None = None,
        locate: Callable[[str], Path | None] = lambda mention: None,
        run: RunPermissions | None = None,
    ) -> SessionPermissions:
        """Return the permissions of a prepared session with its folder at `session`.

        While `trust` holds, the project counts as trusted even if the record of trusted folders lacks it. `locate`
        returns the file that a mention of a bundle's file means. `run` is what the user sets for the run.
        """
        folders = run.folders if run is not None else ()

        def load() -> Permissions:
            from amplifier_foundation.plan.project_files import control_files_of
            from amplifier_foundation.policy.policy_file import may_bundle_allow
            from amplifier_foundation.sessions.plan import is_trusted

            trusted = is_trusted(prepared, trust)
            loaded = Permissions.load(
                prepared.home,
                prepared.project,
                is_trusted=trusted,
                plan=prepared.composed.plan,
                bundle=f"bundle {prepared.composed.name}",
                is_bundle_trusted=may_bundle_allow(prepared.layers, is_trusted=trusted),
                session=session,
                bundles=[Path(root) for root in prepared.composed.namespaces.values()],
                control_files=control_files_of(prepared),
                folders=folders,
            )
            own = run.rules_source() if run is not None else None
            return loaded if own is None else loaded.with_sources((*loaded.sources, own))

        return cls(load, RememberedRules(prepared.home, prepared.project, session), locate, run)

    @property
    def current(self) -> Permissions:
        """The rules, reloaded if a file has changed."""
        if self._loaded is None or self._loaded.is_stale:
            self._loaded = self._load()
        return self._loaded

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the rules."""
        return self.current.problems

    def policy(
        self, action: str, details: dict[str, Any], *, is_confined: bool = False
    ) -> tuple[str, str, AnsweredBy, str]:
        """Return the verdict on an action, its reason, its rule, and the command, path or host that it is about.

        `is_confined` means that the tool runs its commands in a sandbox that works.
        """
        judged = self.judge(action, details, is_confined=is_confined)
        reason = judged.reason
        if judged.verdict == "deny" and judged.rule is None:
            reason = f"{reason}: `amplifier policy explain` says what would allow {action}"
        return judged.verdict, reason, judged.answered_by, " ".join(judged.what.splitlines())

    def judge(self, action: str, details: Mapping[str, Any], *, is_confined: bool = False) -> Judgement:
        """Return what the current rules and the mode say about an action, and which rule decides."""
        located = self._located(details)
        judged = self._in_mode(is_confined=is_confined).judge(action, located)
        if judged.verdict != "allow" or (why := self._exempt(action, located)) is None:
            return judged
        by_rules = self.current.judge(action, located)
        is_by_default = by_rules.verdict == "ask" and by_rules.scope == "default"
        return replace(by_rules, reason=why) if is_by_default else by_rules

    def denial_by_mode(self, action: str, details: Mapping[str, Any]) -> str | None:
        """Return why the permission mode denies an action; None if it does not."""
        return self.run.denial(action, self._located(details), self.current.project)

    def is_allowed_by_person(self, action: str, details: Mapping[str, Any], *, is_confined: bool = False) -> bool:
        """Return whether a person's rule or mode allows an action and no other rule restricts it."""
        judged = self.judge(action, details, is_confined=is_confined)
        return judged.verdict == "allow" and judged.scope in _OF_PERSONS

    def suggest(self, action: str, details: Mapping[str, Any]) -> tuple[Rule, ...]:
        """Return the narrowest rules that would allow an action; empty if no rule could."""
        located = self._located(details)
        rules = self._in_mode(is_confined=False) if self._exempt(action, located) is None else self.current
        return rules.suggest(action, located)

    def remember(self, rules: Sequence[Rule], scope: MemoryScope, by: str = "") -> tuple[RememberedRule, ...]:
        """Remember rules in a scope; raises RememberError and PolicyFileError."""
        return self._memory.remember(rules, scope, by)

    def _in_mode(self, *, is_confined: bool) -> Permissions:
        """Return the current rules with those of the permission mode."""
        current = self.current
        key = (current, self.run.mode, is_confined)
        if self._laid_over is None or self._laid_over[0] != key:
            mode = self.run.mode_source(current.project, is_confined=is_confined)
            changed = current if mode is None else current.with_sources((*current.sources, mode))
            self._laid_over = (key, changed)
        return self._laid_over[1]

    def _exempt(self, action: str, details: Mapping[str, Any]) -> str | None:
        """Return why the mode allows nothing about an action that the rules do not; None if it may."""
        key = (self.run.mode, self.current.project)
        if self._exempting is None or self._exempting[0] != key:
            self._exempting = (key, self.run.exempt(self.current.project))
        exempting = self._exempting[1]
        judged = exempting.judge(action, details) if exempting is not None else None
        return judged.reason if judged is not None and judged.verdict != "allow" else None

    def _located(self, details: Mapping[str, Any]) -> Mapping[str, Any]:
        """Replace mentions of a bundle's files in details by paths; a mention without a file stays, and is denied."""
        given = details.get("tool_input")
        if not isinstance(given, Mapping):
            return details
        found = {key: self._file(given.get(key)) for key in _PATHS}
        known = {key: str(path) for key, path in found.items() if path is not None}
        return {**details, "tool_input": {**given, **known}} if known else details

    def _file(self, mention: Any) -> Path | None:
        return self._locate(mention) if isinstance(mention, str) and _MENTION.match(mention) else None
