"""Over every config, answer, error and timeout: nothing runs on a deny, an unknown answer or silence."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_core import ApprovalResponse
from amplifier_core.approval import ApprovalTimeoutError

COMMAND = "make all"
YES = ApprovalResponse(approved=True)
NO = ApprovalResponse(approved=False)

#: Rules by what they come to for the command; `broken` ones must be asked for.
RULES: dict[str, list[Any]] = {
    "none": [[], [{"pattern": "ls*", "action": "auto_approve"}], [{"verdict": "allow", "command": "ls *"}]],
    "allow": [
        [{"pattern": "make*", "action": "auto_approve"}],
        [{"verdict": "allow", "action": "process.exec", "command": "make *"}],
    ],
    "deny": [
        [{"pattern": "make*", "action": "auto_deny"}],
        [{"pattern": "*", "action": "auto_approve"}, {"pattern": "make *", "action": "auto_deny"}],
        [{"verdict": "deny", "action": "process.exec"}, {"verdict": "allow", "tool": "bash"}],
        [{"verdict": "ask"}, {"verdict": "deny", "tool": "bash"}],
    ],
    "ask": [
        [{"pattern": "make*", "action": "require_approval"}, {"pattern": "*", "action": "auto_approve"}],
        [{"verdict": "ask", "command": "make *"}],
    ],
    "broken": [
        "make*",
        [{"pattern": "*", "action": "auto_approve"}, {"pattern": ["make"], "action": "auto_deny"}],
        [{"pattern": "*", "action": "auto_approve"}, {"pattern": "make*", "action": "auto_denny"}],
        [{"pattern": "*", "action": "auto_approve"}, 5],
        [{"verdict": "allow", "tool": "bash"}, {"verdict": "deny", "path": 7}],
    ],
}
#: Answers of a provider, and whether one is a clear yes.
ANSWERS: list[Any] = [
    *(YES, NO, None, True, "allow", {"approved": True}, 1, object()),
    *(RuntimeError("broken"), TimeoutError(), ValueError("?"), asyncio.CancelledError(), ApprovalTimeoutError("late")),
    *("hang", "nobody"),
]
POLICIES = ["none", "allow", "ask", "deny", "raise", "nonsense"]
ALLOWING = ("allow", "approve", "auto_approve")


class Case(NamedTuple):
    """One way things can be."""

    world: str
    kind: str
    rules: Any
    default_action: Any
    default_timeout: Any
    policy_driven_only: Any
    tools: Any
    state: Any
    answer: Any
    policy: str

    @property
    def config(self) -> dict[str, Any]:
        """Return the config of the module."""
        keys = ("rules", "default_action", "default_timeout", "policy_driven_only", "tools")
        return {key: getattr(self, key) for key in keys}

    @property
    def is_silence_a_yes(self) -> bool:
        """Tell whether the config says that a timeout allows."""
        is_late = isinstance(self.answer, ApprovalTimeoutError) or self.answer == "hang"
        return is_late and isinstance(self.default_action, str) and self.default_action in ALLOWING


CASES = (
    st.sampled_from(sorted(RULES))
    .flatmap(
        lambda kind: st.builds(
            Case,
            world=st.sampled_from(["our loop", "published loop", "older kernel"]),
            kind=st.just(kind),
            rules=st.sampled_from(RULES[kind]),
            default_action=st.sampled_from([None, "deny", "allow", "approve", "maybe", 5, True, ["allow"]]),
            default_timeout=st.sampled_from([None, 0.005, -1, "soon", True]),
            policy_driven_only=st.sampled_from([None, True, False, "yes"]),
            tools=st.sampled_from(
                [None, {"bash": {"require_approval": False}}, {"bash": {"require_approval": True}}, {"bash": "no"}, 5]
            ),
            state=st.sampled_from([None, ["bash"], ["look"], "bash", 5]),
            answer=st.sampled_from(ANSWERS),
            policy=st.sampled_from(POLICIES),
        )
    )
    .filter(lambda case: case.answer != "hang" or case.default_timeout == 0.005)
)


def policy_of(case: Case) -> tuple[Any, ...]:
    """Return the app's policies."""

    def decide(action: str, details: dict[str, Any]) -> Any:
        if case.policy == "raise":
            raise RuntimeError("broken")
        return case.policy

    return () if case.policy == "none" else (decide,)


async def broken_rules(case: Case, run: Any, person: Any) -> list[str]:
    """Run one case and return the rules that what happened breaks."""
    somebody = None if isinstance(case.answer, str) and case.answer == "nobody" else person(case.answer)
    outcome = await run(
        case.world,
        case.config,
        [("bash", {"command": COMMAND})],
        person=somebody,
        policies=policy_of(case),
        state=case.state,
    )
    asked = len(somebody.asked) if somebody is not None else 0
    ran = bool(outcome.ran)
    has_kernel = case.world != "older kernel"
    is_denied = case.kind == "deny" or (has_kernel and case.policy in ("deny", "raise", "nonsense"))
    wants_question = case.kind in ("ask", "broken") or case.state in (["bash"], "bash", 5)
    wants_question = wants_question or (has_kernel and case.policy == "ask")
    is_minded = case.policy not in ("none", "allow") or case.state not in (None, ["look"])
    is_permitted = case.kind == "allow" or case.policy == "allow"
    decided = [event for event, _ in outcome.events if event in ("approval:granted", "approval:denied")]
    rules = {
        "one question for one call": asked <= 1 and len(outcome.payloads("approval:required")) <= 1,
        "a deny is absolute": not (is_denied and ran),
        "nobody is asked about a deny": not (is_denied and asked),
        "an ask is a floor": asked or not (ran and wants_question),
        "only a clear yes is one": not (ran and asked) or case.answer is YES or case.is_silence_a_yes,
        "silence permits nothing": not ran or asked or not has_kernel or is_permitted,
        "what a rule allows and nobody minds runs": ran or asked or case.kind != "allow" or is_minded,
        "a clear yes runs it": ran or not (asked and case.answer is YES),
        "every outcome is one event": not has_kernel or decided == [f"approval:{'granted' if ran else 'denied'}"],
    }
    return [rule for rule, holds in rules.items() if not holds]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CASES)
async def test_nothing_runs_that_may_not(run: Any, person: Any, case: Case) -> None:
    """Deny is absolute, ask is a floor, a person is asked at most once, and only a clear yes is one."""
    assert await broken_rules(case, run, person) == []


async def test_every_rule_meets_every_answer(run: Any, person: Any) -> None:
    """Without sampling: each kind of rule with each answer, and with each policy of an app, in each world."""
    for world in ("our loop", "published loop", "older kernel"):
        for kind in RULES:
            pairs = [(answer, policy) for answer in ANSWERS for policy in ("allow", "ask")]
            pairs += [(YES, policy) for policy in POLICIES]
            for answer, policy in pairs:
                if world != "older kernel" or policy == "allow":
                    case = Case(world, kind, RULES[kind][-1], "deny", 0.005, None, None, None, answer, policy)
                    assert await broken_rules(case, run, person) == [], case
