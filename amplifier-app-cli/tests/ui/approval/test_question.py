"""What a person is told of the answers that a question takes."""

from amplifier_app_cli.ui.approval.question import Choices, Question, explanation, keys
from amplifier_kit.guard.policy.rules import Rule


def _question(command: str = "make test") -> Question:
    rule = Rule(action="shell.execute", command=command, verdict="allow")
    return Question("May it?", ["allow", "deny"], None, rules=(rule,), is_editable=True, can_wait=True)


def test_answers_are_explained_once_and_the_rule_every_time() -> None:
    """The second question has the rule and the way to the rest, which explains everything again."""
    choices, question = Choices(), _question()
    first, second = choices.explain(question), choices.explain(question)
    assert first == explanation(question)
    assert len(first) == 5
    assert second == ['a = allow for this session: allow shell.execute command "make test"', *second[1:]]
    assert [line.partition(" ")[0] for line in second] == ["a", "?"]
    assert keys(question) == "y/n/a/e/l"


def test_the_rule_is_shown_with_all_that_is_in_it() -> None:
    """What a terminal would hide of a rule is written out: the rule that is granted is the rule that is shown."""
    shown = Choices().explain(_question("make \u202etset"))[1]
    assert shown == 'a = allow for this session: allow shell.execute command "make \\u202etset"'
