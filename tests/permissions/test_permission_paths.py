"""No way through hooks, policies and answers runs what was denied, and what runs is exactly what was decided on.

A real session runs a recording tool. What should come of every call is told by `expected`, which is written from the
contract alone and shares nothing with the code under test.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LOOPS: Final = ("loop-basic", "loop-streaming", "loop-events")
LS, MAKE, RM = "ls -l", "make all", "rm -rf x"


class Edit(NamedTuple):
    """An answer that puts another command in the place of the one that was asked about."""

    edited: str


class Chain(NamedTuple):
    """The answers of several who are asked one after the other; those that are missing leave it to the next."""

    chain: tuple[Any, ...]


class Unprintable:
    """An answer that cannot even say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


#: Configs of hooks-approval with what each says of the tool `shell`, which runs commands, and of the tool `other`.
MODULES: Final[dict[str, tuple[Any, dict[tuple[str, str], str | None]]]] = {
    "not mounted": (None, {}),
    "defaults": ({}, {("shell", LS): "allow", ("shell", MAKE): "ask", ("shell", RM): "ask"}),
    "published": (
        {
            "rules": [{"pattern": "make*", "action": "auto_approve"}, {"pattern": "rm*", "action": "auto_deny"}],
            "default_action": "allow",
            "default_timeout": 60,
            "audit": {"enabled": True},
        },
        {("shell", LS): "ask", ("shell", MAKE): "allow", ("shell", RM): "deny", ("other", RM): "deny"},
    ),
    "policy driven": (
        {"policy_driven_only": True, "rules": [{"verdict": "ask", "command": "make *"}]},
        {("shell", MAKE): "ask", ("other", MAKE): "ask"},
    ),
    "unreadable": ({"rules": "rm*"}, {(tool, line): "ask" for tool in ("shell", "other") for line in (LS, MAKE, RM)}),
    "one bad rule": (
        {"rules": [{"verdict": "allow"}, {"verdict": "deny", "command": "rm *"}, {"verdict": "deny", "path": 7}]},
        {(tool, line): "deny" if line == RM else "ask" for tool in ("shell", "other") for line in (LS, MAKE, RM)},
    ),
}

HOOKS: Final = (
    *("silent", "continue", "deny", "ask", "ask, or yes", "inject", "raise", "late", "cancelled"),
    *("nonsense", "no dict", f"modify {LS}", f"modify {RM}"),
)
#: What a policy answers; a text that is in FAILURES is what it does instead.
VERDICTS: Final = ("allow", "ask", "deny", None, ("allow", "why not"), ("ask", "careful"), ("deny", "never"))
NONSENSE: Final = ("yes", "Allow", "ALLOW", "allow ", "", 1, True, ["allow"], ("allow",), ("allow", 1, 2), {"allow": 1})
FAILURES: Final = ("raise", "late", "cancelled")
JUDGES: Final = ("no commands", "commands only", "no rm")
POLICIES: Final = (*VERDICTS, *NONSENSE, *FAILURES, *JUDGES)
REQUIRED: Final = ("silent", "deny", "raise", "late", "nonsense", "modify")
YES: Final = ("Allow", "allow once", "ALLOW ALWAYS")
NO: Final = ("Deny", "Deny: x", "deny once", "yes", "y", "", "Allow?", " Allow", "allow\n", "allowed", "ⓐllow", "аllow")
ODD: Final = (None, 0, 1, True, b"Allow", ["Allow"], {"answer": "Allow"}, Unprintable())
TROUBLE: Final = ("!raise", "!cancelled", "!timeout", "!hang")
#: Words that leave the decision to the next approver, and words that only look as if.
LEFT: Final = ("Escalate", "escalate: she knows", " ESCALATE :")
NOT_LEFT: Final = ("Escalated", "Escalate, then Allow", "Allow: Escalate", "Escalate Allow", "Éscalate")
SINGLE: Final = (*YES, *NO, *ODD, *TROUBLE, Edit(LS), Edit(RM), *LEFT, *NOT_LEFT)
#: How many approvers there are where there are several.
SEATS: Final = 3
CHAINS: Final = (
    *(Chain(("Escalate", answer, "Allow")) for answer in SINGLE),
    *(Chain((answer, "Allow", "Allow")) for answer in ("Deny", "!raise", "!timeout", "!hang", "!cancelled", None)),
    Chain((LEFT[0], LEFT[1], "Allow")),
    Chain((LEFT[1], LEFT[2], Edit(LS))),
    Chain(LEFT),
)
ANSWERS: Final = (*SINGLE, *CHAINS)


