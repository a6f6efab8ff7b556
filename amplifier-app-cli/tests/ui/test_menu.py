"""A menu: nothing is picked by accident, everything in it can be read, and long ones scroll."""

from __future__ import annotations

from amplifier_app_cli.ui.colour import Ink
from amplifier_app_cli.ui.layout import columns
from amplifier_app_cli.ui.menu import Menu, Option

_PLAIN = Ink(False)


def test_nothing_is_selected_at_first() -> None:
    """An Enter that was meant for the prompt picks nothing; an arrow key selects the first or the last."""
    assert Menu([Option("y"), Option("n")]).selected is None
    menu = Menu([Option("y"), Option("n")])
    menu.move(1)
    assert menu.selected == Option("y")
    other = Menu([Option("y"), Option("n")])
    other.move(-1)
    assert other.selected == Option("n")


def test_ends_meet() -> None:
    """Down on the last option selects the first one, and up on the first the last."""
    menu = Menu([Option("a"), Option("b")], at=1)
    menu.move(1)
    assert menu.selected == Option("a")
    menu.move(-1)
    assert menu.selected == Option("b")


def test_long_meanings_are_wrapped_and_complete() -> None:
    """A rule is never cut: it continues below, and no line is wider than the terminal."""
    rule = 'process.exec command "python3 -m unittest discover --start-directory tests --pattern 测试*.py"'
    lines = Menu([Option("a", rule)]).lines(40, 20, _PLAIN)
    assert all(columns(line) <= 40 for line in lines)
    assert "".join("".join(lines).split()) == "".join(f"a{rule}".split())


def test_long_menu_scrolls() -> None:
    """The selected option is always among the lines, and a line says how many are not."""
    menu = Menu([Option(f"model-{number}") for number in range(30)], at=0)
    for _ in range(20):
        menu.move(1)
    lines = menu.lines(40, 8, _PLAIN)
    assert len(lines) <= 8
    assert "❯ model-20" in lines
    assert lines[-1].strip().startswith("…")


def test_empty_menu_is_none() -> None:
    """A question without options has no menu."""
    assert not Menu(())
    assert Menu((), at=0).selected is None


def test_options_do_not_steer_the_terminal() -> None:
    """Names that a server lists are shown without escapes and on one line, and are picked as they are."""
    name = "model\x1b]0;title\x07\x1b[2J\nx"
    menu = Menu([Option(name, "\x1b[8mhidden")], at=0)
    assert "".join(menu.lines(60, 5, Ink(False))).split() == ["❯", "model", "x", "hidden"]
    assert menu.selected == Option(name, "\x1b[8mhidden")
