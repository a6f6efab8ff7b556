"""The table of token formats. Its examples are made up at run time, so that no file holds anything like a token."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.redaction.formats import (
    ALPHABETS,
    Run,
    TokenFormat,
    is_made_up,
    mask_tokens,
    may_hold_token,
    parts,
    token_formats,
)
from amplifier_kit.guard.redaction.prefilter import MASK, VERY_LONG, Glance
from amplifier_kit.guard.redaction.redactor import Redactor
from amplifier_testing.tokens import example_token

ROWS = [(form, mark) for form in token_formats() for mark in form.marks.split()]
IDS = [f"{form.service} {mark}" for form, mark in ROWS]

AROUND = [
    "{}",
    "the key is {}, they say",
    "https://x-access-token:{}@host/",
    '{{"a": "{}"}}',
    '{{\\"a\\": \\"{}\\"}}',
    "line\\n{}\\nline",
    "A={}\n",
    "<token>{}</token>",
    "?next=%2Fx%3Da%3D{}",
    "\x1b[32m{}\x1b[0m",
    "`{}`",
    "- {}",
]


@pytest.mark.parametrize(("form", "mark"), ROWS, ids=IDS)
def test_every_row_masks_its_tokens(form: TokenFormat, mark: str) -> None:
    """A token of every row is masked as a whole, whatever it stands in: a sentence, a URL, JSON, escaped text."""
    chance = Random(IDS.index(f"{form.service} {mark}"))
    for around in AROUND:
        for _ in range(5):
            token = example_token(form, mark, chance)
            masked, found = mask_tokens(around.format(token))
            assert masked == around.format(mark + MASK if form.keep else MASK)
            assert found == 1


@pytest.mark.parametrize(("form", "mark"), ROWS, ids=IDS)
def test_every_row_is_seen_at_first_glance(form: TokenFormat, mark: str) -> None:
    """A token of every row is noticed by the first look, which only looks at long words."""
    token = example_token(form, mark, Random(7))
    assert may_hold_token(Glance(f"a {token} b"))
    longest = max(map(len, Glance(token).long_words(VERY_LONG).split()))
    assert longest >= VERY_LONG


@pytest.mark.parametrize("form", token_formats(), ids=[form.service for form in token_formats()])
def test_no_row_makes_the_search_slow(form: TokenFormat) -> None:
    """Where a run without limit is not the last one, a token cannot start inside of it: every text is read once."""
    for template in (form.before, form.after):
        runs = [part for part in parts(template) if isinstance(part, Run)]
        for run in runs if template is form.before else runs[:-1]:
            inside = set(ALPHABETS[run.kind])
            assert run.most is not None or all(re.search(f"[{form.not_after}]", sign) for sign in inside)


@pytest.mark.parametrize("form", token_formats(), ids=[form.service for form in token_formats()])
def test_every_row_is_written_in_the_notation(form: TokenFormat) -> None:
    """A template consists of literals and known kinds, and nothing of it is lost."""
    for template in (form.before, form.after):
        assert "".join(part if isinstance(part, str) else _notation(part) for part in parts(template)) == template


def _notation(run: Run) -> str:
    count = {None: f"{run.least}+", run.least: str(run.least)}.get(run.most, f"{run.least}-{run.most}")
    assert run.kind in ALPHABETS
    return f"{{{run.kind}:{count}}}"


def test_no_mark_stands_twice() -> None:
    """Every mark has one row; only where what follows it differs, it has two."""
    marks = [(mark, form.after, form.before) for form, mark in ROWS]
    assert len(marks) == len(set(marks))


@pytest.mark.parametrize(("form", "mark"), ROWS, ids=IDS)
def test_marks_and_placeholders_stay(form: TokenFormat, mark: str) -> None:
    """A prefix by itself is none of a token, and a row of x is none either."""
    for text in (
        f"tokens start with {mark}",
        f"use {mark}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        f"{mark}***",
        f"{mark}...",
    ):
        assert mask_tokens(text) == (text, 0)


def test_a_run_inside_of_base64_is_no_token() -> None:
    """Letters that end the colour of a terminal are an escape only where the colour begins."""
    text = "QYQAA5m" + "EAAPth" + "AAARYgAAJmIAADxi" * 6
    assert mask_tokens(text) == (text, 0)


@given(row=st.sampled_from(ROWS), seed=st.integers(0, 10**6), before=st.text(max_size=10), after=st.text(max_size=10))
def test_masking_twice_changes_nothing(row: tuple[TokenFormat, str], seed: int, before: str, after: str) -> None:
    """What is masked stays as it is, in any surroundings."""
    form, mark = row
    redactor = Redactor()
    clean = redactor.scrub_text(f"{before} {example_token(form, mark, Random(seed))} {after}")
    assert redactor.scrub_text(clean) == clean


@given(body=st.text(alphabet="aB3-_", max_size=40), more=st.text(alphabet="aB3-_", max_size=10), mixed=st.booleans())
def test_a_longer_body_is_no_less_made_up(body: str, more: str, mixed: bool) -> None:
    """What is random enough stays so with more behind or before it: so a search may skip what it has rejected."""
    if is_made_up(body, mixed):
        assert is_made_up(body + more, mixed)
        assert is_made_up(more + body, mixed)
