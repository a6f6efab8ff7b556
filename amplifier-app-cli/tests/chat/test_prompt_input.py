"""What is pasted into a chat mentions no files; what is typed does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory

from amplifier_app_cli.chat.prompt_input import PastedText

SECRET = "marker-of-the-notes"
_ANSWERS = "{turns: [{text: Yes.}], repeat: true}"
_UP = "\x1b[A"


def _pasted(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


@pytest.fixture
def notes(project: Path) -> Path:
    """Return a file of the project."""
    file = project / "notes.md"
    file.write_text(SECRET, encoding="utf-8")
    return file


def _said(chat: Any) -> list[str]:
    return [text for role, text in chat.transcript if role == "user"]


def _end(chat: Any) -> None:
    chat.send("\x04")
    assert chat.end() == 0


def test_a_pasted_mention_is_text(start: Callable[..., Any], scripted: Callable[..., str], notes: Path) -> None:
    """A name in pasted text brings no file, not from the history either, and a line says so; a typed one does."""
    chat = start("--bundle", scripted(_ANSWERS))
    chat.send(_pasted("see @notes.md for more"))
    chat.send("\r")
    chat.wait_for_prompt("Yes.")
    assert "not given to the model: @notes.md" in " ".join(chat.text.split())
    chat.send(_UP)
    chat.wait_for("> see \\@notes.md")
    chat.send("\r")
    chat.wait_until(lambda: chat.text.count("Yes.") == 2)
    chat.wait_for_prompt("Yes.")
    chat.line("and @notes.md")
    chat.wait_until(lambda: chat.text.count("Yes.") == 3)
    chat.wait_for_prompt("Yes.")
    _end(chat)
    said = _said(chat)
    assert [SECRET in text for text in said] == [False, False, True]
    assert said[:2] == ["see @notes.md for more", "see \\@notes.md for more"]


def test_a_rule_denies_in_a_chat(
    start: Callable[..., Any], scripted: Callable[..., str], notes: Path, environment: dict[str, str]
) -> None:
    """A file that a rule denies is not brought by a chat, and the rule is named."""
    folder = Path(environment["HOME"]) / ".amplifier"
    folder.mkdir(mode=0o700, exist_ok=True)
    rule = "rules:\n  - {path: notes.md, verdict: deny, reason: not that one}\n"
    (folder / "policy.yaml").write_text(rule, encoding="utf-8")
    chat = start("--bundle", scripted(_ANSWERS))
    chat.line("read @notes.md")
    chat.wait_for_prompt("Yes.")
    assert "not that one" in " ".join(chat.text.split())
    _end(chat)
    assert _said(chat) == ["read @notes.md"]


def test_a_skill_mentions_nothing(
    start: Callable[..., Any], scripted: Callable[..., str], notes: Path, project: Path, environment: dict[str, str]
) -> None:
    """The text of a skill is given as it is, one that leads out of the project or is denied is none."""
    secret = Path(environment["HOME"]) / "secret.md"
    secret.write_text(f"---\nname: out\ndescription: d\n---\n{SECRET} outside\n", encoding="utf-8")
    for name in ("one", "out"):
        (project / ".agents" / "skills" / name).mkdir(parents=True)
    text = "---\nname: one\ndescription: d\n---\nRead @notes.md first.\n"
    (project / ".agents" / "skills" / "one" / "SKILL.md").write_text(text, encoding="utf-8")
    (project / ".agents" / "skills" / "out" / "SKILL.md").symlink_to(secret)
    chat = start("--bundle", scripted(_ANSWERS))
    chat.line("/skill out now")
    chat.wait_for("there is no skill 'out'")
    chat.line("/skill one now")
    chat.wait_for_prompt("Yes.")
    chat.line("/skill one with @notes.md")
    chat.wait_until(lambda: chat.text.count("Yes.") == 2)
    chat.wait_for_prompt("Yes.")
    _end(chat)
    said = _said(chat)
    assert ["Read @notes.md first." in text for text in said] == [True, True]
    assert [SECRET in text for text in said] == [False, True]


# -- a buffer that is changed in all ways --


def _typed(buffer: Buffer, text: str) -> None:
    for character in text:
        buffer.insert_text(character)


def _marked(buffer: Buffer, pasted: PastedText) -> list[str]:
    return [buffer.text[start:end] for start, end in pasted.spans]


def test_pasted_text_stays_marked_while_it_is_edited() -> None:
    """Typing before, behind and inside, and deleting, move the marks with the text."""
    buffer = Buffer()
    pasted = PastedText(buffer)
    _typed(buffer, "see ")
    buffer.insert_text("@a.md here")
    _typed(buffer, " and @b.md")
    assert _marked(buffer, pasted) == ["@a.md here"]
    buffer.cursor_position = 0
    _typed(buffer, "do ")
    assert _marked(buffer, pasted) == ["@a.md here"]
    buffer.cursor_position = buffer.text.index(" here")
    _typed(buffer, "!")
    assert _marked(buffer, pasted) == ["@a.md! here"]
    buffer.cursor_position = buffer.text.index("see")
    buffer.delete(4)
    assert _marked(buffer, pasted) == ["@a.md! here"]
    assert pasted.taken(buffer.text).mentions() == (("@b.md",), ("@a.md",))
    buffer.cursor_position = buffer.text.index("@a")
    buffer.delete(len("@a.md! here"))
    assert pasted.spans == ()


def test_what_comes_back_as_a_whole_was_not_typed() -> None:
    """Undoing, redoing, and putting in what was cut make no typed text of what was pasted."""
    buffer = Buffer()
    pasted = PastedText(buffer)
    buffer.save_to_undo_stack()
    buffer.insert_text("@a.md ")
    buffer.save_to_undo_stack()
    buffer.undo()
    buffer.redo()
    assert pasted.taken(buffer.text).mentions()[0] == ()
    cut = Document(buffer.text, 0)
    buffer.document = Document("")
    assert pasted.spans == ()
    buffer.document = Document(f"x {cut.text}", 2)
    assert pasted.taken(buffer.text).mentions()[0] == ()


def test_a_paste_before_what_was_typed_is_told_from_it() -> None:
    """Where texts alone do not tell what was put in, the cursor does."""
    buffer = Buffer()
    pasted = PastedText(buffer)
    _typed(buffer, "@")
    buffer.cursor_position = 0
    buffer.insert_text("@b.md ")
    assert pasted.spans == ((0, 6),)


async def test_going_through_the_history_keeps_the_marks() -> None:
    """Half-written input is as it was when the arrow keys come back to it; what was said before counts as typed.

    That holds for an input that was begun before the history was loaded.
    """
    buffer = Buffer(history=InMemoryHistory(["earlier @a.md"]))
    pasted = PastedText(buffer)
    buffer.insert_text("@b.md now")
    buffer.load_history_if_not_yet_loaded()
    assert buffer._load_history_task is not None
    await buffer._load_history_task
    _typed(buffer, "!")
    assert pasted.taken(buffer.text).mentions() == ((), ("@b.md",))
    buffer.history_backward()
    assert buffer.text == "earlier @a.md"
    assert pasted.taken(buffer.text).mentions() == (("@a.md",), ())
    buffer.history_forward()
    assert pasted.taken(buffer.text).mentions() == ((), ("@b.md",))
