"""A question to a person: what it is about, what may be answered, what an answer means, and what rules make of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from amplifier_app_cli.chat.ink import Ink
from amplifier_app_cli.chat.pages import Line
from amplifier_app_cli.ui.plain import visible
from amplifier_kit.awaitable import plain_result

if TYPE_CHECKING:
    from amplifier_foundation.permissions.answered_by import AnsweredBy
    from amplifier_foundation.permissions.remembered import MemoryScope
    from amplifier_foundation.permissions.session_permissions import SessionPermissions
    from amplifier_kit.guard.policy import Rule

ALLOW: Final = "Allow"
ALLOW_ALWAYS: Final = "Allow always"
DENY: Final = "Deny"
#: What the kernel takes for a yes.
_CONSENT: Final = ("allow", "allow once", "allow always")
#: How long a rule may hold, by the word that a person adds to `a`.
SCOPES: Final[Mapping[str, MemoryScope]] = {"": "session", "session": "session", "project": "local", "user": "user"}
#: The policies of the app itself: of the session, and of the agents above it.
_RULES: Final = "rules"
_AGENT_RULES: Final = "agent-rules-"
#: A module that gives way to what a person allows, unless it says otherwise.
_APPROVAL: Final = "hooks-approval"
ASKS_EACH_TIME: Final = "approval.asks_each_time"
#: What brings the explanation of all answers.
WORDS_FOR_HELP: Final = ("?", "help")
_HELP: Final = "? = what the other answers do"


class Person(Protocol):
    """Whoever can be asked."""

    @property
    def ink(self) -> Ink:
        """Return how to emphasise text."""
        ...

    @property
    def width(self) -> int:
        """Return how many columns there are to show things in."""
        ...

    @property
    def height(self) -> int:
        """Return how many rows there are to show things in, above what is asked."""
        ...

    def show(self, text: str) -> None:
        """Show lines."""
        ...

    async def ask(self, label: str, draft: str = "") -> str | None:
        """Return the next answer, which may begin as `draft`; None when there will be none.

        Nor is there one when what was shown before could not be shown: nobody has seen what they would answer.
        """
        ...

    @property
    def can_lend(self) -> bool:
        """Tell whether another program may have the terminal for a while."""
        ...

    def lent(self) -> AbstractAsyncContextManager[None]:
        """Leave the terminal to another program for the length of a block."""
        ...


class Asked(NamedTuple):
    """What a request is about: the action of a policy, else the call that a hook asks about."""

    #: Empty when a hook or a module asks, not a policy.
    action: str
    details: dict[str, Any]
    #: What the rules said of it when it was asked.
    verdict: str = ""
    #: The agent that wants to do it, when it is not the session itself but one that it started.
    asker: str = ""
    #: The policies that want somebody to be asked.
    sources: tuple[str, ...] = ()


@dataclass
class Question:
    prompt: str
    options: Sequence[str]
    asked: Asked | None
    #: What would be remembered; empty when nothing can be.
    rules: tuple[Rule, ...] = ()
    #: Everything that is shown of it, and whether that was more than a page.
    lines: list[Line] = field(default_factory=list)
    is_long: bool = False
    #: Whether the input that it is about may be changed.
    is_editable: bool = False
    #: Whether the decision may be left to somebody else: then the call waits, written down.
    can_wait: bool = False
    #: The input as the person has left it, when it could not be taken.
    draft: str | None = None

    @property
    def is_plain(self) -> bool:
        """Tell whether yes and no are all the answers there are."""
        return [option.strip().lower() for option in self.options] in (["allow", "deny"], [])


def is_for_good(word: str) -> bool:
    """Tell whether an answer is `a` or `always`, alone or with how long."""
    first, _, rest = word.partition(" ")
    return first in ("a", "always") and rest.strip() in SCOPES


def is_kernels(question: Question) -> bool:
    """Tell whether the kernel asks, for a policy; else a hook does."""
    return question.asked is not None and bool(question.asked.action)


def edited_answer(question: Question) -> str:
    """Return the no to an input that another one is to take the place of: a loop that cannot do that runs neither."""
    if is_kernels(question):
        return f"{DENY}: the user wants another input"
    return refusal(question.options)


def later(reason: str) -> str:
    """Return the answer that leaves the decision to whoever is asked next."""
    from amplifier_foundation.sessions.approvers import ESCALATE

    return f"{ESCALATE}: {reason}" if reason else ESCALATE


def consent(options: Sequence[str]) -> str:
    """Return the option that means yes."""
    return next((option for option in options if option.strip().lower() in _CONSENT), ALLOW)


def lets_nothing_run(answer: str) -> bool:
    """Tell whether an answer is a no, or leaves the decision to somebody else."""
    from amplifier_foundation.sessions.approvers import escalation

    return answer.strip().lower().startswith("deny") or escalation(answer) is not None


def refusal(options: Sequence[str]) -> str:
    """Return the option that means no."""
    return next((option for option in options if option.strip().lower().startswith("deny")), DENY)


def chosen(options: Sequence[str], given: str) -> str | None:
    """Return the option that a number or its own words name."""
    if given.isdecimal() and 1 <= int(given) <= len(options):
        return options[int(given) - 1]
    return next((option for option in options if option.strip().lower() == given.lower()), None)


# -- what the person reads of the answers --


class Choices:
    """Explain each answer at the first question that takes it; later its key in the label is enough.

    The rule of `a` is told every time: nobody lets a rule hold that they have not read.
    """

    def __init__(self) -> None:
        self._explained: set[str] = set()

    def told(self, question: Question) -> list[str]:
        """Return the lines that stand below a question, and note that they were shown."""
        meanings = _meanings(question)
        new = {key: line for key, line in meanings.items() if key not in self._explained}
        self._explained.update(new)
        left_out = [_HELP] if len(new) < len(meanings) else []
        return [*_lines(question, new), *left_out]


def keys(question: Question) -> str:
    """Return what may be typed."""
    more = (
        ("a", question.rules),
        ("e", question.is_editable),
        ("l", question.can_wait),
        ("v", question.is_long),
        ("or a number", not question.is_plain),
    )
    return "/".join(["y", "n", *(key for key, is_there in more if is_there)])


def explanation(question: Question) -> list[str]:
    """Return what every answer to a question means."""
    return _lines(question, _meanings(question))


def _meanings(question: Question) -> dict[str, str]:
    """Return what answers mean whatever the question is about, by their keys."""
    every = (
        ("y", question.is_plain, "y = allow it this once, n = do not; words behind n are for the model to read"),
        ("a", question.rules, "a project = the same for this project, a user = for all your projects"),
        ("e", question.is_editable, "e = change the input first"),
        ("v", question.is_long, "v = show all of it again"),
        ("l", question.can_wait, "l = leave it to somebody else: the call waits for `amplifier approval`"),
    )
    return {key: line for key, is_there, line in every if is_there}


def _lines(question: Question, meanings: dict[str, str]) -> list[str]:
    """Return meanings as lines, with the rules of this question before what is said of how long they hold."""
    rules = [
        f"{'    and: ' if number else 'a = allow for this session: '}{visible(str(rule))}"
        for number, rule in enumerate(question.rules)
    ]
    before = [meanings["y"]] if "y" in meanings else []
    return [*before, *rules, *(line for key, line in meanings.items() if key != "y")]


# -- what rules make of it --


def can_be_spared(asked: Asked, coordinators: Iterable[Any]) -> bool:
    """Tell whether only rules ask, and no policy that would ask again whatever rules allow.

    Of a question of a child only its own session knows more.
    """
    others = {source for source in asked.sources if source != _RULES and not source.startswith(_AGENT_RULES)}
    if asked.asker or (asked.sources and not others):
        return True
    if others != {_APPROVAL}:
        return False
    known = [coordinator.get_capability(ASKS_EACH_TIME) for coordinator in coordinators]
    wanted = [plain_result(asks(asked.action, asked.details)) for asks in known if callable(asks)]
    return bool(wanted) and all(wants is False for wants in wanted)


def denied_by_now(asked: Asked | None, permissions: SessionPermissions | None) -> AnsweredBy | None:
    """Return the rule that denies by now what a person has allowed: questions may stand for hours. None for none."""
    if asked is None or not asked.action or asked.asker or permissions is None:
        return None
    return permissions.denying_rule(asked.action, asked.details)
