"""Search without ripgrep: a process that lists or searches the files below its folder, and ends.

It reads a request from stdin and writes what ripgrep writes: paths with a NUL behind each, or JSON. It is a process,
because a regular expression may never end and a network share may never answer; a process can be killed. It runs by
itself: of the product it imports nothing, so that it starts fast.
"""

from __future__ import annotations

import base64
import codecs
import fnmatch
import json
import os
import re
import resource
import signal
import stat
import sys
import warnings
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

_MAX_RULES = 1024 * 1024
#: The rules of one folder, last first, with what is cut off the paths that they judge; what begins with a slash is put
#: before them instead.
Level = tuple[str, list[tuple[re.Pattern[str], bool]]]


def main() -> int:
    """Run the request and return the exit code of ripgrep: 0 for done, 2 for failed."""
    asked = json.loads(sys.stdin.buffer.read())
    signal.alarm(int(asked["seconds"]) + 5)  # in case our parent is killed
    if "pattern" not in asked:
        sys.path.append(asked["library"])
        return list_files(asked)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = asked["memory"] if most == resource.RLIM_INFINITY else min(asked["memory"], most)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    except (OSError, ValueError):
        pass  # a system without this
    try:
        return grep(asked)
    except (re.error, RecursionError, OverflowError) as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2


def complain(path: str, error: OSError) -> None:
    """Report a file or folder that cannot be read."""
    text = f"rg: ./{path}: {error.strerror} (os error {error.errno})".replace("\n", " ")
    os.write(2, text.encode("utf-8", "replace") + b"\n")


# --- listing ---


def list_files(asked: dict[str, Any]) -> int:
    """Write the paths of all files, and of folders too if asked, which end with a slash."""
    excluded = re.compile("|".join(map(fnmatch.translate, asked["exclusions"])) or "(?!)").match
    levels = rules_above(os.getcwd()) if asked["ignores"] else []
    pending = [("", levels)]
    while pending:
        folder, levels = pending.pop()
        try:
            names, folders = entries(folder)
        except OSError as error:
            complain(folder or ".", error)
            continue
        if asked["ignores"]:
            inherited = [] if folder and os.path.lexists(f"{folder}.git") else levels
            levels = [*read_rules(folder, folder), *inherited]
        for name in names:
            if not judge(folder + name, levels):
                sys.stdout.buffer.write(os.fsencode(f"./{folder}{name}\0"))
        for name in folders:
            path = f"{folder}{name}/"
            if excluded(name) or path in asked["without"] or judge(path, levels):
                continue
            if asked["folders"]:
                sys.stdout.buffer.write(os.fsencode(f"./{path}\0"))
            pending.append((path, levels))
    return 0


def entries(folder: str) -> tuple[list[str], list[str]]:
    """Return the names of files and of folders in a folder; links and other kinds are in neither."""
    names, folders = [], []
    fd = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with os.scandir(fd) as found:
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    names.append(entry.name)
    finally:
        os.close(fd)
    return names, folders


def read_rules(folder: str, cut: str) -> list[Level]:
    """Return the rules of the .gitignore in a folder, with what is cut off the paths that they judge."""
    from pathspec import GitIgnoreSpec

    try:
        fd = os.open(os.path.join(folder, ".gitignore"), os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        text = os.read(fd, _MAX_RULES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return []
    finally:
        os.close(fd)
    rules: list[tuple[re.Pattern[str], bool]] = []
    for line in text.removeprefix(codecs.BOM_UTF8).decode("latin-1").split("\n"):
        try:
            [rule] = GitIgnoreSpec.from_lines([line.removesuffix("\r")]).patterns
        except ValueError:
            continue  # it has no meaning
        if rule.include is not None and rule.regex is not None:
            # Without what matches everything below: that is judged by itself.
            source = rule.regex.pattern.replace("(?:(?P<ps_d>/)|$)", r"/?\Z").replace("(?P<ps_d>/)", r"/\Z")
            rules.append((re.compile(source + "." * source.endswith("/"), re.DOTALL), rule.include))
    return [(cut, rules[::-1])] if rules else []


def rules_above(top: str) -> list[Level]:
    """Return the rules that count for the top from above, nearest first: those of the repository it is in."""
    levels: list[Level] = []
    folder = top
    while not os.path.lexists(os.path.join(folder, ".git")):
        if folder == os.path.dirname(folder):
            return []
        folder = os.path.dirname(folder)
        levels += read_rules(folder, "/" + os.path.relpath(top, folder) + "/")
    return levels


def judge(path: str, levels: list[Level]) -> bool:
    """Return whether the nearest rule that matches a path ignores it."""
    for cut, rules in levels:
        below = cut[1:] + path if cut.startswith("/") else path[len(cut) :]
        # As bytes: in a rule, ? is one of them.
        below = os.fsencode(below).decode("latin-1")
        for regex, is_ignored in rules:
            if regex.search(below):
                return is_ignored
    return False


# --- searching ---


def grep(asked: dict[str, Any]) -> int:
    """Write the matching lines of the given files, with those around them."""
    flags = re.IGNORECASE if asked["ignore_case"] else re.NOFLAG
    if asked["multiline"]:
        flags |= re.MULTILINE | re.DOTALL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        regex = re.compile(asked["pattern"], flags)
    for path in asked["paths"]:
        try:
            data = read_file(path, asked["max_file_size"])
            for message in search(regex, data, asked) if data else ():
                if message["type"] == "begin":
                    message["data"]["path"] = encode(os.fsencode(f"./{path}"))
                sys.stdout.write(json.dumps(message, separators=(",", ":")) + "\n")
        except OSError as error:
            complain(path, error)
        except MemoryError:
            complain(path, OSError(12, os.strerror(12)))
    return 0


def read_file(path: str, most: int) -> bytes:
    """Return the content of a regular file that is not too large; nothing of any other."""
    if path.startswith("/"):
        # The file that was named, as it was opened: a link to it by its descriptor.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    else:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return b""
        if status.st_size > most:
            log = f"rg: DEBUG|ignore::walk|: ignoring ./{path}: {status.st_size} bytes\n"
            os.write(2, log.encode("utf-8", "replace"))
            return b""
        return file.read()


def search(regex: re.Pattern[str], data: bytes, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages about one file; none when nothing matches."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data.decode("utf-16", "replace").encode("utf-8", "surrogatepass")
    text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    lines = text.removesuffix("\n").split("\n")
    if asked["multiline"]:
        breaks = [match.start() for match in re.finditer("\n", text)]
        found: set[int] = set()
        for match in regex.finditer(text):
            last = max(match.end() - 1, match.start())
            found.update(range(bisect_left(breaks, match.start()), bisect_left(breaks, last) + 1))
        found = {number for number in found if number < len(lines)}
    else:
        found = {number for number, line in enumerate(lines) if regex.search(line.removesuffix("\r"))}
    if not found:
        return
    around = {number for each in found for number in range(each - asked["before"], each + asked["after"] + 1)}
    yield {"type": "begin", "data": {}}
    for number in sorted(around & set(range(len(lines)))):
        line = encode(lines[number].encode("utf-8", "surrogateescape") + b"\n")
        kind = "match" if number in found else "context"
        yield {"type": kind, "data": {"lines": line, "line_number": number + 1}}
    yield {"type": "end", "data": {"binary_offset": data.index(b"\0") if b"\0" in data else None}}


def encode(text: bytes) -> dict[str, str]:
    """Return a text as ripgrep writes it."""
    try:
        return {"text": text.decode("utf-8")}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(text).decode("ascii")}


if __name__ == "__main__":
    sys.exit(main())
