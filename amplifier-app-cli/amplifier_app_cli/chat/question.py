"""A question to a person: what it is about, what may be answered, and what an answer means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from amplifier_app_cli.chat.ink import Ink
from amplifier_app_cli.chat.pages import Line

if TYPE_CHECKING:
    from amplifier_foundation.permissions.remembered import MemoryScope
    from amplifier_kit.guard.policy import Rule

ALLOW: Final = "Allow"
ALLOW_ALWAYS: Final = "Allow always"
DENY: Final = "Deny"
#: What the kernel takes for a yes.
_CONSENT: Final = ("allow", "allow once", "allow always")
#: How long a rule may hold, by the word that a person adds to `a`.
SCOPES: Final[Mapping[str, MemoryScope]] = {"": "session", "session": "session", "project": "local", "user": "user"}


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
