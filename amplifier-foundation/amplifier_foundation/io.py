"""Read and write small files, by the names that published apps import.

Writers replace a file as a whole: a reader finds the old content or the new one. An existing file keeps its mode, a new
one is for its owner alone. Files on shared or synchronised disks
sometimes fail for a moment, so reading and writing are tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from amplifier_foundation.documents import parse_document
from amplifier_foundation.errors import DocumentError
from amplifier_foundation.files import rewrite_file

__all__ = [
    "parse_frontmatter",
    "read_with_retry",
    "read_yaml",
    "write_with_backup",
    "write_with_retry",
    "write_yaml",
]

_T = TypeVar("_T")
#: Problems that another attempt cannot solve.
_FINAL: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


async def read_yaml(path: Path) -> dict[str, Any] | None:
    """Return the mapping in a YAML file, None if there is no such file; raises DocumentError with file and line."""
    try:
        content = await read_with_retry(path)
    except FileNotFoundError:
        return None
    # Front matter is a matter of Markdown files: whatever this one is called, it is YAML as a whole.
    named = path if path.suffix.lower() in (".yaml", ".yml") else path.with_name(f"{path.name}.yaml")
    try:
        return parse_document(named, content.encode("utf-8")).data
    except DocumentError as error:
        raise DocumentError(str(error).replace(str(named), str(path), 1)) from error


async def write_yaml(path: Path, data: dict[str, Any]) -> None:
    """Write a mapping as YAML, keys in their order; raises OSError."""
    import yaml

    await write_with_retry(path, yaml.safe_dump(data, sort_keys=False, allow_unicode=True, default_flow_style=False))


def parse_frontmatter(text: str) -> tuple[dict[str, Any], str]:
    """Return the mapping between the `---` lines at the start of a Markdown text, and the text after them.

    A text without them has an empty mapping. Raises DocumentError for YAML that is malformed or no mapping.
    """
    document = parse_document(Path("text.md"), text.encode("utf-8", "surrogatepass"))
    return document.data, document.body


async def read_with_retry(path: Path, max_retries: int = 3, initial_delay: float = 0.1) -> str:
    """Return the text of a UTF-8 file, without a byte order mark; raises OSError and UnicodeDecodeError."""
    return await _with_retry(lambda: Path(path).read_text(encoding="utf-8-sig"), max_retries, initial_delay)


async def write_with_retry(path: Path, content: str, max_retries: int = 3, initial_delay: float = 0.1) -> None:
    """Replace a file by this text, making the folders above it; raises OSError."""
    await _with_retry(lambda: _replace(Path(path), content.encode("utf-8")), max_retries, initial_delay)


def write_with_backup(
    path: Path,
    content: str | bytes,
    *,
    backup_suffix: str = ".backup",
    mode: Literal["w", "wb"] = "w",
    encoding: str = "utf-8",
) -> None:
    """Replace a file and keep the one before beside it, under its name with `backup_suffix`; raises OSError.

    With mode "wb" the content is bytes. Raises TypeError for content of the other kind.
    """
    if isinstance(content, bytes) != (mode == "wb"):
        raise TypeError(f"mode {mode!r} takes {'bytes' if mode == 'wb' else 'text'}, got {type(content).__name__}")
    path = Path(path)
    if path.exists():
        _replace(path.with_name(path.name + backup_suffix), path.read_bytes())
    _replace(path, content if isinstance(content, bytes) else content.encode(encoding))


async def _with_retry(work: Callable[[], _T], max_retries: int, initial_delay: float) -> _T:
    delay = initial_delay
    for _ in range(max(max_retries, 1) - 1):
        try:
            return await asyncio.to_thread(work)
        except _FINAL:
            raise
        except OSError:
            await asyncio.sleep(delay)
            delay *= 2
    return await asyncio.to_thread(work)


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rewrite_file(path, content)
