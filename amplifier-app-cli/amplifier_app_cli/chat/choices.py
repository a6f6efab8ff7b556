"""The answers that a question takes, and what the person is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amplifier_app_cli.ui.plain import visible

if TYPE_CHECKING:
    from amplifier_app_cli.chat.question import Question

#: What brings the explanation of all answers.
WORDS_FOR_HELP: Final = ("?", "help")
_HELP: Final = "? = what the other answers do"


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
