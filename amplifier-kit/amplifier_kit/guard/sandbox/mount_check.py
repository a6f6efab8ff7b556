"""Verify the mounts as the first program in the sandbox, and only then become the command: a standalone program.

Between the moment when the mounts are planned and the moment when bubblewrap makes them, a command that still runs can
replace a folder by a link; once the mounts are made, it cannot change them. This imports nothing else of the kit, so
that it starts quickly.

Arguments: for each mount in a writable folder a sign with its path, then `--` and the command, or `---` and a Python
script with its arguments, which runs in this process. The signs: `=` must be that folder or file itself, bind-mounted
on itself; `^` is a mount whose content is as outside; `+` is any mount. `$NAME=VALUE` is a variable that only the
command gets, as it makes programs load libraries.
"""

from __future__ import annotations

import os
import signal
import sys

# Type checkers treat this as typing.TYPE_CHECKING; importing typing would take longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_MOUNT_TABLE: Final = "/proc/self/mountinfo"
_DELETED: Final = b"//deleted"
#: The exit code of a program that could not be started.
_FAILED: Final = 126


def problem(wanted: list[bytes], table: bytes) -> bytes:
    """Return the first path that is not mounted as wanted according to the kernel's mount table, else nothing."""
    mounts: dict[bytes, tuple[bytes, bytes, bytes, bytes]] = {}
    at: dict[bytes, bytes] = {}
    for line in table.splitlines():
        number, parent, device, root, path = line.split(b" ", 5)[:5]
        path = _unescape(path)
        mounts[number] = (parent, device, _unescape(root).removesuffix(_DELETED), path)
        at[path] = number  # the last of several mounts at one path is on top
    other = {each[1:] for each in wanted if each.startswith(b"+")}
    for each in wanted:
        sign, path = each[:1], each[1:]
        if path not in at:
            return path
        if sign != b"=":
            continue
        parent, device, root, _ = mounts[at[path]]
        while parent in mounts and mounts[parent][3] in other:
            parent = mounts[parent][0]
        if parent not in mounts:
            return path
        _, device_above, root_above, path_above = mounts[parent]
        below = path[len(path_above.rstrip(b"/")) :]
        if device != device_above or root != root_above.rstrip(b"/") + below:
            return path
    return b""


def mount_points() -> set[str]:
    """Return the mount points of this process; empty on systems without a mount table."""
    try:
        with open(_MOUNT_TABLE, "rb") as file:
            return {os.fsdecode(_unescape(line.split(b" ", 5)[4])) for line in file}
    except OSError:
        return set()


def _unescape(text: bytes) -> bytes:
    """Return a path of the mount table, where spaces, line ends and backslashes are octal escapes."""
    first, *rest = text.split(b"\\")
    return first + b"".join(bytes((int(part[:3], 8),)) + part[3:] for part in rest)


def main(arguments: list[str]) -> None:
    """Verify the mounts and become the command; the arguments are described above."""
    end = next(number for number, each in enumerate(arguments) if each in ("--", "---"))
    given = [os.fsencode(each) for each in arguments[:end]]
    variables = dict(each[1:].split(b"=", 1) for each in given if each.startswith(b"$"))
    with open(_MOUNT_TABLE, "rb") as file:
        replaced = problem([each for each in given if not each.startswith(b"$")], file.read())
    if replaced:
        _fail(f"{os.fsdecode(replaced)!r} was replaced while it was mounted; nothing was run")
    command = arguments[end + 1 :]
    if arguments[end] == "---":
        with open(command[0], "rb") as file:
            code = compile(file.read(), command[0], "exec")
        sys.argv = command
        os.environb.update(variables)
        exec(code, {"__name__": "__main__"})
        return
    # Restore what Python has changed: the environment as it was given, and the signals it ignores.
    with open("/proc/self/environ", "rb") as file:
        pairs = [pair.partition(b"=") for pair in file.read().split(b"\0") if b"=" in pair]
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, {name: value for name, _, value in pairs} | variables)
    except OSError as error:
        _fail(f"{command[0]}: {error.strerror}")


def _fail(message: str) -> None:
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()
    os._exit(_FAILED)


if __name__ == "__main__":
    main(sys.argv[1:])
