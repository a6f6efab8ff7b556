"""The conversation on disk, when it is taken up again, torn, replaced, or followed in pieces."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.sessions.transcript import Transcript
from amplifier_kit.engine.context.base import BaseContext
from amplifier_kit.engine.context.token_budget import ContextConfig

Message = dict[str, Any]


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _contents(path: Path) -> list[str]:
    return [json.loads(line)["content"] for line in path.read_text(encoding="utf-8").splitlines()]


def _transcript(path: Path) -> Transcript:
    return Transcript(path, lambda value: value)


def _since(messages: list[Message]) -> Callable[[int], list[Message]]:
    return lambda position: [dict(message) for message in messages[position:]]


def test_a_session_is_taken_up_behind_what_the_file_holds(tmp_path: Path) -> None:
    """What is on disk already is neither written again nor changed."""
    path = tmp_path / "transcript.jsonl"
    path.write_bytes(b'{"content": "a",   "role": "user"}\n')
    transcript = _transcript(path)
    transcript.resume([_user("a")])
    transcript.update([_user("a"), _user("b")])
    assert path.read_bytes().splitlines()[0] == b'{"content": "a",   "role": "user"}'
    assert _contents(path) == ["a", "b"]
    assert not (tmp_path / "transcript.jsonl.backup").exists()


def test_a_mended_history_is_written_anew_and_the_old_one_kept(tmp_path: Path) -> None:
    """A history that is another than the one taken up replaces the file, which becomes the backup."""
    path = tmp_path / "transcript.jsonl"
    path.write_bytes(b'{"role":"user","content":"a"}\n{"role":"user","content":"b"}\n')
    transcript = _transcript(path)
    transcript.resume([_user("a"), _user("b")])
    transcript.update([_user("a"), _user("mended"), _user("b")])
    assert _contents(path) == ["a", "mended", "b"]
    assert _contents(tmp_path / "transcript.jsonl.backup") == ["a", "b"]
    assert (tmp_path / "transcript.jsonl.backup").stat().st_ino != path.stat().st_ino
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    ("tail", "kept"),
    [
        (b'{"role":"user","cont', ["a"]),
        (b"\x00\x00\x00", ["a"]),
        (b'{"role":"user","content":"whole"}', ["a", "whole"]),
    ],
)
def test_a_torn_tail_is_cleaned_before_anything_is_appended(tmp_path: Path, tail: bytes, kept: list[str]) -> None:
    """Half a message is cut off and a whole one ended: nothing is glued to either."""
    path = tmp_path / "transcript.jsonl"
    path.write_bytes(b'{"role":"user","content":"a"}\n' + tail)
    transcript = _transcript(path)
    transcript.resume([_user(text) for text in kept])
    transcript.update([_user(text) for text in [*kept, "next"]])
    assert _contents(path) == [*kept, "next"]


def test_a_long_torn_tail_is_found(tmp_path: Path) -> None:
    """A torn line may be longer than what is read at once."""
    path = tmp_path / "transcript.jsonl"
    path.write_bytes(b'{"role":"user","content":"a"}\n{"role":"user","content":"' + b"x" * 200_000)
    transcript = _transcript(path)
    transcript.resume([_user("a")])
    transcript.update([_user("a"), _user("b")])
    assert _contents(path) == ["a", "b"]


@pytest.mark.parametrize("found", [None, b"", b"garbage\nmore garbage\n"])
def test_what_the_file_does_not_hold_is_written_again(tmp_path: Path, found: bytes | None) -> None:
    """A history that was taken from the backup is complete in the file afterwards, and the backup still good."""
    path = tmp_path / "transcript.jsonl"
    (tmp_path / "transcript.jsonl.backup").write_bytes(b'{"role":"user","content":"a"}\n')
    if found is not None:
        path.write_bytes(found)
    transcript = _transcript(path)
    transcript.resume([_user("a")])
    transcript.update([_user("a"), _user("b")])
    assert _contents(path) == ["a", "b"]
    assert _contents(tmp_path / "transcript.jsonl.backup") == ["a"]
    if found:
        assert (tmp_path / "transcript.jsonl.damaged").read_bytes() == found


@pytest.mark.parametrize("is_followed", [True, False])
def test_a_file_that_vanished_is_written_whole(tmp_path: Path, is_followed: bool) -> None:
    """Who deletes or cuts the file of a running session finds all of it there after the next turn."""
    path = tmp_path / "transcript.jsonl"
    transcript = _transcript(path)
    messages = [_user("a"), _user("b")]
    for change in (path.unlink, lambda: path.write_bytes(path.read_bytes()[:10])):
        transcript.follow(len(messages), _since(messages))
        change()
        messages = [*messages, _user("more")]
        if is_followed:
            transcript.follow(len(messages), _since(messages))
        else:
            transcript.update(messages)
        assert _contents(path) == [message["content"] for message in messages]


def test_messages_are_sanitised_as_the_published_program_does(tmp_path: Path) -> None:
    """Thinking is kept as text; blocks of a provider, None, and what JSON cannot carry are left out."""
    path = tmp_path / "transcript.jsonl"
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "t", "visibility": None}],
        "thinking_block": {"thinking": "hm"},
        "content_blocks": [object()],
        "odd": object(),
    }
    _transcript(path).update([message])
    assert json.loads(path.read_bytes()) == {
        "role": "assistant",
        "content": [{"type": "text", "text": "t"}],
        "thinking_text": "hm",
    }


def test_only_what_is_new_is_asked_for(tmp_path: Path) -> None:
    """A context is asked for the last message that is known and those after it, however long it is."""
    messages: list[Message] = []
    asked: list[int] = []

    def since(position: int) -> list[Message]:
        asked.append(len(messages) - position)
        return [dict(message) for message in messages[position:]]

    path = tmp_path / "transcript.jsonl"
    transcript = _transcript(path)
    grown = []
    for number in range(200):
        messages += [{"role": "system", "content": "s"}, _user(f"turn {number:04}")]
        before = path.stat().st_size if path.exists() else 0
        transcript.follow(len(messages), since)
        grown.append(path.stat().st_size - before)
    assert max(asked[1:]) == 3
    assert len(set(grown)) == 1
    assert len(_contents(path)) == 200


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.sampled_from("abc")),
            st.tuples(st.just("system"), st.just("s")),
            st.tuples(st.just("set"), st.lists(st.sampled_from("xyz"), max_size=4).map("".join)),
            st.tuples(st.just("resume"), st.just("")),
            st.tuples(st.just("tear"), st.just("")),
        ),
        max_size=20,
    )
)
def test_the_file_holds_the_conversation_after_every_step(
    steps: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is added, cleared, replaced, resumed or torn: the file holds the messages, in order, each once."""
    path = tmp_path_factory.mktemp("transcript") / "transcript.jsonl"
    transcript = _transcript(path)
    messages: list[Message] = []
    for number, (kind, text) in enumerate(steps):
        if kind == "add":
            messages = [*messages, _user(f"{text}{number}")]
        elif kind == "system":
            messages = [*messages, {"role": "system", "content": text}]
        elif kind == "set":
            messages = [_user(f"{letter}{number}") for letter in text]
        else:
            if kind == "tear" and path.exists():
                path.write_bytes(path.read_bytes() + b'{"role": "us')
            transcript = _transcript(path)
            transcript.resume([message for message in messages if message["role"] != "system"])
        transcript.follow(len(messages), _since(messages))
        expected = [message["content"] for message in messages if message["role"] == "user"]
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]  # half a line stays until something is appended
        assert [json.loads(line)["content"] for line in whole.splitlines()] == expected
    messages = [*messages, _user("last")]
    transcript.follow(len(messages), _since(messages))
    assert _contents(path) == [message["content"] for message in messages if message["role"] == "user"]


async def test_a_context_of_ours_is_followed(tmp_path: Path) -> None:
    """The real context tells what is new, and a cleared one starts the file over."""
    path = tmp_path / "transcript.jsonl"
    context = BaseContext(ContextConfig())
    transcript = _transcript(path)
    for text in ("a", "b"):
        await context.add_message(_user(text))
        transcript.follow(context.message_count, context.messages_since)
    assert _contents(path) == ["a", "b"]
    await context.clear()
    await context.add_message(_user("c"))
    transcript.follow(context.message_count, context.messages_since)
    assert _contents(path) == ["c"]
    assert _contents(tmp_path / "transcript.jsonl.backup") == ["a", "b"]