@dataclass(frozen=True)
class Path:
    """One call, and how everybody who has a say behaves about it."""

    command: str = MAKE
    swap: str = ""
    first: str = "silent"
    second: str = "silent"
    gate: str = "silent"
    policies: tuple[Any, Any, Any] = ("ask", None, None)
    required: str = "silent"
    answers: tuple[Any, ...] = ("Allow",)


class Expected(NamedTuple):
    """What a call comes to: the input that runs, if any, and who decided what."""

    ran: tuple[str, str] | None
    #: (event, source, command), in order.
    decisions: tuple[tuple[str, str, str], ...]
    status: str
    #: The approvers that were asked, in order, by number; and who left it to whom.
    asked: tuple[int, ...]
    left: tuple[tuple[str, str | None], ...]


class _Refused(Exception):
    """The call ends, with this status."""


def expected(path: Path, loop: str, module: str, people: int) -> Expected:
    """Say what must come of a call."""
    oracle = _Oracle(path, module, people)
    try:
        ran, status = oracle.carried(loop), "ran"
    except _Refused as refused:
        ran, status = None, str(refused)
    return Expected(ran, tuple(oracle.decisions), status, tuple(oracle.seats), tuple(oracle.left))


@dataclass
class _Oracle:
    path: Path
    module: str
    people: int
    decisions: list[tuple[str, str, str]] = field(default_factory=list)
    seats: list[int] = field(default_factory=list)
    left: list[tuple[str, str | None]] = field(default_factory=list)
    asked: int = 0
    edit: str | None = None

    def carried(self, loop: str) -> tuple[str, str]:
        swap = self.path.swap if loop == "loop-events" else ""
        if swap == "deny":
            raise _Refused("denied")
        tool, command = ("other" if swap == "other" else "shell"), self.path.command
        for _ in range(6):
            try:
                command = self.heard(command)
                self.decided(tool, command)
                return tool, command
            except _Refused as refused:
                if str(refused) == "cancelled" or self.edit is None:
                    raise
                command, self.edit = self.edit, None
        raise _Refused("denied")

    def heard(self, sent: str) -> str:
        """Return the command as `tool:pre` leaves it: deny, then ask, then inject, then changes in order."""
        said = [self.path.first, self.path.second, self.path.gate]
        if "deny" in said or "nonsense" in said or self.path.gate in ("raise", "late", "cancelled"):
            raise _Refused("denied")
        asking = next((each for each in said if each.startswith("ask")), None)
        if asking is not None:
            self.hook_asks(silence=asking == "ask, or yes")
            return sent  # as published: a change is lost where another hook asks or injects
        if "inject" in said:
            return sent
        changes = [each for each in said if each.startswith("modify") or each == "no dict"]
        if changes and changes[-1] == "no dict":
            raise _Refused("denied")
        return changes[-1].removeprefix("modify ") if changes else sent

    def hook_asks(self, *, silence: bool) -> None:
        if not self.people:
            raise _Refused("denied")
        answer = self.answer()
        if not (_is_yes(answer) or (silence and any(_is(answer, each) for each in ("!timeout", "!hang")))):
            raise _Refused("denied")

    def decided(self, tool: str, command: str) -> None:
        opinions = [("hooks-approval", MODULES[self.module][1].get((tool, command)))]
        opinions += [
            (f"policy {number}", _opinion(said, tool, command)) for number, said in enumerate(self.path.policies)
        ]
        for verdict in ("deny", "ask", "allow"):
            name = next((name for name, said in opinions if said == verdict), None)
            if name is None:
                continue
            if verdict == "ask":
                return self.asks(name, command)
            if verdict == "deny":
                self.denied(name, command)
            self.decisions.append(("approval:granted", name, command))
            return None
        return self.denied("kernel", command)

    def asks(self, name: str, command: str) -> None:
        self.decisions.append(("approval:required", name, command))
        if self.path.required in ("deny", "nonsense"):
            self.denied("hooks", command)
        if not self.people:
            self.denied("kernel", command)
        answer = self.answer()
        if any(_is(answer, trouble) for trouble in TROUBLE) or not isinstance(answer, str | Edit):
            self.denied("kernel", command)  # an approval system that answers no text is broken
        if not _is_yes(answer):
            self.denied("approval_system", command)
        self.decisions.append(("approval:granted", "approval_system", command))

    def denied(self, source: str, command: str) -> None:
        if source not in ("kernel", "approval_system"):
            self.decisions.append(("policy:violation", source, command))
        self.decisions.append(("approval:denied", source, command))
        raise _Refused("denied")

    def answer(self) -> Any:
        """Return the next answer; whoever has none left says no."""
        answer = self.path.answers[self.asked] if self.asked < len(self.path.answers) else "Deny"
        self.asked += 1
        chain = answer.chain if isinstance(answer, Chain) else (answer,)
        for seat in range(self.people):
            said = chain[seat] if seat < len(chain) else "Escalate"
            self.seats.append(seat)
            if isinstance(said, Edit):
                self.edit = said.edited
            if not any(_is(said, word) for word in LEFT):
                return said
            if self.people > 1:  # one alone has nobody to leave it to, and has said no
                self.left.append((f"seat {seat}", f"seat {seat + 1}" if seat + 1 < self.people else None))
        return "Deny"


