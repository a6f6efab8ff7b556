"""Colour: the option is stronger than the environment."""

from __future__ import annotations

import os

import pytest

from amplifier_app_cli.ui.colour import Ink, choose_colour


@pytest.mark.parametrize(
    ("when", "environment", "is_styled"),
    [
        ("never", {"TERM": "xterm"}, False),
        ("never", {"TERM": "xterm", "FORCE_COLOR": "1"}, False),
        ("always", {"TERM": "xterm", "NO_COLOR": "1"}, True),
        ("auto", {"TERM": "xterm", "NO_COLOR": "1"}, False),
        ("auto", {"TERM": "xterm"}, True),
    ],
)
def test_option_wins(monkeypatch: pytest.MonkeyPatch, when: str, environment: dict[str, str], is_styled: bool) -> None:
    """`--color never` and `always` count more than NO_COLOR and FORCE_COLOR; `auto` leaves it to them."""
    for name in ("TERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.setenv(name, "")  # so that it is put back, whatever happens to it
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    choose_colour(when)
    assert Ink.for_terminal(os.environ, is_terminal=True).is_styled is is_styled
