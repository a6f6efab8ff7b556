"""A question to the user about one call: its text in pages, the answers it takes and what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from amplifier_app_cli.ui.colour import Ink, Tone
from amplifier_app_cli.ui.layout import columns
from amplifier_app_cli.ui.menu import Option
from amplifier_app_cli.ui.plain import visible
from amplifier_kit.awaitable import plain_result
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_foundation.approvals.answered_by import AnsweredBy
    from amplifier_foundation.policy.remembered_rules import MemoryScope
    from amplifier_foundation.sessions.permissions import SessionPermissions
    from amplifier_kit.guard.policy.rules import Rule


ALLOW: Final = "Allow"
ALLOW_ALWAYS: Final = "Allow always"
DENY: Final = "Deny"
#: Options that the kernel counts as approval.
_CONSENT: Final = ("allow", "allow once", "allow always")
#: How long a remembered rule holds, by the word that follows `a`.
SCOPES: Final[Mapping[str, MemoryScope]] = {"": "session", "session": "session", "project": "local", "user": "user"}
#: The names of the app's own policies: the rules of the session, and of the agents above it.
_RULES: Final = "rules"
_AGENT_RULES: Final = "agent-rules-"
#: A module that honours remembered rules, unless its capability says otherwise.
_APPROVAL: Final = "hooks-approval"
ASKS_EACH_TIME: Final = "approval.asks_each_time"
WORDS_FOR_HELP: Final = ("?", "help")
_HELP: Final = "? = what the other answers do"


class UserTerminal(Protocol):
    """A terminal with a person at it."""

    @property
    def ink(self) -> Ink: ...

    @property
    def width(self) -> int: ...

    @property
    def height(self) -> int:
        """Return how many rows there are above the question."""
        ...

    def show(self, text: str) -> None: ...

    @property
    def can_answer(self) -> bool:
        """Return whether the user can still be asked: not once they have stopped what the question is about."""
        ...

    @property
    def has_menus(self) -> bool:
        """Return whether `ask()` shows its options as a menu; else they have to be explained before."""
        ...

    async def ask(self, label: str, draft: str = "", options: Sequence[Option] = ()) -> str | None:
        """Return one line, prefilled with `draft`, or what stands for the option that was picked; None at the end.

        Also None when the text before it could not be shown: the user cannot answer an unseen question.
        """
        ...

    @property
    def can_lend(self) -> bool:
        """Return whether another program, such as an editor, may use the terminal meanwhile."""
        ...

    def lent(self) -> AbstractAsyncContextManager[None]:
        """Lend the terminal to another program for the length of a block."""
        ...


class Asked(NamedTuple):
    """What a request is about: the action of a policy, or the call that a hook or module asks about."""

    #: Empty when a hook or a module asks.
    action: str
    details: dict[str, Any]
    #: The verdict of the rules when it was asked.
    verdict: str = ""
    #: The agent that asks; empty for the session itself.
    asker: str = ""
    #: The policies that ask.
    sources: tuple[str, ...] = ()


@dataclass
class Question:
    prompt: str
    options: Sequence[str]
    asked: Asked | None
    #: The rules to offer for "always"; empty when nothing can be remembered.
    rules: tuple[Rule, ...] = ()
    #: Everything that is shown, and whether that is more than a page.
    lines: list[Line] = field(default_factory=list)
    is_long: bool = False
    #: Whether the person may change the tool input.
    is_editable: bool = False
    #: Whether the user may leave the decision to another approver: the call becomes pending.
    can_wait: bool = False
    #: The input as the person edited it, if it was not valid.
    draft: str | None = None

    @property
    def is_policys(self) -> bool:
        """Return whether a policy asks, not a hook or a module."""
        return self.asked is not None and bool(self.asked.action)

    @property
    def is_plain(self) -> bool:
        """Return whether yes and no are the only options."""
        return [option.strip().lower() for option in self.options] in (["allow", "deny"], [])


def is_for_good(word: str) -> bool:
    """Return whether an answer is `a` or `always`, alone or with a scope."""
    first, _, rest = word.partition(" ")
    return first in ("a", "always") and rest.strip() in SCOPES


def edited_answer(question: Question) -> str:
    """Return the denial of an input that the person has replaced; a loop that cannot replace it runs neither."""
    if question.is_policys:
        return f"{DENY}: the user wants another input"
    return refusal(question.options)


def later(reason: str) -> str:
    """Return the answer that leaves the decision to the next approver."""
    from amplifier_foundation.approvals.approvers import ESCALATE

    return f"{ESCALATE}: {reason}" if reason else ESCALATE


def consent(options: Sequence[str]) -> str:
    return next((option for option in options if option.strip().lower() in _CONSENT), ALLOW)


def lets_nothing_run(answer: str) -> bool:
    """Return whether an answer denies, or leaves the decision to the next approver."""
    from amplifier_foundation.approvals.approvers import escalation

    return answer.strip().lower().startswith("deny") or escalation(answer) is not None


def refusal(options: Sequence[str]) -> str:
    return next((option for option in options if option.strip().lower().startswith("deny")), DENY)


def chosen(options: Sequence[str], given: str) -> str | None:
    """Return the option with this number or text, or None."""
    if given.isdecimal() and 1 <= int(given) <= len(options):
        return options[int(given) - 1]
    return next((option for option in options if option.strip().lower() == given.lower()), None)


# -- help --


class Choices:
    """Explain each answer at the first question that takes it; later its key in the label is enough.

    The rules of `a` are shown every time: a rule must not be accepted unread.
    """

    def __init__(self) -> None:
        self._explained: set[str] = set()

    def explain(self, question: Question) -> list[str]:
        """Return the lines below a question, and remember which answers they explain."""
        meanings = _meanings(question)
        new = {key: line for key, line in meanings.items() if key not in self._explained}
        self._explained.update(new)
        left_out = [_HELP] if len(new) < len(meanings) else []
        return [*_lines(question, new), *left_out]


def keys(question: Question) -> str:
    more = (
        ("a", question.rules),
        ("e", question.is_editable),
        ("l", question.can_wait),
        ("v", question.is_long),
        ("or a number", not question.is_plain),
    )
    return "/".join(["y", "n", *(key for key, is_there in more if is_there)])


def menu(question: Question) -> list[Option]:
    """Return the answers to a question as a menu; a rule that would be stored is shown word by word."""
    if not question.is_plain:
        return [Option(str(number), visible(text)) for number, text in enumerate(question.options, 1)]
    rules = " and ".join(visible(str(rule)) for rule in question.rules)
    entries = (
        ("y", True, "allow it this once"),
        ("a", question.rules, f"allow, and keep this rule for this session: {rules}"),
        ("a project", question.rules, "allow, and keep it for this project; a user: for all your projects"),
        ("n", True, "deny; the model reads what you write after n"),
        ("e", question.is_editable, "change the input first"),
        ("l", question.can_wait, "leave it to another approver: the call waits for `amplifier approval`"),
        ("v", question.is_long, "show all of it again"),
    )
    return [Option(key, meaning) for key, is_there, meaning in entries if is_there]


def explanation(question: Question) -> list[str]:
    return _lines(question, _meanings(question))


def _meanings(question: Question) -> dict[str, str]:
    """Return the explanations of the answers to a question, by key."""
    every = (
        ("y", question.is_plain, "y = allow it this once, n = deny; the model reads what you write after n"),
        ("a", question.rules, "a project = the same for this project, a user = for all your projects"),
        ("e", question.is_editable, "e = change the input first"),
        ("v", question.is_long, "v = show all of it again"),
        ("l", question.can_wait, "l = leave it to another approver: the call waits for `amplifier approval`"),
    )
    return {key: line for key, is_there, line in every if is_there}


def _lines(question: Question, meanings: dict[str, str]) -> list[str]:
    """Return explanations as lines, with the offered rules before the one on how long they hold."""
    rules = [
        f"{'    and: ' if number else 'a = allow for this session: '}{visible(str(rule))}"
        for number, rule in enumerate(question.rules)
    ]
    before = [meanings["y"]] if "y" in meanings else []
    return [*before, *rules, *(line for key, line in meanings.items() if key != "y")]


# -- rules that answer --


def can_be_spared(asked: Asked, coordinators: Iterable[Any]) -> bool:
    """Return whether a remembered rule would answer this: only rules ask, no policy that asks each time.

    A child's own session decides that for the child.
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
    """Return the rule that denies by now what a person has just allowed, if any: a question may wait for hours."""
    if asked is None or not asked.action or asked.asker or permissions is None:
        return None
    judged = permissions.judge(asked.action, asked.details)
    return judged.answered_by if judged.verdict == "deny" else None


