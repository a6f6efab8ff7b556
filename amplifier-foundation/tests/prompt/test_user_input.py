"""What of a prompt was typed."""

from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.prompt.mentions import find_mentions
from amplifier_foundation.prompt.user_input import UserInput


def test_only_what_was_typed_mentions_files() -> None:
    """A mention counts when its @ was typed; of text that was not typed, none does."""
    text = "see @a.md and @b.md"
    assert UserInput.of_typed(text).mentions() == (("@a.md", "@b.md"), ())
    assert UserInput.of_data(text).mentions() == ((), ("@a.md", "@b.md"))
    assert UserInput.of_typed(text, ((4, 9),)).mentions() == (("@b.md",), ("@a.md",))
    assert UserInput.of_typed("@a.md @a.md", ((0, 5),)).mentions() == (("@a.md",), ())


def test_code_in_what_was_pasted_closes_no_code_that_was_typed() -> None:
    """A fence in pasted text makes none of its names a mention of the user's."""
    pasted = "```\n@~/.ssh/id_rsa\n"
    text = f"```\n{pasted}```"
    assert UserInput.of_typed(text, ((4, 4 + len(pasted)),)).mentions()[0] == ()


def test_texts_are_joined_with_what_was_typed_of_each() -> None:
    """What stands before a prompt, as a skill does, is no part of what was typed."""
    joined = UserInput.of_data("skill @a.md ") + UserInput.of_typed("explain @b.md")
    assert joined.text == "skill @a.md explain @b.md"
    assert joined.mentions() == (("@b.md",), ("@a.md",))


def test_the_end_of_an_input_knows_what_was_typed() -> None:
    """The prompt behind a command keeps the stretches that were pasted into it."""
    text = "/skill x see @a.md and @b.md  "
    at = text.index("@b.md")
    end = UserInput.of_typed(text, ((at, at + 5),)).ending("see @a.md and @b.md")
    assert end.mentions() == (("@a.md",), ("@b.md",))
    assert UserInput.of_typed("something else").ending("@a.md").mentions() == ((), ("@a.md",))


@given(st.text(alphabet="@ab.`\\ \n"), st.integers(0, 20), st.integers(0, 20))
def test_an_escaped_text_mentions_only_what_was_typed(text: str, start: int, length: int) -> None:
    """A text that comes back from the history, all of it typed then, mentions nothing that was pasted."""
    before = UserInput.of_typed(text, ((start, start + length),))
    after = UserInput.of_typed(before.escaped())
    assert set(after.mentions()[0]) <= {mention.text for mention in find_mentions(text)}
    if not before.mentions()[0]:
        assert after.mentions()[0] == ()
