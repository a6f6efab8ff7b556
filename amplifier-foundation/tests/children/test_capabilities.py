"""What a caller of `session.spawn` gives is checked before anything is made of it."""

from typing import Any

import pytest

from amplifier_foundation.children.errors import SpawnError


@pytest.mark.parametrize("message", ["hi", None, 3, ["user", "hi"]])
async def test_a_conversation_is_made_of_messages(tree: Any, spawn_in: Any, message: Any) -> None:
    """The error names the argument and what is wrong in it, and no child is begun."""
    given = [{"role": "user", "content": "Hello."}, message]
    async with tree.run() as runtime:
        with pytest.raises(SpawnError, match="parent_messages: each must be a message"):
            await spawn_in(runtime)("explorer", "Go.", parent_messages=given)
    assert [path.name for path in tree.place.iterdir()] == [runtime.session_id]


async def test_unknown_options_are_ignored_with_a_warning(
    tree: Any, spawn_in: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A caller that was written for another program gets its child; the log names what was ignored."""
    async with tree.run() as runtime:
        result = await spawn_in(runtime)("explorer", "Go.", agent_color="red")
    assert result["status"] == "success"
    assert "agent_color" in caplog.text
