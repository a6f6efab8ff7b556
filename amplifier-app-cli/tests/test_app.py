"""What every command knows of its run."""

from __future__ import annotations

import io
import sys

import click
import pytest

from amplifier_app_cli.app import App, current_app


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stdin", "stderr", "no_input", "can_ask"),
    [(True, True, False, True), (True, True, True, False), (False, True, False, False), (True, False, False, False)],
)
def test_a_person_is_asked_only_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stdin: bool, stderr: bool, no_input: bool, can_ask: bool
) -> None:
    """Somebody may be asked when input and questions are at a terminal, and nobody forbade it."""
    monkeypatch.setattr(sys, "stdin", _Terminal() if stdin else io.StringIO())
    monkeypatch.setattr(sys, "stderr", _Terminal() if stderr else io.StringIO())
    assert App(no_input=no_input).can_ask is can_ask


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """What is no result goes to standard error, without escapes, and nowhere when the user wants quiet."""
    App().inform("hello \x1b[31mthere")
    App(is_quiet=True).inform("unheard")
    assert capsys.readouterr() == ("", "hello there\n")


def test_commands_find_their_run() -> None:
    """A command finds the run it belongs to through its context; without one it has its own."""
    app = App(is_quiet=True)
    with click.Context(click.Command("x"), obj=app):
        assert current_app() is app
    assert current_app() is not app
