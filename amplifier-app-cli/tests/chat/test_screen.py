"""How a chat looks: on narrow terminals, with wide characters, without colour, and on terminals that cannot draw."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplifier_app_cli.ui.layout import columns

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_HARMLESS = {"\x1b[0m", "\x1b[m"}
_MARKDOWN = """
    turns:
      - thinking: "A greeting. How nice."
        text: "# Title\\n\\nSome **bold** words and `code`.\\n\\n- one\\n- b\\n\\n```python\\nprint(1)\\n```\\n\\nEnd."
        usage: {input_tokens: 1200, output_tokens: 34, cost_usd: "0.0123"}
"""


def _end(chat: Any) -> None:
    chat.send("\x04" if chat.is_drawn else "exit\n")
    assert chat.end() == 0
    assert chat.events[-1]["event"] == "session:end"


def test_markdown_is_rendered(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """Headings, emphasis, lists and code look like what they are; thinking is dimmed; tokens and cost follow."""
    chat = start("--bundle", scripted(_MARKDOWN))
    chat.line("hello")
    chat.wait_for_prompt("1,200 in · 34 out · $0.0123")
    assert "**" not in chat.text
    assert "```" not in chat.text
    assert "# Title" not in chat.text
    for part in ("Title", "Some bold words and code.", "• one", "print(1)", "End.", "│ A greeting. How nice."):
        assert part in chat.text
    assert "\x1b[2m│ A greeting. How nice.\x1b[0m" in chat.raw
    _end(chat)
    assert chat.text.count("Some bold words") == 1


def test_no_colour(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """With NO_COLOR there is no emphasis at all, and the answer is the text as the model wrote it."""
    chat = start("--bundle", scripted(_MARKDOWN), NO_COLOR="1")
    chat.line("hello")
    chat.wait_for_prompt("1,200 in")
    assert set(_COLOUR.findall(chat.raw)) <= _HARMLESS
    for line in ("# Title", "Some **bold** words and `code`.", "- one", "```python"):
        assert line in chat.text.splitlines()
    _end(chat)


def test_terminal_that_cannot_draw(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """With TERM=dumb not one escape sequence is written, and a backslash goes on with the next line."""
    chat = start("--bundle", scripted(_MARKDOWN), TERM="dumb")
    chat.send("hello \\\n")
    chat.send("there\n")
    chat.wait_for_prompt("1,200 in")
    assert "Some **bold** words" in chat.text
    assert ">" not in chat.text.rstrip().splitlines()[:-1]  # it asks when the turn is told, and not before
    chat.send("exit\n")
    assert chat.end() == 0
    assert "\x1b" not in chat.raw
    assert chat.transcript[0] == ("user", "hello \nthere")
    assert chat.events[-1]["event"] == "session:end"


def test_terminal_that_cannot_draw_names_its_own_keys(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """With TERM=dumb the first lines and /help name the backslash, and no key that does nothing there."""
    chat = start("--bundle", scripted(_MARKDOWN), TERM="dumb")
    assert "a line that ends in \\ continues on the next" in " ".join(chat.text.split())
    chat.line("/help")
    chat.wait_for_prompt("before its next step.")
    assert chat.words.count("ends in \\ continues") == 2
    assert "Ctrl-D: leave" in chat.text
    assert "Ctrl-J" not in chat.text
    assert "Ctrl-R" not in chat.text
    # What is said of the empty prompt holds here too.
    chat.send("\x03")
    chat.wait_for("press Ctrl-C again to leave")
    chat.send("\x03")
    assert chat.end() == 130
    drawn = start("--bundle", "bundle.yaml")
    drawn.line("/help")
    drawn.wait_for("Ctrl-J: new line", "Ctrl-R: search", "Esc: stop the turn", "Shift-Tab: change")


def test_terminal_that_cannot_draw_asks_too(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path
) -> None:
    """With TERM=dumb a question is a line, Ctrl-C refuses and stops, and Ctrl-D leaves."""
    turns = """
        turns:
          - tool_calls: [{id: c1, name: run, arguments: {command: one}}]
          - tool_calls: [{id: c2, name: run, arguments: {command: two}}]
          - text: Done.
    """
    chat = start("--bundle", scripted(turns, tools=True), "--trust", TERM="dumb")
    chat.line("go")
    chat.wait_for("Allow? [y/n/a/e/l]")
    chat.line("y")
    chat.wait_until(lambda: chat.text.count("Allow? [y/n/a/e/l]") == 2)
    chat.send("\x03")
    chat.wait_for_prompt("stopped\n")
    assert (project / "ran").read_text(encoding="utf-8") == "one\n"
    chat.send("\x04")
    assert chat.end() == 0
    assert "\x1b" not in chat.raw


def test_narrow_terminal(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """On 30 columns nothing is wider than the terminal, and no line of ours is broken in the middle of drawing."""
    turns = """
        turns:
          - tool_calls: [{id: c1, name: gate, arguments: {where: a place with a very long name that does not fit}}]
          - text: "Words that are wrapped where a narrow terminal ends, without any of them being lost."
    """
    chat = start("--bundle", scripted(turns, tools=True), "--trust", columns=30)
    chat.line("go")
    chat.wait_for("… gate", "working")
    assert all(columns(line) <= 30 for line in chat.text.splitlines())
    (project / "go").touch()
    chat.wait_for_prompt("lost.")
    assert (
        "Words that are wrapped where a\nnarrow" in chat.text or "Words that are wrapped where\na narrow" in chat.text
    )
    assert chat.text.count("working") == 0
    _end(chat)


def test_wide_characters(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """Chinese text is wrapped by its width, not by its number of characters, and loses none of them."""
    said = "这是一个很长的句子用来测试终端的宽度是否正确处理中文字符" * 2
    chat = start("--bundle", scripted(f"turns: [{{text: {said}}}]"), columns=30)
    chat.line("你好")
    chat.wait_for_prompt("out ·")
    assert "> 你好" in chat.text
    assert said in chat.text.replace("\n", "")
    assert all(columns(line) <= 30 for line in chat.text.splitlines())
    _end(chat)


def test_model_cannot_steer_the_terminal(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path
) -> None:
    """Escape sequences in what a model or a tool says do not reach the terminal."""
    turns = r"""
        turns:
          - thinking: "\e[5mthink\e]0;title\a"
            text: "\e[2J\e]52;c;aGFjaw==\aharmless \x9b31m\u202etext"
            tool_calls: [{id: c1, name: gate, arguments: {where: "\e[8mhidden"}}]
          - text: "\e]8;;http://evil.example\e\\link\e]8;;\e\\ and [a link](http://plain.example)"
    """
    chat = start("--bundle", scripted(turns, tools=True), "--trust")
    (project / "go").touch()
    chat.line("go")
    chat.wait_for_prompt("a link")
    for evil in ("\x1b[2J", "\x1b[5m", "\x1b[8m", "\x1b]", "\x9b", "\u202e", "\a"):
        assert evil not in chat.raw
    assert "harmless" in chat.text
    assert "http://plain.example" in chat.text
    _end(chat)


def test_module_that_prints(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """What a module prints appears above the prompt, without its escape sequences."""
    bundle = scripted("turns: [{tool_calls: [{id: c1, name: gate, arguments: {}}]}, {text: Done.}]", tools=True)
    [code] = project.glob("modules/tool-trials/*/__init__.py")
    text = code.read_text(encoding="utf-8")
    code.write_text(text.replace('Path("waiting").touch()', r'print("from \x1b[31mthe module")'), encoding="utf-8")
    (project / "go").touch()
    chat = start("--bundle", bundle, "--trust")
    chat.line("go")
    chat.wait_for_prompt("Done.")
    chat.wait_for_prompt("the module")  # while it is being printed, the terminal takes no keys for the prompt
    assert "\x1b[31mthe module" not in chat.raw
    _end(chat)


def test_failure_of_the_model_ends_no_chat(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """A model that fails is told in a line, and the next prompt is answered."""
    turns = "turns: [{error: {type: RateLimitError, message: slow down}}, {text: Better now.}]"
    chat = start("--bundle", scripted(turns))
    chat.line("one")
    chat.wait_for_prompt("the model failed: RateLimitError: slow down")
    assert "Better now." not in chat.text
    chat.line("two")
    chat.wait_for_prompt("Better now.")
    assert chat.text.count("the model failed") == 1
    _end(chat)


def test_resumed_session_shows_what_was_said(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """A session that goes on shows its last turns, and keeps its id."""
    bundle = scripted("{turns: [{text: A memorable answer.}], repeat: true}")
    chat = start("--bundle", bundle)
    chat.line("a memorable question")
    chat.wait_for_prompt("A memorable answer.")
    _end(chat)
    first = chat.folder.name
    chat = start("--resume")
    assert f"session {first[:8]} (resumed)" in chat.text
    assert "> a memorable question\nA memorable answer." in chat.text
    chat.line("another")
    chat.wait_until(lambda: chat.text.count("A memorable answer.") == 2)
    chat.wait_for_prompt("out ·")
    _end(chat)
    assert [role for role, _ in chat.transcript] == ["user", "assistant"] * 2
    assert chat.folder.name == first
