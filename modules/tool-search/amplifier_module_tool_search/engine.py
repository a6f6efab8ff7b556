"""Build the command for a search: ripgrep, or our own process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from typing import IO, Any, Final

from amplifier_module_tool_search.calls import GlobCall, GrepCall
from amplifier_module_tool_search.child import Command
from amplifier_module_tool_search.config import GlobConfig, GrepConfig
from amplifier_module_tool_search.errors import SearchError
from amplifier_module_tool_search.globs import Glob, expand_braces, name_regex
from amplifier_module_tool_search.hidden import Hidden
from amplifier_module_tool_search.place import Place
from amplifier_module_tool_search.ripgrep import excluding, selecting, typed

_LAUNCH: Final = os.path.join(os.path.dirname(__file__), "launch.py")
#: The most memory of our own process: Python's regular expressions store every place to backtrack to.
MOST_MEMORY: Final = 2 * 1024**3
#: Folders that a search of the root folder leaves out.
_SYSTEM: Final = ("proc", "sys", "dev")


@contextmanager
def grep_command(
    call: GrepCall, place: Place, settings: GrepConfig, ripgrep: str | None, hidden: Hidden | None = None
) -> Iterator[Command]:
    """Yield the command for one grep; its files are open while the block runs.

    ripgrep gets options that leave out hidden paths.
    """
    with ExitStack() as stack:
        if ripgrep is None:
            yield _own_grep(stack, call, place, settings, hidden)
            return
        options = _grep_options(call, place)
        if not place.is_folder:
            yield Command([ripgrep, *options, "-e", call.pattern, "-"], "/", stack.enter_context(_opened(place)))
            return
        selected, fds = _selected(stack, call, place, settings, hidden)
        # Files that are too large are not reported: only the log has them, and writing it takes longer than a search.
        options += [*selected, _size_limit(settings), "--stats"]
        yield Command([ripgrep, *options, "-e", call.pattern, "./"], place.entrance, fds=fds)


@contextmanager
def listing_command(
    call: GrepCall, place: Place, settings: GrepConfig, ripgrep: str, hidden: Hidden | None
) -> Iterator[Command]:
    """Yield the command that lists the files of a grep, those that are too large among them."""
    with ExitStack() as stack:
        options, fds = _selected(stack, call, place, settings, hidden)
        yield Command([ripgrep, "--no-config", "--files", "--null", *options, "./"], place.entrance, fds=fds)


@contextmanager
def large_command(
    call: GrepCall, place: Place, settings: GrepConfig, hidden: Hidden | None = None
) -> Iterator[Command]:
    """Give the command that names the files which a grep passes over because they are too large."""
    with ExitStack() as stack:
        yield _own_grep(stack, call, place, settings, hidden, "large")


@contextmanager
def hidden_command(call: GrepCall, place: Place, settings: GrepConfig, hidden: Hidden) -> Iterator[Command]:
    """Yield the command that walks as a grep does, and finds hidden paths only."""
    with ExitStack() as stack:
        yield _own_grep(stack, call, place, settings, hidden, "hidden")


@contextmanager
def glob_command(
    call: GlobCall, place: Place, settings: GlobConfig, ripgrep: str | None, hidden: Hidden | None = None
) -> Iterator[Command]:
    """Give the command for one glob, of our own process: it sorts, and lets ripgrep list when there are only files.

    Where something may be hidden it walks by itself, since it has to ask on the way.
    """
    with ExitStack() as stack:
        argv: list[str] = []
        fds: tuple[int, ...] = ()
        if ripgrep is not None and call.kind == "file" and hidden is None:
            fds = _folder_rules(stack, call.glob)
            # Not as --glob, which lifts the rules of .gitignore.
            argv = [ripgrep, "--files", "--null", *typed(call.glob.names)]
            exclusions = _expanded(settings.exclusions)
            argv += selecting(exclusions, call.include_ignored, place.is_in_repository, fds, place.path == "/")
        asked = {
            "mode": "glob",
            "seconds": settings.timeout,
            "selection": _selection(settings.exclusions, call.include_ignored, call.glob.folders, place),
            "paths": call.glob.regex,
            "excluded": "|".join(glob.regex for glob in call.excluded),
            "type": call.kind,
            "limit": call.limit,
        }
        yield _own(stack, asked, place.entrance, fds, hidden, argv)


def _grep_options(call: GrepCall, place: Place) -> list[str]:
    options = ["--no-config", "--no-mmap", "--engine=auto"]
    options += ["--multiline", "--multiline-dotall"] if call.multiline else ["--crlf"]
    if call.ignore_case:
        options.append("--ignore-case")
    else:
        options.append("--case-sensitive")
    options += ["--null", "--with-filename"]
    if not returns_lines(call, place):
        return [*options, "--count" if call.mode == "count" else "--files-with-matches"]
    options += ["--heading", "--line-number", "--no-context-separator"]
    if call.mode == "content":
        options += [f"--before-context={call.before}", f"--after-context={call.after}"]
    return options


def _selected(
    stack: ExitStack, call: GrepCall, place: Place, settings: GrepConfig, hidden: Hidden | None
) -> tuple[list[str], tuple[int, ...]]:
    """Return options that select the files of a folder, as far as ripgrep can, and the descriptors for them."""
    fds: tuple[int, ...] = ()
    names = call.names
    if call.glob is not None and not call.is_glob_negated:
        fds = _folder_rules(stack, call.glob)
        names = names or call.glob.names
    exclusions = _expanded(settings.exclusions)
    options = selecting(exclusions, call.include_ignored, place.is_in_repository, fds, place.path == "/")
    return [*options, *typed(names), *([] if hidden is None else excluding(hidden.met))], fds


def _size_limit(settings: GrepConfig) -> str:
    return f"--max-filesize={settings.max_file_size}"


def returns_lines(call: GrepCall, place: Place) -> bool:
    """Return whether the output must have lines: when requested, and where nothing else gives the counts."""
    return call.mode == "content" or not place.is_folder or (call.mode == "count" and call.multiline)


def _own_grep(
    stack: ExitStack,
    call: GrepCall,
    place: Place,
    settings: GrepConfig,
    hidden: Hidden | None,
    mode: str | None = None,
) -> Command:
    mode = mode or ("content" if returns_lines(call, place) else call.mode)
    file = None if place.is_folder else stack.enter_context(_opened(place))
    folders = None if call.glob is None or call.is_glob_negated else call.glob.folders
    asked = {
        "mode": mode,
        "seconds": settings.timeout,
        "selection": _selection(settings.exclusions, call.include_ignored, folders, place),
        "pattern": call.pattern if mode not in ("hidden", "large") else "",
        "ignore_case": call.ignore_case,
        "multiline": call.multiline,
        "before": call.before if call.mode == "content" else 0,
        "after": call.after if call.mode == "content" else 0,
        "memory": MOST_MEMORY,
        "max_file_size": settings.max_file_size,
        "names": "|".join(name_regex(name) for name in call.names),
        "paths": _paths(call),
        "file": None if file is None else file.fileno(),
    }
    fds = () if file is None else (file.fileno(),)
    return _own(stack, asked, place.entrance if place.is_folder else "/", fds, hidden)


def _paths(call: GrepCall) -> str | None:
    if call.glob is None:
        return None
    return rf"(?!(?:{call.glob.regex})\Z).*" if call.is_glob_negated else call.glob.regex


def _own(
    stack: ExitStack,
    asked: dict[str, Any],
    cwd: str,
    fds: tuple[int, ...],
    hidden: Hidden | None,
    started: Sequence[str] = (),
) -> Command:
    if not sys.executable:
        raise SearchError("no_engine", "neither ripgrep nor a Python program can be started here: install ripgrep")
    options = ["-I", "-S", "-X", "utf8", *(["-B"] if sys.dont_write_bytecode else [])]
    argv = [sys.executable, *options, _LAUNCH, *_library_folders(), "--", *started]
    questions = None if hidden is None else stack.enter_context(hidden.answering())
    fds = fds if questions is None else (*fds, questions)
    words = json.dumps({**asked, "questions": questions}).encode()
    return Command(argv, cwd, stack.enter_context(_memory(words)), fds)


def _library_folders() -> list[str]:
    """Return where our package and the library it needs are installed."""
    packages = [__name__.partition(".")[0], "pathspec"]
    origins = [spec.origin for name in packages if (spec := find_spec(name)) is not None]
    return list(dict.fromkeys(os.path.dirname(os.path.dirname(origin)) for origin in origins if origin))


def _selection(exclusions: Sequence[str], include_ignored: bool, folders: str | None, place: Place) -> dict[str, Any]:
    return {
        "exclusions": None if include_ignored else "|".join(name_regex(name) for name in exclusions) or None,
        "folders": folders,
        "is_ignoring": not include_ignored,
        "without": _SYSTEM if place.path == "/" else (),
    }


def _expanded(names: Sequence[str]) -> list[str]:
    return [one for name in names for one in expand_braces(name)]


def _folder_rules(stack: ExitStack, glob: Glob) -> tuple[int, ...]:
    """Return a file of rules that keep ripgrep out of folders without matches, open while the stack is."""
    if glob.folder_rules is None:
        return ()
    lines = ["*/", *(f"!{rule}" for rule in glob.folder_rules), ""]
    return (stack.enter_context(_memory("\n".join(lines).encode())).fileno(),)


def _memory(data: bytes) -> IO[bytes]:
    """Return a file without a name, with this in it."""
    from tempfile import TemporaryFile

    has_memory = hasattr(os, "memfd_create")
    file: IO[bytes] = os.fdopen(os.memfd_create("search"), "w+b") if has_memory else TemporaryFile()  # noqa: SIM115
    file.write(data)
    file.flush()
    file.seek(0)
    return file


@contextmanager
def _opened(place: Place) -> Iterator[IO[bytes]]:
    """Open the file of a place for reading."""
    try:
        fd = os.open(place.entrance, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise SearchError("not_readable", f"cannot read {place.shown('')}: {error.strerror}") from None
    with closing(open(fd, "rb", buffering=0)) as file:
        yield file
