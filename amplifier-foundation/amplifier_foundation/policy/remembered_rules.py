"""Decisions that were made once and hold from then on: for a session, for a project, or for the user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import LOCAL_POLICY_FILE, POLICY_FILE, Home
from amplifier_foundation.policy.policy_file import (
    append_rules,
    read_policy_file,
    remove_rule,
    rule_entry,
)
from amplifier_kit.guard.policy.rules import Rule
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_foundation.trust.store import Trust

MemoryScope = Literal["session", "local", "user"]
#: Where commands write rules of people: `project` is the file that all who work on a project share.
FileScope = Literal["user", "project", "local"]

#: The prefix of a remembered rule's reason, which distinguishes it from a rule that a person wrote.
_MARK: Final = "remembered "
_ID_LENGTH: Final = 10


class RememberError(FoundationError):
    """A decision cannot be remembered as requested; nothing was written."""

    code = "policy_remember"


class RuleNotFoundError(FoundationError):
    """No remembered rule has that id, or several may be meant."""

    code = "policy_rule_not_found"


class RememberedRule(FrozenStruct):
    """A decision that holds until it is revoked."""

    #: Stays the same as long as the rule exists.
    id: str
    scope: MemoryScope
    rule: Rule
    file: Path
    #: The session it holds for, None for other scopes.
    session: str | None = None


class RememberedRules:
    """The decisions that are kept in files: in the folder of a session, in `policy.local.yaml`, in `policy.yaml`.

    Safe for several processes. A file that cannot be read counts as empty here; loading `Permissions` reports what is
    wrong with it.
    """

    def __init__(self, home: Home, project: Path, session: Path | None = None) -> None:
        """Keep decisions of a project; `session` is the folder of the session that runs, if one does."""
        self.home = home
        self.project = project
        self.session = session

    def file(self, scope: MemoryScope | FileScope) -> Path:
        """Return where decisions of a scope are kept; raise RememberError for the session scope without a session."""
        if scope == "user":
            return self.home.path / POLICY_FILE
        if scope == "local":
            return self.project / ".amplifier" / LOCAL_POLICY_FILE
        if scope == "project":
            return self.project / ".amplifier" / POLICY_FILE
        if scope != "session":
            raise RememberError(f"{scope!r} is not a scope: use {', '.join(get_args(MemoryScope))}")
        if self.session is None:
            raise RememberError("no session runs here: remember it for the project (local) or for you (user)")
        return self.session / POLICY_FILE

    def remember(self, rules: Sequence[Rule], scope: MemoryScope, by: str = "") -> tuple[RememberedRule, ...]:
        """Keep rules, exactly as they are; return them with their ids. Those that are kept already stay as they are.

        `by` is who decided it, for readers of the rule and of what it allowed.
        Paths relative to the project are written out for the user, whose rules hold in every project. A project that
        is trusted stays so. Raises RememberError for a rule that would not count in an untrusted project, and
        PolicyFileError when the file cannot be changed.
        """
        if scope not in get_args(MemoryScope):
            raise RememberError(f"{scope!r} is not a scope: use {', '.join(get_args(MemoryScope))}")
        file = self.file(scope)
        trust = self._checked_trust(rules) if scope == "local" else None
        known = {_said(each.rule): each for each in self._in_file(file, scope)}
        wanted = [scoped(rule, scope, self.project) for rule in rules]
        fresh = [_marked(rule, by) for rule in wanted if _said(rule) not in known]
        if fresh and append_rules(file, [rule_entry(rule) for rule in fresh]):
            self._accept(file, trust)
        kept = {_said(each.rule): each for each in self._in_file(file, scope)}
        missing = [rule for rule in wanted if _said(rule) not in kept]
        if missing:
            raise RememberError(f"{file}: `{missing[0]}` was written but is not a valid rule there: look at the file")
        return tuple(kept[_said(rule)] for rule in wanted)

    def list(self) -> tuple[RememberedRule, ...]:
        """Return every remembered rule that may hold in this project: the user's, the project's, its sessions'."""
        found = [*self._in_file(self.file("user"), "user"), *self._in_file(self.file("local"), "local")]
        for file in self._session_files():
            found += self._in_file(file, "session", file.parent.name)
        return tuple(found)

    def revoke(self, text: str) -> RememberedRule:
        """Revoke the rule of an id, or of the beginning of one, and return it.

        Raises RuleNotFoundError, and PolicyFileError when the file cannot be changed.
        """
        meant = [each for each in self.list() if text and each.id.startswith(text)]
        if len(meant) != 1:
            several = f"{len(meant)} remembered rules could be meant by" if meant else "no remembered rule has the id"
            raise RuleNotFoundError(f"{several} {text!r}: `amplifier policy list` shows all with their ids")
        (one,) = meant
        trust = self._trust() if one.scope == "local" else None
        if not remove_rule(one.file, lambda entry: _is_entry_of(entry, one)):
            raise RuleNotFoundError(f"{one.file}: the rule {one.id} is gone already")
        self._accept(one.file, trust)
        return one

    def write(self, rule: Rule, scope: FileScope) -> bool:
        """Write a rule of the user's own into the policy file of a scope; return whether the file changed.

        Comments stay, and a rule that the file has already is not written again. Raises as `remember` does.
        """
        trust = self._checked_trust([rule]) if scope != "user" else None
        file, wanted = self.file(scope), scoped(rule, scope, self.project)
        known = read_policy_file(file, scope)
        if known is not None and any(_said(one) == _said(wanted) for one in known.rules):
            return False
        append_rules(file, [rule_entry(wanted)])
        self._accept(file, trust)
        return True

    def erase(self, rule: Rule, scope: FileScope) -> bool:
        """Remove a rule from the policy file of a scope, by hand or by a command; return whether the file had it."""
        trust = self._trust() if scope != "user" else None
        file, meant = self.file(scope), _said(scoped(rule, scope, self.project))
        was_there = remove_rule(file, lambda entry: _is_saying(entry, meant))
        if was_there:
            self._accept(file, trust)
        return was_there

    def _session_files(self) -> Iterator[Path]:
        folders = {path.parent for path in self.home.sessions(self.project).glob(f"*/{POLICY_FILE}")}
        if self.session is not None:
            folders.add(self.session)
        for folder in sorted(folders):
            yield folder / POLICY_FILE

    def _in_file(self, file: Path, scope: MemoryScope, session: str | None = None) -> Iterator[RememberedRule]:
        source = read_policy_file(file, scope)
        for rule in source.rules if source is not None else ():
            if rule.reason.startswith(_MARK):
                yield RememberedRule(_id(file, rule), scope, rule, file, session)

    def _checked_trust(self, rules: Sequence[Rule]) -> Trust:
        trust = self._trust()
        if not trust.trusted and any(rule.verdict == "allow" for rule in rules):
            why = f"is not trusted any more ({', '.join(trust.changed)} changed)" if trust.changed else "is not trusted"
            raise RememberError(
                f"{self.project} {why}, so that what its files allow does not count: run `amplifier trust` first, or "
                "keep the rule for the session or for you (user)"
            )
        return trust

    def _trust(self) -> Trust:
        from amplifier_foundation.trust.store import TrustStore

        return TrustStore(self.home).state(self.project)

    def _accept(self, file: Path, before: Trust | None) -> None:
        """Keep a trusted project trusted after our own change, but not after a change of others to the same file."""
        if before is None or before.problem is not None:
            return
        from amplifier_foundation.trust.store import TrustStore

        if file.relative_to(self.project).as_posix() not in before.changed:
            TrustStore(self.home).accept(self.project, file)


