"""Which parts of a text are mentions."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amplifier_foundation.prompt.mentions import find_mentions

NAMES = st.from_regex(r"[A-Za-z0-9_~]([A-Za-z0-9_:./~-]*[A-Za-z0-9_/~-])?", fullmatch=True)


def names(text: str) -> list[str]:
    return [mention.text for mention in find_mentions(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@AGENTS.md", ["@AGENTS.md"]),
        (
            "Read @ns:context/rules.md and @~/notes.md, then (@docs/).",
            ["@ns:context/rules.md", "@~/notes.md", "@docs/"],
        ),
        ("See @README.md. Then @docs/guide: it helps", ["@README.md", "@docs/guide"]),
        ("**@a.md**, \"@b.md\"; '@c.md'!", ["@a.md", "@b.md", "@c.md"]),
        ("curl -d @body.json file:@x.md", ["@body.json", "@x.md"]),
        ("@docs/übersicht.md", ["@docs/übersicht.md"]),
        ("请看@AGENTS.md，谢谢", ["@AGENTS.md"]),
        ("@a.md\r\n@b.md\r\n", ["@a.md", "@b.md"]),
        ("@a.md @a.md", ["@a.md", "@a.md"]),
        ("@./ and @/etc/hosts", ["@./", "@/etc/hosts"]),
    ],
)
def test_mentions_are_found(text: str, expected: list[str]) -> None:
    """A mention ends where its name ends; what closes the sentence is not part of it."""
    assert names(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "bob@example.com",
        "first.last+tag@example.com",
        "josé@example.com",
        "git@github.com:org/repo",
        "left-pad@1.3.0",
        "https://host/@name/post",
        "@@twice",
        r"\@escaped",
        "alone @ here",
        "@. @.. @: @- @...",
        "",
    ],
)
def test_an_at_sign_inside_a_word_is_no_mention(text: str) -> None:
    """Mail addresses, versions, addresses of pages and lone signs name no files."""
    assert names(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "`@x`",
        "``a ` @x``",
        "`two\nlines @x`",
        "```\n@x\n```",
        "```python\n@x\n```",
        "~~~\n@x\n```\n@x\n~~~",
        "````\n```\n@x\n````",
        "- item\n\n    ```\n    @x\n    ```",
        "> ```\n> @x\n> ```",
        "```\r\n@x\r\n```\r\n",
        "```\nnever closed @x",
        "```\n``` closes nothing\n@x\n```",
        r"`ends with \` and `@x`",
    ],
)
def test_code_holds_no_mentions(text: str) -> None:
    """Inline code and fenced blocks are left alone, as Markdown understands them."""
    assert names(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "`code` @x",
        "a ` alone @x",
        "a ` alone\n\n@x `",
        "`` a ` @x",
        "```\ncode\n```\n@x",
        "```one line``` @x",
        "~~~\n```\n~~~\n@x",
        r"\`@x`",
        "`a` @x `b`",
    ],
)
def test_what_only_looks_like_code_is_text(text: str) -> None:
    """A backtick without its other half opens nothing, and text after code counts again."""
    assert names(text) == ["@x"]


@given(
    st.lists(st.tuples(st.sampled_from([" ", "\n", "(", '"', "*"]), NAMES, st.sampled_from([".", ",", ":", ")", ""])))
)
def test_every_mention_in_plain_text_is_found(parts: list[tuple[str, str, str]]) -> None:
    """Names written into plain text are found as they were written, in order."""
    text = "".join(f"{before}@{name}{after} " for before, name, after in parts)
    assert names(text) == [f"@{name}" for _, name, _ in parts]


@given(st.text(alphabet=st.sampled_from("@ab.:/~-_ \n\r`\\'é漢~")))
@example("@\x00a")
def test_positions_say_where_mentions_stand(text: str) -> None:
    """Whatever the text: mentions are in order, apart from each other, and are what stands there."""
    at = 0
    for mention in find_mentions(text):
        assert at <= mention.start < mention.end <= len(text)
        assert text[mention.start : mention.end] == mention.text
        assert mention.text[0] == "@"
        assert mention.text[-1] not in ".:@"
        at = mention.end


@given(st.text(alphabet=st.sampled_from("@ab. \n"), max_size=40), st.integers(3, 5), st.sampled_from("`~"))
def test_nothing_in_a_fenced_block_is_found(text: str, length: int, mark: str) -> None:
    """Whatever stands between fences adds nothing to what stands around them."""
    fence = mark * length
    assert names(f"@before\n{fence}\n{text}\n{fence}\n@after") == ["@before", "@after"]
