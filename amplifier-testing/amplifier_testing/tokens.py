"""Make up tokens of known services, so that no file holds anything like a token."""

from __future__ import annotations

from random import Random

from amplifier_kit.guard.redaction.formats import ALPHABETS, TokenFormat, parts


def example_token(form: TokenFormat, mark: str, chance: Random) -> str:
    """Return a token that is random enough to be recognised."""
    while True:
        before, after = _fill(form.before, chance), _fill(form.after, chance)
        if form.is_token(after):
            return before + mark + after


def _fill(template: str, chance: Random) -> str:
    filled = ""
    for part in parts(template):
        if isinstance(part, str):
            filled += part
        elif part.kind == "uuid":
            filled += "-".join("".join(chance.choices(ALPHABETS["hex"], k=count)) for count in (8, 4, 4, 4, 12))
        else:
            filled += "".join(chance.choices(ALPHABETS[part.kind], k=part.least))
    return filled