def scoped(rule: Rule, scope: str, project: Path) -> Rule:
    """Return a rule as it must be written in a scope to mean the same: the user's rules are not about one project."""
    from amplifier_kit.guard.policy.paths import escaped

    if scope != "user" or rule.path is None or rule.path.startswith(("/", "~")):
        return rule
    return replace(rule, path=f"{escaped(str(project.resolve()))}/{rule.path}")


def is_remembered(rule: Rule, scope: str) -> bool:
    """Return whether a rule of a scope came from an answer; what a project says about its own rules does not count."""
    return scope == "remembered" or (scope in get_args(MemoryScope) and rule.reason.startswith(_MARK))


def _marked(rule: Rule, by: str) -> Rule:
    from datetime import UTC, datetime

    day = datetime.now(UTC).strftime("%Y-%m-%d")
    text = f"{_MARK}{day}" + (f" by {by}" if by else "") + (f": {rule.reason}" if rule.reason else "")
    return replace(rule, reason=text, where="")


def _said(rule: Rule) -> tuple[Any, ...]:
    """Return what a rule says, without its author and reason."""
    return rule.verdict, rule.action, rule.tool, rule.command, rule.path, rule.host


def _is_entry_of(entry: Any, remembered: RememberedRule) -> bool:
    rule = _rule_of(entry)
    return rule is not None and _id(remembered.file, rule) == remembered.id


def _is_saying(entry: Any, said: tuple[Any, ...]) -> bool:
    rule = _rule_of(entry)
    return rule is not None and _said(rule) == said


def _rule_of(entry: Any) -> Rule | None:
    from amplifier_kit.guard.policy.rule_parser import parse_rules

    rules, problems = parse_rules([entry], lambda index, key: "")
    return None if problems else rules[0]


def _id(file: Path, rule: Rule) -> str:
    import hashlib

    text = repr((str(file), rule_entry(rule)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_LENGTH]
