"""Read a streamed answer: its chunks, and the tool calls inside its text."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import AsyncIterator, Collection
from typing import Any, Final

from amplifier_core.llm_errors import InvalidToolCallError
from amplifier_kit.llm.errors import ServiceError
from amplifier_kit.llm.response import Answer
from amplifier_module_provider_local.grammar import FENCE, TAGS, CallStyle

_HEAD: Final = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*(?=\S)')
_LONGEST_HEAD: Final = 1000


async def chunks_of(response: Any) -> AsyncIterator[dict[str, Any]]:
    """Yield the chunks of a streamed answer; raises ServiceError for an error, also in the middle of the stream."""
    if response.status_code != 200:
        body = (await response.aread()).decode("utf-8", "replace")
        raise ServiceError(body, response.status_code, response.headers)
    async for line in response.aiter_lines():
        kind, _, data = line.partition(":")
        data = data.strip()
        if not data or data == "[DONE]" or kind not in ("data", "error"):
            continue
        chunk = json.loads(data)
        if kind == "error" or "error" in chunk:
            raise ServiceError(chunk if "error" in chunk else {"error": chunk})
        yield chunk


def _begun(text: str, mark: str) -> int:
    """Return how many characters at the end of a text may be the beginning of a mark."""
    return next((n for n in range(len(mark) - 1, 0, -1) if text.endswith(mark[:n])), 0)


class CallReader:
    """Feed an answer from pieces of text that may contain calls, in tags or in a fence.

    A fence is a call if it names one of the tools `names`; all others are text.
    """

    def __init__(self, answer: Answer, names: Collection[str]) -> None:
        self._answer = answer
        self._names = names
        self._style = TAGS
        self._rest = ""
        self._read = self._text
        self._key = 0
        #: Depth of braces and brackets, whether inside a string, and whether after a backslash.
        self._depth, self._is_quoted, self._is_escaped = 0, False, False
        #: The number of calls begun.
        self.calls = 0

    async def feed(self, piece: str) -> None:
        """Read a piece; raises InvalidToolCallError for a malformed call."""
        self._rest += piece
        while await self._read():
            pass

    async def end(self) -> None:
        """Read the rest that was held back; raises InvalidToolCallError when it ends before a call has a name."""
        if self._read == self._text:
            await self._answer.say("text", self._rest)
        elif self._read == self._head:
            raise self._unreadable()
        self._rest = ""

    # -- the states: each returns whether there may be more to read --

    async def _text(self) -> bool:
        style = min((TAGS, FENCE), key=lambda style: self._rest.find(style.start) % (len(self._rest) + 1))
        before, mark, behind = self._rest.partition(style.start)
        # Hold back a possible beginning of a call, and blanks that may precede one.
        held = 0 if mark else max(_begun(before, style.start) for style in (TAGS, FENCE))
        ready = before[: len(before) - held].rstrip()
        if ready:
            await self._answer.say("text", ready)
            self._rest = self._rest[len(ready) :]
        is_call = self._is_call(style, behind) if mark else None
        if is_call is None:
            return False
        if is_call:
            await self._answer.end_said()
            self._style, self._rest, self._read = style, behind, self._head
        else:
            await self._answer.say("text", before[len(ready) :] + mark)
            self._rest = behind
        return True

    def _is_call(self, style: CallStyle, behind: str) -> bool | None:
        """Return whether a call begins at a mark; None when that depends on what follows."""
        if style == TAGS:
            return True
        match = _HEAD.match(behind)
        if match is not None:
            return behind[match.end()] == "{" and json.loads(match[1]) in self._names
        begun = behind.lstrip()
        if len(behind) > _LONGEST_HEAD or style.end in behind or (begun and not begun.startswith("{")):
            return False
        return None

    async def _head(self) -> bool:
        match = _HEAD.match(self._rest)
        if match is None:
            if len(self._rest) > _LONGEST_HEAD or self._style.end in self._rest:
                raise self._unreadable()
            return False
        if self._rest[match.end()] != "{":
            raise self._unreadable()
        self._key += 1
        self.calls += 1
        await self._answer.start(
            self._key, "tool_use", id=f"call_{secrets.token_hex(8)}", name=str(json.loads(match[1]))
        )
        self._rest, self._read = self._rest[match.end() :], self._arguments
        return True

    async def _arguments(self) -> bool:
        for index, char in enumerate(self._rest):
            self._follow(char)
            if not self._depth:
                await self._answer.add(self._key, self._rest[: index + 1])
                await self._answer.end(self._key)
                self._rest, self._read = self._rest[index + 1 :], self._tail
                return True
        await self._answer.add(self._key, self._rest)
        self._rest = ""
        return False

    async def _tail(self) -> bool:
        _, mark, behind = self._rest.partition(self._style.end)
        if not mark:
            return False
        self._rest, self._read = behind.lstrip(), self._gap
        return True

    async def _gap(self) -> bool:
        """Skip blanks after a call."""
        self._rest = self._rest.lstrip()
        if not self._rest:
            return False
        self._read = self._text
        return True

    def _follow(self, char: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif self._is_quoted:
            self._is_escaped, self._is_quoted = char == "\\", char != '"'
        elif char == '"':
            self._is_quoted = True
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1

    def _unreadable(self) -> InvalidToolCallError:
        return InvalidToolCallError(
            "the model made a malformed tool call: it has no name, or its arguments are not an object",
            tool_name="",
            raw_arguments=self._rest[:_LONGEST_HEAD],
        )