__all__ = ["Line", "Pages"]

#: A terminal that is lower than this has no room for a page and a question below it; it scrolls.
_LEAST_ROWS = 3


class Line(NamedTuple):
    """A line of text and how it looks."""

    text: str
    tone: Tone | None = None


class Pages:
    """Give lines page by page."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = [line._replace(text=line.text.expandtabs(4)) for line in lines]
        self._next = 0
        #: How much of the next line was shown already.
        self._offset = 0
        self._shown = 0
        self._total = sum(len(line.text) + 1 for line in self._lines)

    @property
    def is_over(self) -> bool:
        return self._next >= len(self._lines)

    @property
    def share(self) -> int:
        """Return how much was given, in per cent; 100 for everything alone."""
        return 100 if self.is_over else min(99, self._shown * 100 // max(self._total, 1))

    def take(self, width: int, rows: int, ink: Ink) -> str:
        """Return the next page for a terminal of this size."""
        left = max(rows, _LEAST_ROWS)
        page: list[str] = []
        while left > 0 and not self.is_over:
            text, tone = self._lines[self._next]
            end, used = _cut(text, self._offset, max(width, 1), left)
            piece = text[self._offset : end]
            page.append(piece if tone is None or not piece else ink(tone, piece))
            left -= used
            self._shown += end - self._offset
            if end < len(text):
                self._offset = end
                break
            self._shown += 1
            self._next, self._offset = self._next + 1, 0
        return "\n".join(page)


def _cut(text: str, start: int, width: int, rows: int) -> tuple[int, int]:
    """Return where the part of a text that fits into `rows` ends, and how many rows it takes."""
    if text.isascii():
        end = min(len(text), start + width * rows)
        return end, max(1, -(-(end - start) // width))
    used, column, end = 1, 0, start
    while end < len(text):
        wide = columns(text[end])
        if column + wide > width and column:
            if used == rows:
                break
            used, column = used + 1, 0
        column += wide
        end += 1
    return end, used
