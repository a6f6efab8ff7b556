"""Warnings, as the person at the terminal sees them."""

import io
import logging
import sys

import pytest

from amplifier_app_cli.ui.diagnostics import show_warnings
from amplifier_app_cli.ui.say import complain, say


def test_warnings_are_said_once_and_without_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of a warning is shown, safely and once; infos and tracebacks are not."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    show_warnings()
    show_warnings()
    logger = logging.getLogger("amplifier_test")
    for _ in range(2):
        logger.error("bad \x1b[31m%s", "thing", exc_info=ValueError("inside"))
    logger.info("nothing of interest")
    logger.warning("does not fit %s %s", "one")
    assert shown.getvalue() == "amplifier: bad thing\namplifier: does not fit %s %s\n"


@pytest.mark.parametrize("closed", [True, False])
def test_nobody_to_tell(monkeypatch: pytest.MonkeyPatch, closed: bool) -> None:
    """Where there is no standard error, or a closed one, saying something is no failure."""
    gone = io.StringIO()
    gone.close()
    monkeypatch.setattr(sys, "stderr", gone if closed else None)
    say("anything")
    assert complain(7, "anything") == 7
