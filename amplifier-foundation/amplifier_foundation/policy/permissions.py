"""Decide what a session may do, by the rules of all sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from amplifier_core.approval import AnsweredBy
from amplifier_foundation.paths import LOCAL_POLICY_FILE, POLICY_FILE, Home
from amplifier_foundation.policy.policy_file import (
    PolicySource,
    default_rules,
    read_policy_file,
    rules_of_bundle,
    with_readable,
)
from amplifier_foundation.policy.protected_files import as_writing, guards
from amplifier_kit.guard.policy.facts import KNOWN_TOOLS, Facts, facts
from amplifier_kit.guard.policy.paths import compiled
from amplifier_kit.guard.policy.rule_parser import Problem
from amplifier_kit.guard.policy.rules import Decision, Rule, RuleSet, Verdict, suggest
from amplifier_kit.struct import FrozenStruct

#: How strict a verdict is; no verdict is a denial.
STRICTNESS: Final[Mapping[Verdict | None, int]] = {"allow": 0, "ask": 1, "deny": 2, None: 2}
_TOOL: Final = "tool."
#: Actions on files, which are denied where no rule is about the place.
_FILES: Final = "filesystem."
#: The action of the default rule about tools that no other rule is about.
ANY_TOOL: Final = "tool.*"


def known_action(action: str, details: Mapping[str, Any]) -> str:
    """Return the action of a known tool that does not declare one; any other action as it is.

    The name in the details must be the one in the action, so that details cannot disguise a tool.
    """
    name = action.removeprefix(_TOOL) if action.startswith(_TOOL) else ""
    return KNOWN_TOOLS.get(name, action) if details.get("tool_name", name) == name else action


def named_details(action: str, details: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the details with the tool's name in them, when only the action has it."""
    if action.startswith(_TOOL) and "tool_name" not in details:
        return {**details, "tool_name": action.removeprefix(_TOOL)}
    return details


class Judgement(FrozenStruct):
    """A verdict on an action or a part of one, why, and whose rule it was; None for a rule that does not exist."""

    verdict: Verdict
    reason: str
    rule: Rule | None = None
    #: Whose rule it was: session, user, project, local, bundle, remembered, run, mode or default; empty without a rule.
    scope: str = ""
    #: The part that decided: a command, a path, a host, else the tool or the action.
    what: str = ""
    #: Whether it is denied only because no rule covers it.
    is_uncovered: bool = False

    @property
    def answered_by(self) -> AnsweredBy:
        """Return the rule that decided, as the log records it."""
        from amplifier_foundation.policy.remembered_rules import is_remembered

        rule, scope = self.rule, self.scope
        if rule is None:
            return {"kind": "nobody"}
        kind = "default" if scope == "default" else "remembered" if is_remembered(rule, scope) else "rule"
        where = {"where": rule.where} if rule.where and scope != "default" else {}
        return {"kind": kind, "rule": str(rule), "scope": scope, **where}


#: Whose reasons are the product's or the user's own words.
_OWN_WORDS: Final = ("default", "user", "session", "remembered", "run", "mode")


