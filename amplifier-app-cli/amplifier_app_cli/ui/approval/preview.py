"""Show what a tool would do: file changes as a diff, everything else as its input; the user's own keys by name."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from amplifier_app_cli.ui.colour import Tone
from amplifier_kit.guard.private_files import read_regular
from amplifier_kit.guard.redaction.known_values import live_values_from_env, live_values_from_keys
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_foundation.paths import Home


#: What a call of a tool of the product does, which can be shown as such: a change of a file, or a shell command.
Change = Literal["write", "edit", "command"]

#: The module whose tools do exactly what a diff shows, and what they do. What the input of another tool means, only
#: that tool knows: a path and a content may be a job to run.
_MODULE: Final = "amplifier_module_tool_filesystem"
_CHANGES: Final[Mapping[str, Change]] = {"write_file": "write", "edit_file": "edit"}
_SHELL_MODULE: Final = "amplifier_module_tool_bash"
#: The action that these tools ask for.
_ACTION: Final = "filesystem.write"
#: Arguments that the diff shows, by change.
_TOLD: Final[Mapping[Change, tuple[str, ...]]] = {
    "write": ("file_path", "content"),
    "edit": ("file_path", "old_string", "new_string", "replace_all"),
}
#: Beyond this a comparison takes longer than a person wants to wait.
_MOST_CHARACTERS: Final = 1_000_000
_MOST_LINES: Final = 10_000


class _Edit(NamedTuple):
    old: str
    new: str
    everywhere: bool


def change_of(tool: Any) -> Change | None:
    """Return what a mounted tool does, None for one that is neither a file tool of the product nor its shell."""
    module = type(tool).__module__.partition(".")[0]
    if module == _SHELL_MODULE:
        return "command"
    return _CHANGES.get(getattr(tool, "name", "")) if module == _MODULE else None


def change_asked_for(action: str, tool_name: Any) -> Change | None:
    """Return what a tool of another session does to files: by what it asks for, since the tool itself is not here."""
    return _CHANGES.get(tool_name) if action == _ACTION and isinstance(tool_name, str) else None


def diff_tone(line: str) -> Tone | None:
    """Return the tone of a line of a preview."""
    if line.startswith("+"):
        return "good"
    if line.startswith("-"):
        return "bad"
    return "note" if line.startswith("@@") else None


def preview(tool_input: Any, folder: Path, change: Change | None = None) -> list[str]:
    """Return the lines to show for a tool's input; those of a diff begin with `+`, `-`, `@` or a blank.

    A shell command is shown as one is typed. Without a `change`, or with an input that a diff cannot show, it is the
    whole input. Other arguments stand before the diff.
    """
    if not isinstance(tool_input, Mapping) or not tool_input:
        return []
    if change == "command":
        return _command(tool_input)
    wanted = _wanted(tool_input, change) if change is not None else None
    if change is None or wanted is None:
        return _written(tool_input)
    rest = {key: value for key, value in tool_input.items() if key not in _TOLD[change]}
    return [*(_written(rest) if rest else ()), *_change(tool_input["file_path"], wanted, folder)]


def _command(tool_input: Mapping[str, Any]) -> list[str]:
    """Return a command behind a `$`, after all other arguments."""
    command = tool_input.get("command")
    if not isinstance(command, str):
        return _written(tool_input)
    rest = {key: value for key, value in tool_input.items() if key != "command"}
    first, *more = command.split("\n")
    return [*(_written(rest) if rest else ()), f"$ {first}", *(f"  {line}" for line in more)]


def _wanted(tool_input: Mapping[str, Any], change: Change) -> str | _Edit | None:
    """Return the new content or the edit that an input asks for, None if a diff cannot show it."""
    given = [tool_input.get(key) for key in _TOLD[change][:3]]
    everywhere = tool_input.get("replace_all", False)
    if not all(isinstance(text, str) for text in given):
        return None
    if change == "write":
        return str(given[1])
    return _Edit(str(given[1]), str(given[2]), everywhere) if isinstance(everywhere, bool) else None


def _written(tool_input: Mapping[str, Any]) -> list[str]:
    return json.dumps(dict(tool_input), ensure_ascii=False, indent=2, default=str).split("\n")


def _change(path: str, wanted: str | _Edit, folder: Path) -> list[str]:
    """Return the diff that a write or an edit amounts to."""
    old, problem = _read(path, folder)
    if problem:
        return [f"{path}: {problem}", *_added(wanted)]
    if isinstance(wanted, str):
        return _diff(path, old, wanted)
    if wanted.old not in (old or ""):
        return [f"{path}: the text to replace is not in the file", *_added(wanted)]
    return _diff(path, old, (old or "").replace(wanted.old, wanted.new, -1 if wanted.everywhere else 1))


def _read(path: str, folder: Path) -> tuple[str | None, str]:
    """Return the text of a file, None if it does not exist, or why it cannot be compared."""
    try:
        file = folder / Path(path).expanduser()
        if not file.exists():
            return None, ""
        if not file.is_file():
            return None, "not a file"
        if file.stat().st_size > _MOST_CHARACTERS:
            return None, f"has {file.stat().st_size:,} bytes, too many to compare"
        content = read_regular(file, _MOST_CHARACTERS)  # which never waits: some files of /proc have no end
    except (OSError, RuntimeError, ValueError) as error:
        return None, f"cannot be read: {error}"
    if b"\0" in content:
        return None, "not a text file"
    try:
        return content.decode("utf-8"), ""
    except UnicodeDecodeError:
        return None, "is not UTF-8, so its bytes would change; what is written"


def _diff(path: str, old: str | None, new: str) -> list[str]:
    import difflib

    before, after = _lines(old or ""), _lines(new)
    if old == new:
        return [f"{path}: nothing would change"]
    if len(before) + len(after) > _MOST_LINES or len(new) > _MOST_CHARACTERS:
        said = f"{path}: {len(before):,} lines now, {len(after):,} then: too many to compare, so all that will be there"
        return [said, *(f"+{line}" for line in after)]
    source = f"a/{path}" if old is not None else "(no such file yet)"
    lines = list(difflib.unified_diff(before, after, source, f"b/{path}", lineterm=""))
    return lines or [f"{path}: only the end of the file would change"]


def _lines(text: str) -> list[str]:
    """Return the lines of a text, at line feeds alone: whatever else ends a line somewhere is shown as what it is."""
    return text.removesuffix("\n").split("\n") if text else []


def _added(wanted: str | _Edit) -> list[str]:
    if isinstance(wanted, str):
        return [f"+{line}" for line in _lines(wanted)]
    return [*(f"-{line}" for line in _lines(wanted.old)), *(f"+{line}" for line in _lines(wanted.new))]


#: A value that is one plain token: nothing in it could be a command, an argument or two words.
_TOKEN: Final = re.compile(r"[A-Za-z0-9_~+/=.:-]{8,}")


class OwnKeys:
    """The values of the user's keys, by name."""

    def __init__(self, environ: Mapping[str, str], keys: Mapping[str, str] | None = None) -> None:
        """Know the variables of an environment that are named like credentials, and the secrets of a key store."""
        names: dict[str, str] = {}
        for source, secrets_in in ((environ, live_values_from_env), (keys or {}, live_values_from_keys)):
            for name, value in source.items():
                token = value.strip()
                if _TOKEN.fullmatch(token) and token in secrets_in({name: value}):
                    names.setdefault(token, name)
        self._names = names
        # The longest first: a value may begin like another one.
        known = sorted(names, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    @classmethod
    def of_user(cls, home: Home) -> OwnKeys:
        """Know the keys of this process and of the user's home; a key store that cannot be read has none."""
        from amplifier_foundation.errors import FoundationError
        from amplifier_foundation.settings.keys import KeyStore

        try:
            return cls(os.environ, KeyStore(home, os.environ).load())
        except FoundationError:
            return cls(os.environ)

    def named(self, text: str) -> str:
        """Return a text with every value replaced by its mark, `[value of GITHUB_TOKEN]`, and nothing else changed."""
        if self._known is None:
            return text
        return self._known.sub(lambda found: f"[value of {self._names[found[0]]}]", text)
