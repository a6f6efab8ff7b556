"""The tools `grep` and `glob` as the model sees them; a search is imported when it is first called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from amplifier_core.models import ToolResult
from amplifier_module_tool_search.config import SearchConfig

if TYPE_CHECKING:
    from amplifier_module_tool_search.search import Search


class SearchTool(ABC):
    """Run a search and return its result."""

    name: ClassVar[str]
    #: The action that policy rules name.
    action: ClassVar[str] = "filesystem.read"

    def __init__(self, coordinator: Any, settings: SearchConfig) -> None:
        self._coordinator = coordinator
        self._settings = settings

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Search; failures are results. When the call is cancelled, the search stops."""
        from amplifier_module_tool_search.calls import SearchError

        try:
            return ToolResult(
                success=True, output=await self._search().run(input if isinstance(input, Mapping) else {})
            )
        except SearchError as error:
            failure = {"message": str(error), "code": error.code}
        except OSError as error:
            failure = {"message": f"the search cannot be run: {error}", "code": "search_failed"}
        return ToolResult(success=False, output=failure["message"], error=failure)

    @abstractmethod
    def _search(self) -> Search:
        """Return what searches."""


class GrepTool(SearchTool):
    """Find files and lines that match a regular expression."""

    name: ClassVar[str] = "grep"
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "Regular expression to search for."},
            "path": {"type": "string", "description": "File or folder to search; default: the working directory."},
            "output_mode": {
                "type": "string",
                "enum": ["files_with_matches", "content", "count"],
                "description": "What to return; default files_with_matches.",
            },
            "-i": {"type": "boolean", "description": "Ignore case; default false."},
            "-n": {"type": "boolean", "description": "Line numbers, for output_mode content; default true."},
            "-A": {"type": "integer", "minimum": 0, "description": "Lines to show after each match (content)."},
            "-B": {"type": "integer", "minimum": 0, "description": "Lines to show before each match (content)."},
            "-C": {"type": "integer", "minimum": 0, "description": "Lines to show before and after (content)."},
            "glob": {
                "type": "string",
                "description": "Only files that match, like *.py or src/**/*.{ts,tsx}; !*.min.js for all others.",
            },
            "type": {"type": "string", "description": "Only files of a type, like python, rust, js, go, java."},
            "multiline": {
                "type": "boolean",
                "description": "Let a match span lines, and a dot match line breaks; default false.",
            },
            "head_limit": {
                "type": "integer",
                "minimum": 0,
                "description": "Return at most this many entries; 0 for all. Default: 200 files or counts, 500 lines.",
            },
            "offset": {"type": "integer", "minimum": 0, "description": "Skip this many entries; default 0."},
            "include_ignored": {
                "type": "boolean",
                "description": "Also search files that are ignored or left out by default; default false.",
            },
        },
        "required": ["pattern"],
    }

    @property
    def description(self) -> str:
        return (
            "Search the contents of files with a regular expression. By default it returns the files that match; "
            "output_mode content returns the lines, count the number of matching lines of each file. What .gitignore "
            "ignores, and folders like node_modules, .venv or build, are left out unless include_ignored is true; "
            f"files larger than {self._settings.grep.max_file_size:,} bytes always are. "
            "Narrow a search with path, glob or type; page through results with head_limit and offset."
        )

    def _search(self) -> Search:
        from amplifier_module_tool_search.search import GrepSearch

        return GrepSearch(self._coordinator, self._settings)


class GlobTool(SearchTool):
    """Find files whose paths match a pattern."""

    name: ClassVar[str] = "glob"
    description: ClassVar[str] = (
        "Find files by name with a glob pattern, newest first: *.py for the folder itself, **/*.py for everything "
        "below it, src/**/*.{ts,tsx}. What .gitignore ignores, and folders like node_modules, .venv or build, are "
        "left out unless include_ignored is true. Links are neither listed nor followed."
    )
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "Pattern for paths below the folder, like **/*.py."},
            "path": {"type": "string", "description": "Folder to look in; default: the working directory."},
            "type": {"type": "string", "enum": ["file", "dir", "any"], "description": "What to find; default file."},
            "exclude": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Patterns of paths to leave out; one without a slash is for names at any depth.",
            },
            "include_ignored": {
                "type": "boolean",
                "description": "Also find files that are ignored or left out by default; default false.",
            },
        },
        "required": ["pattern"],
    }

    def _search(self) -> Search:
        from amplifier_module_tool_search.search import GlobSearch

        return GlobSearch(self._coordinator, self._settings)
