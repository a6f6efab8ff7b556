"""Look, as the first program inside, whether what was to be mounted is mounted, and become the command only then.

A program of its own. Between the moment at which the view is laid out and that at which bubblewrap mounts it, a command
that still runs can put a link in the place of a folder; what is mounted, it cannot change any more. It imports nothing
of ours, so that it starts quickly.

Arguments: for each place at or below a writable folder a sign and the path, then `--` and the command; with `---`
instead, the command is a program in Python with its arguments, which is run in this process. The signs:
`=` is the folder or file itself, mounted on itself; `^` is a mount from which on places lie as they do outside; `+` is
any mount. A `$` stands before a variable that only the command gets, as it makes programs load libraries.
"""

from __future__ import annotations

import os
import signal
import sys

# Type checkers take this for typing's; typing itself would take longer to import than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_TABLE: Final = "/proc/self/mountinfo"
_DELETED: Final = b"//deleted"
#: As what a program ends that could not be started.
_FAILED: Final = 126


def problem(wanted: list[bytes], table: bytes) -> bytes:
    """Return the first place that is not mounted as it was to be, by the kernel's table; empty when there is none."""
    mounts: dict[bytes, tuple[bytes, bytes, bytes, bytes]] = {}
    at: dict[bytes, bytes] = {}
    for line in table.splitlines():
        number, parent, device, root, place = line.split(b" ", 5)[:5]
        place = _unescaped(place)
        mounts[number] = (parent, device, _unescaped(root).removesuffix(_DELETED), place)
        at[place] = number  # of several at one place the last is on top
    other = {each[1:] for each in wanted if each.startswith(b"+")}
    for each in wanted:
        sign, place = each[:1], each[1:]
        if place not in at:
            return place
        if sign != b"=":
            continue
        parent, device, root, _ = mounts[at[place]]
        while parent in mounts and mounts[parent][3] in other:
            parent = mounts[parent][0]
        if parent not in mounts:
            return place
        _, device_above, root_above, place_above = mounts[parent]
        below = place[len(place_above.rstrip(b"/")) :]
        if device != device_above or root != root_above.rstrip(b"/") + below:
            return place
    return b""


def mount_points() -> set[str]:
    """Return where something is mounted for this process; nothing where the system has no table."""
    try:
        with open(_TABLE, "rb") as file:
            return {os.fsdecode(_unescaped(line.split(b" ", 5)[4])) for line in file}
    except OSError:
        return set()


def _unescaped(text: bytes) -> bytes:
    """Return a path of the table: blanks, line ends and backslashes are octal numbers there."""
    first, *rest = text.split(b"\\")
    return first + b"".join(bytes((int(part[:3], 8),)) + part[3:] for part in rest)


def main(arguments: list[str]) -> None:
    """Check, and become the command; the arguments are described above."""
    end = next(number for number, each in enumerate(arguments) if each in ("--", "---"))
    given = [os.fsencode(each) for each in arguments[:end]]
    variables = dict(each[1:].split(b"=", 1) for each in given if each.startswith(b"$"))
    with open(_TABLE, "rb") as file:
        found = problem([each for each in given if not each.startswith(b"$")], file.read())
    command = arguments[end + 1 :]
    if found:
        sys.stderr.write(f"{os.fsdecode(found)!r} was replaced while it was mounted; nothing was run\n")
        sys.stderr.flush()
        os._exit(_FAILED)
    if arguments[end] == "---":
        with open(command[0], "rb") as file:
            code = compile(file.read(), command[0], "exec")
        sys.argv = command
        os.environb.update(variables)
        exec(code, {"__name__": "__main__"})
        return
    # As it was given: Python itself changes the one and ignores some of the others.
    with open("/proc/self/environ", "rb") as file:
        pairs = [pair.partition(b"=") for pair in file.read().split(b"\0") if b"=" in pair]
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, {name: value for name, _, value in pairs} | variables)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(_FAILED)


if __name__ == "__main__":
    main(sys.argv[1:])
