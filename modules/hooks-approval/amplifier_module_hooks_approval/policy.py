"""Judge an action by the config of this module: allow, ask, deny, or no opinion."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from amplifier_kit.awaitable import plain_result
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_hooks_approval.config import ApprovalConfig

if TYPE_CHECKING:
    from amplifier_kit.guard.policy.rules import Rule

#: The name of the policy.
MODULE: Final = "hooks-approval"
#: Words in the name of a tool that are a reason to ask, as published.
_WORDS: Final = frozenset({"write", "edit", "execute", "run"})
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
#: The same for the actions of first-party tools.
_ACTIONS: Final = frozenset({"filesystem.write", "process.exec"})
#: Reading or stopping a command that was approved already.
_JOB: Final = "tool.bash_job"
_ATTRIBUTES: Final = ("require_approval", "requires_approval")

STATE: Final = "require_approval_tools"
#: The capability of an app that remembers permanent permissions: `(action, details) -> bool`.
REMEMBERED: Final = "approval.is_remembered"


class Opinion(NamedTuple):
    """A verdict with its reason; None for no opinion."""

    verdict: Literal["allow", "ask", "deny"] | None
    reason: str = ""
    #: Whether it follows from the kind of tool, not from a rule or a setting about this one.
    is_by_kind: bool = False
    #: The rule that decided, if one did.
    rule: Rule | None = None


class ApprovalPolicy:
    """Judge the actions of one session."""

    def __init__(
        self, coordinator: Any, settings: ApprovalConfig, rules: list[Rule], project: Path, failure: str = ""
    ) -> None:
        """Judge by rules and settings; with a `failure`, the reason why rules cannot be read, deny everything."""
        self._failure = failure
        self._coordinator = coordinator
        self._settings = settings
        self._project = project
        self._rule_list = tuple(rules)
        self._rules = self._compile(rules) if rules else None

    def __call__(self, action: str, details: Mapping[str, Any]) -> tuple[str, str, Mapping[str, str]] | None:
        """Return verdict, reason and, for the log, what decided; the kernel's signature of a policy."""
        opinion = self.judge(action, details)
        if opinion.verdict is None:
            return None
        by = {"kind": "policy", "policy": MODULE}
        if opinion.rule is not None:
            by = {"kind": "rule", "rule": str(opinion.rule), "scope": "bundle", "where": opinion.rule.where}
        return opinion.verdict, opinion.reason, by

    def judge(self, action: str, details: Mapping[str, Any]) -> Opinion:
        """Return the verdict of a rule that denies or asks, else of the session, else of a rule that allows."""
        if self._failure:
            return Opinion("deny", self._failure)
        name = details.get("tool_name")
        ruled = self._judge_by_rules(action, details)
        if ruled.verdict in ("deny", "ask"):
            return ruled
        if isinstance(name, str) and self._is_in_state(name):
            return Opinion("ask", f"the session wants {name} to be confirmed")
        if ruled.verdict == "allow":
            return ruled
        judged = self._judge_by_tool(action, name if isinstance(name, str) else "")
        if judged.verdict == "ask" and judged.is_by_kind and self._is_remembered(action, details):
            return Opinion(None)
        return judged

    def asks_each_time(self, action: str, details: Mapping[str, Any]) -> bool:
        """Return whether an action is asked about each time, whatever a person has allowed permanently."""
        opinion = self.judge(action, details)
        return opinion.verdict == "ask" and not opinion.is_by_kind

    def hidden(self, tool: str) -> Callable[[str], bool] | None:
        """Return a function that says whether a tool must leave out a real path; None when nothing is hidden."""
        if self._failure:
            return lambda path: True
        if not any(rule.path is not None and rule.verdict != "allow" for rule in self._rule_list):
            return None
        from amplifier_kit.guard.policy.paths import hidden_paths

        return hidden_paths(self._rule_list, self._project, tool, home=Path(os.path.expanduser("~")))

    def _compile(self, rules: list[Rule]) -> Any:
        from amplifier_kit.guard.policy.rules import RuleSet

        return RuleSet(rules, self._project, home=Path(os.path.expanduser("~")))

    def _judge_by_rules(self, action: str, details: Mapping[str, Any]) -> Opinion:
        if self._rules is None:
            return Opinion(None)
        from amplifier_kit.guard.policy.facts import facts

        decision = self._rules.decide(facts(action, details, self._project))
        return Opinion(decision.verdict, decision.reason or "a rule of hooks-approval", rule=decision.rule)

    def _is_in_state(self, name: str) -> bool:
        state = getattr(self._coordinator, "session_state", None)
        named = state.get(STATE) if isinstance(state, Mapping) else None
        if named is None:
            return False
        # Anything but a list of names was meant to be one: ask for every tool.
        return name in named if isinstance(named, (list, tuple, set, frozenset, dict)) else True

    def _judge_by_tool(self, action: str, name: str) -> Opinion:
        """Ask when the tool needs approval; no opinion otherwise, which permits nothing."""
        settings = self._settings
        if settings.asks_for_all:
            return Opinion("ask", "the config of hooks-approval cannot be read")
        wanted = settings.tools.get(name)
        if wanted is not None:
            return Opinion("ask", f"the config wants {name} to be confirmed") if wanted else Opinion(None)
        if settings.policy_driven_only:
            return Opinion(None)
        if action == _JOB:
            return Opinion(None)
        if name == "bash" or action in _ACTIONS or _WORDS & {word.lower() for word in _WORD.findall(name)}:
            return Opinion("ask", f"{name or action} needs approval", is_by_kind=True)
        if self._is_marked(name):
            return Opinion("ask", f"the tool {name} says that it needs approval", is_by_kind=True)
        return Opinion(None)

    def _is_remembered(self, action: str, details: Mapping[str, Any]) -> bool:
        """Return whether a person has allowed exactly this permanently, according to the app."""
        ask = self._coordinator.get_capability(REMEMBERED)
        return callable(ask) and plain_result(ask(action, details)) is True

    def _is_marked(self, name: str) -> bool:
        tool = (self._coordinator.get("tools") or {}).get(name)
        return any(bool(getattr(tool, attribute, False)) for attribute in _ATTRIBUTES)


def risk_of(action: str, tool_name: str) -> str:
    """Return how much harm an action can do: low, medium or high."""
    words = {word.lower() for word in _WORD.findall(tool_name)}
    if action == "process.exec" or words & {"bash", "execute", "run"}:
        return "high"
    if action in ("filesystem.write", "network.fetch", "session.spawn", "mcp.call") or words & _WORDS:
        return "medium"
    return "low"
