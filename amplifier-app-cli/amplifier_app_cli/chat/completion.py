"""Complete slash commands at the beginning of an input, and files of the project behind an `@`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from amplifier_app_cli.chat.project_files import ProjectFiles
from amplifier_app_cli.ui.plain import plain

_MENTION: Final = re.compile(r"(?:^|(?<=[\s(\[\"']))@([A-Za-z0-9_./~-]*)$")
_COMMAND: Final = re.compile(r"/([a-z-]*)$")


def is_completable(text_before_cursor: str) -> bool:
    """Tell whether what is being typed is a command or a mention, so that a menu is of use."""
    return bool(_COMMAND.fullmatch(text_before_cursor) or _MENTION.search(text_before_cursor))


class ChatCompleter(Completer):
    """Offer commands and files."""

    def __init__(self, commands: Callable[[], Mapping[str, str]], files: ProjectFiles) -> None:
        """Offer the names of `commands`, with their summaries, and the files of `files`."""
        self._commands = commands
        self._files = files

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what may be meant by the text before the cursor."""
        text = document.text_before_cursor
        if command := _COMMAND.fullmatch(text):
            for name, summary in self._commands().items():
                if name.startswith(command[1]):
                    yield Completion(f"/{name}", start_position=-len(text), display_meta=plain(summary))
        elif mention := _MENTION.search(text):
            for path in self._files.matching(mention[1]):
                yield Completion(path, start_position=-len(mention[1]), display=plain(path))