def _is(answer: Any, text: str) -> bool:
    return isinstance(answer, str) and answer == text


def _is_yes(answer: Any) -> bool:
    return any(_is(answer, yes) for yes in YES)


def _opinion(said: Any, tool: str, command: str) -> str | None:
    if isinstance(said, str) and said in JUDGES:
        is_good = {"no commands": tool == "other", "commands only": tool == "shell", "no rm": command != RM}[said]
        return "allow" if is_good else "deny"
    if said is None:
        return None
    if isinstance(said, tuple) and len(said) == 2:
        said = said[0]
    return said if isinstance(said, str) and said in ("allow", "ask", "deny") else "deny"


# -- the tests --


async def check(world: Any, paths: list[Path], loop: str, module: str, people: int) -> int:
    """Run calls in one session, hold each against what must come of it, and return how many held."""
    around = world(paths)
    results = await around.run(loop, MODULES[module][0], people=people)
    assert sorted(each["tool_call_id"] for each in results) == sorted(around.paths), "one result for every call"
    events: dict[str | None, list[tuple[str, dict[str, Any]]]] = {}
    for name, data in around.events:
        events.setdefault(_call_of(data), []).append((name, data))
    for call_id, path in around.paths.items():
        wanted = expected(path, loop, module, people)
        what = (loop, module, people, path, wanted)
        mine = events[call_id]
        ran = [(tool, given) for tool, given in around.ran if given.get("call") == call_id]
        assert [(tool, given["command"]) for tool, given in ran] == ([] if wanted.ran is None else [wanted.ran]), what
        decisions = [
            (name, data["source"], data["details"]["tool_input"]["command"])
            for name, data in mine
            if name.startswith("approval:") or (name == "policy:violation" and _is_of_kernel(data))
        ]
        assert tuple(decisions) == wanted.decisions, (decisions, what)
        assert tuple(around.asked.get(call_id, ())) == wanted.asked, what
        assert tuple(around.left.get(call_id, ())) == wanted.left, what
        closing = [(name, data) for name, data in mine if name in ("tool:post", "tool:error")]
        assert len(closing) == 1, "one closing event for every call"
        [(name, data)] = closing
        assert (data.get("status", "ran"), name == "tool:post") == (wanted.status, wanted.ran is not None), what
        if ran:
            granted = [data["details"] for name, data in mine if name == "approval:granted"]
            assert granted[-1]["tool_input"] == ran[0][1] == data["tool_input"], "what ran is what was decided on"
            assert granted[-1]["tool_name"] == ran[0][0]
        else:
            assert data["error"]["msg"], "a refusal has a reason"
    return len(results)


