"""Fetch one page or file: what the tool `web_fetch` does when it is called."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from amplifier_kit.guard.files.workspace import FileAccess
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_tool_web.call import Call, Failure
from amplifier_module_tool_web.client import Client
from amplifier_module_tool_web.config import WebConfig
from amplifier_module_tool_web.domains import Domains
from amplifier_module_tool_web.download import Answer, Body, Download, read_body
from amplifier_module_tool_web.extract import read
from amplifier_module_tool_web.fetch import NAME
from amplifier_module_tool_web.save import FileSaver, SavedFile
from amplifier_module_tool_web.text import decode, is_binary, is_binary_type, is_html, part_of

_PREVIEW: Final = 1000
_SAVE_HINT: Final = "Next: give save_to_file to keep it as a file"


class _Request(NamedTuple):
    url: str
    save_to_file: str | None
    offset: int
    limit: int


class _Fetched(NamedTuple):
    answer: Answer
    body: Body

    @property
    def content_type(self) -> str:
        return self.answer.content_type


class PageFetcher:
    """Fetches one page or file, as text to read or as a file to keep."""

    def __init__(
        self, coordinator: Any, settings: WebConfig, access: FileAccess, client: Client, domains: Domains
    ) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._client = client
        self._domains = domains
        self._saving = FileSaver(coordinator, access)

    async def run(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the tool returns; raise Failure."""
        return await self._run(self._request(given), given)

    async def _run(self, request: _Request, given: Mapping[str, Any]) -> dict[str, Any]:
        call = Call(self._coordinator, NAME, given)
        limits = self._settings
        download = Download(
            self._client, self._domains, call, timeout=limits.timeout, max_redirects=limits.max_redirects
        )
        target = download.target(request.url)

        async def to_read(answer: Answer) -> _Fetched:
            if is_binary_type(answer.content_type):
                raise _binary(answer)
            return _Fetched(answer, await read_body(answer, limits.max_bytes, call))

        async def to_save(answer: Answer) -> _Fetched:
            _check_size(answer, answer.announced_size, limits.max_save_bytes)
            body = await read_body(answer, limits.max_save_bytes, call)
            _check_size(answer, None if body.is_whole else limits.max_save_bytes + 1, limits.max_save_bytes)
            return _Fetched(answer, body)

        if request.save_to_file is None:
            return await self._read(request, await download.run(target, to_read))
        with closing(await self._saving.file(request.save_to_file, NAME, given)) as file:
            return await self._save(request, await download.run(target, to_save), file)

    async def _read(self, request: _Request, fetched: _Fetched) -> dict[str, Any]:
        if is_binary(fetched.body.data, fetched.content_type):
            raise _binary(fetched.answer)
        part = part_of(await self._text(fetched), request.offset, request.limit)
        output = {
            **_described(request, fetched),
            "content": part.text,
            "truncated": not (part.is_last and fetched.body.is_whole),
            "total_bytes": part.total,
            "offset": part.offset,
            "limit": request.limit,
            "returned_bytes": part.size,
        }
        if not fetched.body.is_whole:
            output["warning"] = f"only the first {len(fetched.body.data):,} bytes were read. {_SAVE_HINT}"
        return output

    async def _save(self, request: _Request, fetched: _Fetched, file: SavedFile) -> dict[str, Any]:
        content, text = fetched.body.data, ""
        if not is_binary_type(fetched.content_type) and not is_binary(content, fetched.content_type):
            text = await asyncio.to_thread(decode, content[: self._settings.max_bytes], fetched.content_type)
            if not file.is_page and len(content) <= self._settings.max_bytes and self._is_extracted(fetched, text):
                text = await read(text, str(fetched.answer.target))
                content = text.encode("utf-8", "replace")
        warnings = await file.write(content)
        preview = text[:_PREVIEW]
        output = {
            **_described(request, fetched),
            "content": preview,
            "truncated": len(text) > _PREVIEW or (not text and bool(content)),
            "total_bytes": len(content),
            "offset": 0,
            "limit": request.limit,
            "returned_bytes": len(preview.encode("utf-8", "replace")),
            "saved_to": file.path,
            "saved_bytes": len(content),
        }
        return {**output, "warning": "; ".join(warnings)} if warnings else output

    async def _text(self, fetched: _Fetched) -> str:
        text = await asyncio.to_thread(decode, fetched.body.data, fetched.content_type)
        return await read(text, str(fetched.answer.target)) if self._is_extracted(fetched, text) else text

    def _is_extracted(self, fetched: _Fetched, text: str) -> bool:
        return self._settings.extract_text and is_html(fetched.content_type, text)

    def _request(self, given: Mapping[str, Any]) -> _Request:
        url, name = given.get("url"), given.get("save_to_file")
        if not isinstance(url, str) or not url.strip():
            raise Failure("invalid_input", "url must be a text that starts with http:// or https://")
        if name is not None and not isinstance(name, str):
            raise Failure("invalid_input", "save_to_file must be the name of a file")
        return _Request(
            url.strip(" \t\r\n"),
            name or None,
            _whole(given, "offset", 0, 0),
            _whole(given, "limit", self._settings.default_limit, 1),
        )


def _whole(given: Mapping[str, Any], key: str, default: int, least: int) -> int:
    value = given.get(key)
    if value is None:
        return default
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise Failure("invalid_input", f"{key} must be a whole number of at least {least}, not {value!r}")
    return value


def _described(request: _Request, fetched: _Fetched) -> dict[str, Any]:
    final = str(fetched.answer.target)
    moved = {} if final == request.url else {"final_url": final}
    return {"url": request.url, **moved, "content_type": fetched.content_type}


def _binary(answer: Answer) -> Failure:
    size = answer.announced_size
    of = f" of {size:,} bytes" if size is not None else ""
    kind = answer.content_type[:100] or "an unknown type"
    return Failure("binary_content", f"{answer.target} is a binary file{of} ({kind}), not text. {_SAVE_HINT}")


def _check_size(answer: Answer, size: int | None, limit: int) -> None:
    if size is not None and size > limit:
        raise Failure(
            "too_large", f"{answer.target} is larger than {limit:,} bytes (max_save_bytes): nothing was saved"
        )
