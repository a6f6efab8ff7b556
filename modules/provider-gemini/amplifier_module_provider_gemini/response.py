"""Read the chunks of a streamed answer."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterable
from typing import Any, Final, Literal
from uuid import uuid4

from amplifier_core.llm_errors import InvalidToolCallError, StreamError
from amplifier_kit.engine.usage import Counts
from amplifier_kit.llm.prices import Tokens
from amplifier_kit.llm.response import Answer, FinishReason
from amplifier_module_provider_gemini.request import RAW_CONTENT, SIGNATURE, TEXT_SIGNATURE

_REASONS: Final[dict[str, FinishReason]] = {"STOP": "stop", "MAX_TOKENS": "length"}
_FILTERED: Final = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    }
)
_MALFORMED: Final = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"})
_BROKEN: Final = frozenset({"MALFORMED_RESPONSE", "OTHER", "FINISH_REASON_UNSPECIFIED", "CONTINUATION"})
#: Parts that only Gemini's form of a message can hold: of tools that run at Google's, and images.
_OWN: Final = ("executable_code", "code_execution_result", "tool_call", "tool_response", "inline_data", "file_data")


class StreamReader:
    """Read one streamed answer into an `Answer`."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        #: All parts in order; pieces of plain text are collected in lists, since keeping thousands of parts costs time.
        self._run: list[str] = []
        self._parts: list[list[str] | Any] = [self._run]
        self._has_own = False
        self._has_calls = False
        self._thoughts: list[str] = []
        self._text_signature: str | None = None
        self._reason: str | None = None
        self._message: str | None = None
        self._usage: Any = None

    @property
    def thoughts(self) -> str:
        """All thoughts of the answer."""
        return "".join(self._thoughts)

    async def read(self, chunks: AsyncIterable[Any]) -> None:
        """Read all chunks, and finish the answer if the service gave a finish reason.

        Raises InvalidToolCallError for a malformed call of the model, and StreamError when the service reports that the
        answer broke off.
        """
        answer, model, response_id = self._answer, None, None
        async for chunk in chunks:  # every token passes here
            if chunk.usage_metadata is not None:
                self._usage = chunk.usage_metadata
            if model is None:
                model = answer.model = chunk.model_version or answer.model
            if response_id is None and chunk.response_id:
                response_id = answer.metadata["gemini:response_id"] = chunk.response_id
            candidates = chunk.candidates
            if not candidates:
                self._blocked(chunk.prompt_feedback)
                continue
            candidate = candidates[0]
            content = candidate.content
            for part in (content.parts if content is not None else None) or ():
                text = part.text
                if text is not None and part.thought_signature is None and not part.thought:
                    self._run.append(text)
                    await answer.say("text", text)
                else:
                    await self._part(part)
            if candidate.finish_reason is not None:
                self._reason = candidate.finish_reason.value
                self._message = candidate.finish_message
            if candidate.grounding_metadata is not None:
                answer.metadata["gemini:grounding"] = _dumped(candidate.grounding_metadata)
        await self._finish()

    def _blocked(self, feedback: Any) -> None:
        if feedback is not None and feedback.block_reason is not None:
            self._reason = "SAFETY"
            self._message = feedback.block_reason_message or f"the prompt was blocked: {feedback.block_reason.value}"

    async def _part(self, part: Any) -> None:
        text = part.text
        if text is not None and part.thought_signature is None:
            await self._say("thinking", text)  # without a signature, it is not sent back
            return
        signature = b64encode(part.thought_signature).decode() if part.thought_signature else None
        self._run = []
        self._parts += [part, self._run]
        if part.function_call is not None:
            await self._call(part, signature)
        elif part.thought:
            await self._say("thinking", text or "")
            if signature:
                self._answer.sign_thinking(signature)
        elif text is not None:
            await self._say("text", text)
            self._text_signature = signature
        elif any(getattr(part, name, None) is not None for name in _OWN):
            self._has_own = True

    async def _say(self, kind: Literal["text", "thinking"], text: str) -> None:
        if kind == "thinking":
            self._thoughts.append(text)
        await self._answer.say(kind, text)

    async def _call(self, part: Any, signature: str | None) -> None:
        self._has_calls = True
        called = part.function_call
        called.id = called.id or f"call_{uuid4().hex[:24]}"
        extra = {SIGNATURE: signature} if signature else None
        await self._answer.call(called.id, called.name or "", dict(called.args or {}), extra)

    async def _finish(self) -> None:
        if self._reason is None:
            return  # incomplete, which `Answer.response` reports
        said = self._message or self._reason
        if self._reason in _MALFORMED:
            raise InvalidToolCallError(f"the model's call cannot be used ({self._reason}): {said}", retryable=True)
        if self._reason in _BROKEN:
            raise StreamError(f"the service broke the answer off: {said}")
        if self._text_signature is not None:
            self._answer.sign_thinking(content=[{TEXT_SIGNATURE: self._text_signature}])
        if self._has_own:
            self._answer.metadata[RAW_CONTENT] = _joined(self._parts)
        self._answer.metadata["gemini:finish_reason"] = self._reason
        if self._usage is not None:
            self._answer.tokens = _tokens(self._usage)
        if self._reason in _FILTERED:
            self._answer.refusal = said
            await self._answer.finish("content_filter")
        elif self._has_calls and self._reason == "STOP":
            await self._answer.finish("tool_use")
        else:
            await self._answer.finish(_REASONS.get(self._reason, "stop"))


#: The service leaves out counts of zero.
_COUNTS = (
    "prompt_token_count",
    "tool_use_prompt_token_count",
    "candidates_token_count",
    "thoughts_token_count",
    "cached_content_token_count",
)


def _tokens(usage: Any) -> Tokens:
    counts = Counts({name: getattr(usage, name) for name in _COUNTS if getattr(usage, name) is not None})
    thoughts = counts.get("thoughts_token_count")
    return Tokens(
        prompt=counts.need("prompt_token_count") + counts.need("tool_use_prompt_token_count"),
        output=counts.need("candidates_token_count") + (thoughts or 0),
        cache_read=counts.get("cached_content_token_count"),
        reasoning=thoughts,
    )


def _dumped(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def _joined(parts: list[list[str] | Any]) -> list[dict[str, Any]]:
    """Return parts as JSON; a text is merged with the signed piece at its end."""
    joined: list[dict[str, Any]] = []
    for part in parts:
        dumped = _dumped(part) if not isinstance(part, list) else {"text": "".join(part)} if part else {}
        if joined and set(joined[-1]) == {"text"} and "text" in dumped and not dumped.get("thought"):
            joined[-1] = {**dumped, "text": joined[-1]["text"] + dumped["text"]}
        elif dumped:
            joined.append(dumped)
    return joined