def _is_of_kernel(data: dict[str, Any]) -> bool:
    """Tell whether the kernel reports a violation: a loop does so too, of a hook that denied, before policies speak."""
    return "origin" in data


def _call_of(data: dict[str, Any]) -> str | None:
    details = data.get("details")
    return details.get("tool_call_id") if isinstance(details, dict) else data.get("tool_call_id")


def _pairs(answers: Iterable[Any]) -> list[Path]:
    """Return every behaviour of everybody with every behaviour of everybody else, the others as usual."""
    ways: dict[str, list[Any]] = {
        "command": [LS, MAKE, RM],
        "swap": ["", "other", "deny"],
        "first": list(HOOKS),
        "second": list(HOOKS),
        "gate": list(HOOKS),
        "policies": [(said, None, None) for said in POLICIES],
        "required": list(REQUIRED),
        "answers": [(answer, "Allow") for answer in answers],
    }
    return [
        replace(Path(), **{one: this, another: that})
        for one, another in itertools.combinations(ways, 2)
        for this in ways[one]
        for that in ways[another]
    ]


PAIRS: Final = _pairs(SINGLE)
#: What several approvers answer, with every behaviour of everybody else.
CHAINED: Final = [path for path in _pairs(CHAINS) if path.answers != Path().answers]


@pytest.mark.parametrize(
    ("people", "every"),
    [(1, PAIRS), (0, PAIRS[::3]), (SEATS, CHAINED), (1, CHAINED[::5])],
    ids=["asked", "nobody", "several", "one of several"],
)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("shares", [len(LOOPS), pytest.param(1, marks=pytest.mark.system)], ids=["shared", "each"])
async def test_every_two_of_them(world: Any, loop: str, people: int, every: list[Path], shares: int) -> None:
    """Each behaviour of a hook, a policy or a person meets each of another, with and without hooks-approval.

    The loops share all of that between them; in the system lane each loop has all of it.
    """
    every = every[LOOPS.index(loop) % shares :: shares]
    for number, module in enumerate(MODULES):
        paths = every[(number + LOOPS.index(loop)) % len(MODULES) :: len(MODULES)]
        assert await check(world, paths, loop, module, people) == len(paths)


PATHS: Final = st.builds(
    Path,
    command=st.sampled_from([LS, MAKE, RM]),
    swap=st.sampled_from(["", "", "other", "deny"]),
    first=st.just("silent") | st.sampled_from(HOOKS),
    second=st.just("silent") | st.sampled_from(HOOKS),
    gate=st.just("silent") | st.sampled_from(HOOKS),
    policies=st.tuples(*3 * [st.sampled_from(["allow", "ask", None]) | st.sampled_from(POLICIES)]),
    required=st.just("silent") | st.sampled_from(REQUIRED),
    answers=st.lists(
        st.sampled_from(["Allow", Edit(LS), Edit(RM)])
        | st.sampled_from(ANSWERS)
        | st.lists(st.sampled_from(LEFT) | st.sampled_from(SINGLE), max_size=SEATS).map(
            lambda said: Chain(tuple(said))
        ),
        max_size=8,
    ).map(tuple),
)


@pytest.mark.parametrize("loop", LOOPS)
@settings(suppress_health_check=list(HealthCheck))
@given(
    paths=st.lists(PATHS, min_size=1, max_size=12),
    module=st.sampled_from(sorted(MODULES)),
    people=st.sampled_from([0, 1, SEATS, SEATS]),
)
async def test_any_of_them(world: Any, loop: str, paths: list[Path], module: str, people: int) -> None:
    """Whatever is mixed with whatever, for several calls at once."""
    assert await check(world, paths, loop, module, people) == len(paths)
