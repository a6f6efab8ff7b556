"""Hypothesis strategies for conversation histories, for tests of what a provider sends; needs hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

History = list[dict[str, Any]]

_TEXT = st.sampled_from(["", " ", "a", "b c", "ü"])
_CALL_ID = st.sampled_from(["c1", "c2", "functions.look:0", "x" * 80, ""])
_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}


def any_history(blocks: list[dict[str, Any]]) -> st.SearchStrategy[History]:
    """Return histories of any shape: blank texts, images, `blocks`, calls without results and results without calls."""
    block = _block(blocks)
    return st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["user", "system", "developer"]), _TEXT).map(
                lambda pair: {"role": pair[0], "content": pair[1]}
            ),
            st.lists(block, max_size=3).map(lambda content: {"role": "user", "content": content}),
            st.tuples(st.lists(block, max_size=3), st.lists(_CALL_ID, max_size=2)).map(lambda pair: _assistant(*pair)),
            st.tuples(_CALL_ID, _TEXT).map(lambda pair: {"role": "tool", "tool_call_id": pair[0], "content": pair[1]}),
        ),
        max_size=8,
    )


def growing_history(blocks: list[dict[str, Any]]) -> st.SearchStrategy[list[History]]:
    """Return the stages of a valid history, each a beginning of the next one; the last stage is the whole history."""
    turn = st.tuples(_TEXT, st.lists(_block(blocks), max_size=2), st.integers(0, 2), _TEXT)
    return st.lists(turn, max_size=5).map(_stages)


def _stages(turns: list[tuple[str, list[dict[str, Any]], int, str]]) -> list[History]:
    history: History = [{"role": "system", "content": "s"}]
    stages: list[History] = []
    for number, (text, blocks, calls, late) in enumerate(turns):
        history += [{"role": "user", "content": text or "x"}]
        stages.append(list(history))
        ids = [f"c{number}_{call}" for call in range(calls)]
        history += [_assistant([*blocks, {"type": "text", "text": "said"}], ids)]
        history += [{"role": "tool", "tool_call_id": call_id, "content": "r"} for call_id in ids]
        history += [{"role": "system", "content": late}] if late else []
        stages.append(list(history))
    return stages or [history]


def _block(blocks: list[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    texts: st.SearchStrategy[dict[str, Any]] = _TEXT.map(lambda text: {"type": "text", "text": text})
    return texts | st.sampled_from([*blocks, _IMAGE])


def _assistant(blocks: list[dict[str, Any]], ids: list[str]) -> dict[str, Any]:
    calls = [{"id": call_id, "tool": "look", "arguments": {}} for call_id in ids]
    content = [block for block in blocks if block["type"] != "image"]
    return {"role": "assistant", "content": content, "tool_calls": calls}
