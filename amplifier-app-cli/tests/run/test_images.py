"""Images of a prompt reach the model whatever the loop hands to the context, and whatever the context is made of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_app_cli.run.images import put_into_prompt

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
SYSTEM = {"role": "system", "content": "be brief"}
PROMPT = {"role": "user", "content": "what is this"}
ALONE = {"role": "user", "content": [IMAGE]}


class Context:
    """Keeps messages."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def add_message(self, message: Any) -> None:
        """Keep one."""
        self.messages.append(message)


class Closed:
    """Keeps messages, and lets nobody change how."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def add_message(self, message: Any) -> None:
        """Keep one."""
        self.messages.append(message)


async def test_images_stand_before_the_words_of_the_next_prompt_alone() -> None:
    """What is no prompt stays as it is, and so does every prompt after the first."""
    context = Context()
    await put_into_prompt(context, [IMAGE])
    for message in (SYSTEM, PROMPT, PROMPT):
        await context.add_message(message)
    assert context.messages == [
        SYSTEM,
        {"role": "user", "content": [IMAGE, {"type": "text", "text": "what is this"}]},
        PROMPT,
    ]


@pytest.mark.parametrize(
    "prompt", [SimpleNamespace(role="user", content="what is this"), {"role": "user", "content": [{"type": "text"}]}]
)
async def test_prompt_of_another_form_has_them_before_it(prompt: Any) -> None:
    """A prompt that is no mapping with a text is not changed, and no image is lost."""
    context = Context()
    await put_into_prompt(context, [IMAGE])
    await context.add_message(prompt)
    assert context.messages == [ALONE, prompt]


async def test_context_that_cannot_be_changed_has_them_before_the_prompt() -> None:
    """No image is lost with a context that has slots."""
    context = Closed()
    await put_into_prompt(context, [IMAGE])
    await context.add_message(PROMPT)
    assert context.messages == [ALONE, PROMPT]
