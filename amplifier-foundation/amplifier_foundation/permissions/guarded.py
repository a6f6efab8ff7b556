"""Files that decide what sessions may do and what they run: nobody writes them without being asked each time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from amplifier_foundation.paths import Home
from amplifier_foundation.permissions.places import policy_files
from amplifier_kit.policy import Facts, Rule
from amplifier_kit.policy.glob import escaped

_WRITE: Final = "filesystem.write"
_READ: Final = "filesystem.read"
_EXEC: Final = "process.exec"

_RULES: Final = (
    "this is where the rules are kept: whatever is written here changes what is asked for and what is denied"
)
_TRUST: Final = "this is where it is kept which projects are trusted"
_RUNS: Final = "what lies here decides what sessions run and with what"

#: Below a project: what names programs, servers and modules that sessions start.
_IN_PROJECT: Final = (
    ".amplifier/settings*.yaml",
    ".amplifier/settings*.yml",
    ".amplifier/mcp.json",
    ".amplifier/hooks/**",
    ".mcp.json",
    ".claude/settings*.json",
    ".claude/hooks/**",
)
#: Below the home, of which nothing has to be trusted first.
_FILES_OF_HOME: Final = ("settings*.yaml", "keys.env", "registry.json", "mcp.json")
#: The records of sessions, too: they hold the answers to calls that wait.
_TREES_OF_HOME: Final = ("agents", "bundles", "cache", "hooks", "locks", "modules", "projects", "routing", "skills")


def guards(home: Home, project: Path, session: Path | None) -> tuple[Rule, ...]:
    """Return rules that ask for writing what decides about sessions of a project; no rule that allows lifts them.

    A folder of the home that the project itself lies in is not among them: the work is done there.
    """
    rules = [_asked(str(path), _RULES) for path in policy_files(home, project, session)]
    # A tool that nobody knows may move or remove a folder as a whole.
    rules += [_asked(str(folder), _RULES) for folder in (home.path, project / ".amplifier")]
    rules.append(_asked(str(home.trust), _TRUST))
    rules += [_asked(str(project), _RUNS, pattern) for pattern in _IN_PROJECT]
    rules += [_asked(str(home.path), _RUNS, pattern) for pattern in _FILES_OF_HOME]
    here = Path(os.path.realpath(project))
    trees = [home.path / name for name in _TREES_OF_HOME]
    rules += [_asked(str(tree), _RUNS, "**") for tree in trees if not here.is_relative_to(os.path.realpath(tree))]
    return tuple(rules)


def as_writing(known: Facts) -> Facts | None:
    """Return the files that an action may write, as writing them; None when it writes none.

    Of an action that nobody knows, every file that it names may be written.
    """
    named = () if known.action in (_READ, _EXEC) else known.paths
    written = tuple(dict.fromkeys([*named, *known.writes]))
    if not written:
        return None
    read = {*known.reads, *known.paths} - set(written)
    return Facts(_WRITE, known.tool, paths=written, spelled=tuple(path for path in known.spelled if path not in read))


def _asked(place: str, reason: str, pattern: str = "") -> Rule:
    return Rule("ask", action=_WRITE, path="/".join(filter(None, (escaped(place), pattern))), reason=reason)