class Permissions:
    """All rules that hold for a session in a project.

    Deny is absolute and ask is a minimum, whichever source says so. Rules that allow count only where no rule
    restricts, and those of an untrusted project not at all: it may only tighten what would hold without it, and so may
    the substitute for a rule that cannot be read. The defaults apply where no other rule does. A tool that no rule is
    about is asked for; everything else that no rule covers is denied.
    """

    def __init__(self, sources: Sequence[PolicySource], project: Path, guards: Iterable[Rule] = ()) -> None:
        """Judge by these sources; `guards` ask before files that rules depend on are written, whatever allows it."""
        self.project = project
        self.sources: tuple[PolicySource, ...] = tuple(sources)
        self.guards: tuple[Rule, ...] = tuple(guards)
        self._remembered: list[Rule] = []
        self._stamps: dict[Path, tuple[int, ...] | None] = {}
        self._compile()

    @classmethod
    def load(
        cls,
        home: Home,
        project: Path,
        *,
        is_trusted: bool | None = None,
        plan: Mapping[str, Any] | None = None,
        bundle: str = "bundle",
        is_bundle_trusted: bool = True,
        session: Path | None = None,
        bundles: Iterable[Path] = (),
        user_file: Path | None = None,
        control_files: Iterable[Path] = (),
        folders: Sequence[Path] = (),
    ) -> Permissions:
        """Read every source there is; their errors are in `problems`, and nothing fails open.

        `is_trusted` is what the record of trusted folders says unless it is given. `session` is the folder of the
        session, whose remembered rules hold as well; `bundles` are the roots of its bundles. `user_file` stands in for
        the user's own file. `control_files` are those that the session was made of. `folders` count as part of the
        project where no other rule decides.
        """
        if is_trusted is None:
            from amplifier_foundation.trust.store import TrustStore

            is_trusted = TrustStore(home).state(project).trusted
        folder = project / ".amplifier"
        own = user_file or home.path / POLICY_FILE
        # Before they are read: what changes meanwhile is noticed later.
        stamps = {path: _stamp(path) for path in (own, *home.policy_files(project, session)[1:], home.trust)}
        found = [
            read_policy_file(session / POLICY_FILE, "session") if session is not None else None,
            read_policy_file(own, "user"),
            # In the user's home directory, the folder of the project is the home of the program.
            read_policy_file(folder / POLICY_FILE, "project", may_allow=is_trusted)
            if os.path.realpath(folder) != os.path.realpath(home.path)
            else None,
            read_policy_file(folder / LOCAL_POLICY_FILE, "local", may_allow=is_trusted),
            rules_of_bundle(plan or {}, bundle, may_allow=is_bundle_trusted),
            with_readable(default_rules(), session, bundles, folders),
        ]
        known = [source for source in found if source is not None]
        permissions = cls(known, project, guards(home, project, session, control_files))
        permissions._stamps = stamps
        return permissions

    @property
    def is_stale(self) -> bool:
        """Whether a policy file or the record of trust came, changed or went since: load the rules again then."""
        return any(_stamp(path) != stamp for path, stamp in self._stamps.items())

    def with_sources(self, sources: Iterable[PolicySource]) -> Permissions:
        """Return the same permissions with other sources; what was remembered stays."""
        fresh = Permissions(tuple(sources), self.project, self.guards)
        fresh._stamps = self._stamps
        for rule in self._remembered:
            fresh.remember(rule)
        return fresh

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return what is wrong with the sources, and which rules do not count because a project is not trusted."""
        found = [problem for source in self.sources for problem in source.problems]
        for source in self.sources:
            idle = sum(rule.verdict == "allow" for rule in source.rules) if not source.may_allow else 0
            if idle:
                rules = "1 rule that allows does" if idle == 1 else f"{idle} rules that allow do"
                found.append(Problem(source.origin, f"{rules} not count: the project is not trusted"))
        return tuple(found)

    @property
    def remembered(self) -> tuple[Rule, ...]:
        """Return what was remembered in this object; `RememberedRules` keeps rules in files."""
        return tuple(self._remembered)

    def remember(self, rule: Rule) -> None:
        """Let a rule hold from now on; it grants exactly what it says."""
        if rule not in self._remembered:
            self._remembered.append(rule)
            self._compile()

    def forget(self, rule: Rule) -> bool:
        """Forget a remembered rule, and return whether it was remembered."""
        if rule not in self._remembered:
            return False
        self._remembered.remove(rule)
        self._compile()
        return True

    def judge(self, action: str, details: Mapping[str, Any]) -> Judgement:
        """Return the verdict on the strictest part of an action; never raises: what cannot be judged is denied."""
        return strictest(self.parts(action, details))

    def parts(self, action: str, details: Mapping[str, Any]) -> tuple[Judgement, ...]:
        """Return the verdict on each part of an action: every command, path and host; at least one. Never raises."""
        try:
            return tuple(self._judged(action, details))
        except Exception as error:  # a bug of ours must not allow anything
            return (Judgement("deny", f"it cannot be judged: {type(error).__name__}: {error}", what=str(action)),)

    def policy(self, action: str, details: dict[str, Any]) -> tuple[str, str]:
        """Be the policy of a session: a verdict and its reason."""
        judged = self.judge(action, details)
        return judged.verdict, judged.reason

    def suggest(self, action: str, details: Mapping[str, Any]) -> tuple[Rule, ...]:
        """Return the narrowest rules that would allow an action, empty when none would or none is worth it.

        No additional rule can allow what a rule other than the defaults asks for or denies.
        """
        if self.judge(action, details).verdict == "allow":
            return ()
        acting, named = known_action(action, details), named_details(action, details)
        found = suggest(facts(acting, named, self.project), self._own, self.project)
        return found if found and self.allowing(found).judge(action, details).verdict == "allow" else ()

    def hidden(self, tool: str) -> Callable[[str], bool] | None:
        """Return the check for paths that a tool which reads many must leave out; None when nothing is hidden."""
        from amplifier_kit.guard.policy.paths import hidden_paths

        # The defaults hide nothing: they ask when a tool reads the path itself.
        written = [source for source in self.sources if source.scope != "default"]
        rules = [rule for source in written for rule in (*source.rules, *source.floors)]
        return hidden_paths([*rules, *self._remembered], self.project, tool)

    def allowing(self, rules: Iterable[Rule]) -> Permissions:
        """Return these permissions with some more rules, to see what they would change."""
        fresh = Permissions(self.sources, self.project, self.guards)
        fresh._remembered = [*self._remembered, *rules]
        fresh._compile()
        return fresh

    def _compile(self) -> None:
        ours = [source for source in self.sources if source.may_allow]
        defaults = [rule for source in ours if source.scope == "default" for rule in source.rules]
        others = [rule for source in ours if source.scope != "default" for rule in source.rules]
        # It is about tools that nothing else is about, so it restricts no other rule of the product.
        self._unruled = next((rule for rule in defaults if rule.action == ANY_TOOL), None)
        basis = RuleSet([rule for rule in defaults if rule is not self._unruled], self.project)
        self._own = RuleSet([*others, *self._remembered], self.project, otherwise=basis)
        tighter = [rule for source in self.sources for rule in source.floors]
        for source in self.sources:
            if not source.may_allow:
                tighter += [rule for rule in source.rules if rule.verdict != "allow"]
        # They decide only what they restrict: everything else counts as allowed here.
        rest = RuleSet([Rule("allow")], self.project)
        self._tightening = RuleSet(tighter, self.project, otherwise=rest) if tighter else None
        every = [(source, rule) for source in self.sources for rule in (*source.rules, *source.floors)]
        self._scopes = {id(rule): source.scope for source, rule in every}
        named = {rule.action for rule in (*(rule for _, rule in every), *self._remembered) if rule is not self._unruled}
        self._actions = {action for action in named if action is not None}

    def _judged(self, action: str, details: Mapping[str, Any]) -> Iterable[Judgement]:
        acting = known_action(action, details)
        known = facts(acting, named_details(action, details), self.project)
        judged = self._by_own_rules(known)
        # Rules that name no action were applied already.
        is_named = acting != action and any(compiled(pattern).match(action) for pattern in self._actions)
        named = known._replace(action=action)
        if is_named:
            self._by_name(named, judged)
        for each in (known, named) if is_named else (known,):
            self._tighten(each, judged)
        self._guard(known, details, judged)
        return judged.values()

    def _by_own_rules(self, known: Facts) -> dict[str, Judgement]:
        judged: dict[str, Judgement] = {}
        for decision in self._own.decide_parts(known):
            judgement = self._judgement(decision)
            if decision.verdict is None and self._unruled is not None and _is_of_tool(known):
                judgement = Judgement("ask", self._unruled.reason, self._unruled, "default", decision.what)
            _put_strictest(judged, judgement)
        return judged

    def _by_name(self, named: Facts, judged: dict[str, Judgement]) -> None:
        """Apply rules about `tool.<name>` to a tool that is judged by what it does."""
        said: dict[str, list[Judgement | None]] = {}
        for decision in self._own.decide_parts(named):
            judgement = self._judgement(decision)
            has_opinion = decision.verdict is not None and judgement.scope != "default"
            said.setdefault(decision.what, []).append(judgement if has_opinion else None)
        for what, opinions in said.items():
            so_far = judged.get(what)
            is_open = so_far is not None and (so_far.rule is None or so_far.scope == "default")
            if is_open and opinions[0] is not None and all(each and each.verdict == "allow" for each in opinions):
                judged[what] = opinions[0]  # only the defaults judged what it does
                continue
            for each in opinions:
                if each is not None:
                    _put_strictest(judged, each)

    def _tighten(self, known: Facts, judged: dict[str, Judgement]) -> None:
        if self._tightening is None:
            return
        for decision in self._tightening.decide_parts(known):
            if decision.verdict in ("ask", "deny"):
                _put_strictest(judged, self._judgement(decision))

    def _guard(self, known: Facts, details: Mapping[str, Any], judged: dict[str, Judgement]) -> None:
        """Ask before writing what decides about the session, and give that reason even if a rule has another."""
        written = as_writing(known, details, self.project) if self.guards else None
        if written is None:
            return
        for decision in self._guarding.decide_parts(written):
            so_far = judged.get(decision.what)
            if decision.verdict == "ask" and (so_far is None or so_far.verdict != "deny"):
                judged[decision.what] = Judgement("ask", decision.reason, decision.rule, "default", decision.what)

    @cached_property
    def _guarding(self) -> RuleSet:
        return RuleSet(self.guards, self.project)

    def _judgement(self, decision: Decision) -> Judgement:
        rule = decision.rule
        if decision.verdict is None:
            return Judgement("deny", decision.reason, what=decision.what, is_uncovered=decision.is_uncovered)
        scope = self._scopes.get(id(rule), "remembered") if rule is not None else ""
        where = f" ({rule.where})" if rule is not None and rule.where and scope != "default" else ""
        return Judgement(decision.verdict, f"{_reason(decision, scope)}{where}", rule, scope, decision.what)


def _is_of_tool(known: Facts) -> bool:
    """Return whether an action is a tool's own; of a file that it names, rules about files decide."""
    return known.action.startswith(_TOOL) or (known.tool != "" and not known.action.startswith(_FILES))


def _reason(decision: Decision, scope: str) -> str:
    """Return the reason of a decision; texts of a project or a bundle are quoted on one line, as untrusted."""
    import json

    is_own = scope in _OWN_WORDS or decision.rule is None or decision.reason != decision.rule.reason
    return decision.reason if is_own else json.dumps(decision.reason, ensure_ascii=False)


def strictest(judgements: Iterable[Judgement]) -> Judgement:
    """Return the strictest of some judgements; a denying rule is preferred to the lack of a rule."""
    return max(judgements, key=_weight)


def _put_strictest(judged: dict[str, Judgement], said: Judgement) -> None:
    """Keep the strictest judgement of each part; of equally strict ones that of a person's rule, then the first."""
    so_far = judged.get(said.what)
    if so_far is None or _weight(said) > _weight(so_far):
        judged[said.what] = said


def _weight(judgement: Judgement) -> tuple[int, bool, bool]:
    return STRICTNESS[judgement.verdict], judgement.rule is not None, judgement.scope != "default"


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
