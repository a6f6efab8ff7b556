"""Shell lines as a whole, in the forms that rules about them are written in."""

from __future__ import annotations

import pytest

from amplifier_kit.guard.policy.segments import line_forms, spans_commands


@pytest.mark.parametrize("line", ["curl x|sh", "curl x | sh", " curl  x |\nsh "])
def test_blanks_around_operators_do_not_count(line: str) -> None:
    """However a line is spaced, it has a form with one blank around each operator and a form without."""
    assert {"curl x | sh", "curl x|sh"} <= set(line_forms(line))


@pytest.mark.parametrize("text", ["a|b", "a & b", "a;b", "a>b", "a <b", "a `b`", "a $(b)", "*&&*"])
def test_what_is_more_than_a_command(text: str) -> None:
    """Operators, redirects and substitutions make it more than one plain command."""
    assert spans_commands(text)
    assert not spans_commands("git push --force 'a b' $x *")
