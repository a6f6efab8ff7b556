"""Set the stage for a program: namespaces, an id map, mounts below `/tmp`; then become that program.

Run as a script of its own (`python -I -S stage.py TOLD PLAN PARENT`), because namespaces belong to a process: the one
that plans must not enter them. It may be started before there is a plan: it waits until a byte can be read from the
descriptor TOLD, and ends when that is closed instead. Then the plan can be read from the descriptor PLAN, as `marshal`
writes it. PARENT is the number of the process that starts this one. Standard library only, and as little of it as can
be: universes are started with this, and most of what it takes would be reading other modules. The plan:

- `map`: null, or `{"kind": "range" | "subordinate" | "single", "uids": [[inside, outside, count], …], "gids": …}`;
  without a map only root can have mounts, and without any the program sees what its starter does
- `binds`: `[path, name]`: a file or folder of the host that appears as `/tmp/<name>`
- `overlay`: null, or `{"lower": [path, …], "upper": path, "work": path, "options": text}`: appears as `/tmp/root`
- `control_groups`: folders of control groups to join
- `forbid_user_namespaces`: whether none can be made from here on
- `argv` and `environment`: the program, by its absolute path

Whatever fails is said on stderr and ends the process with code 97; nothing is left behind, because the mounts are this
process's own. With the process that started it, it ends too.
"""

from __future__ import annotations

import marshal
import os
import sys

# Appended, so that nothing of the standard library is hidden by what lies beside the package.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))

from amplifier_digital_twin.embedded import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Final

FAILED: Final = 97
_PLACE: Final = "/tmp"
_PLAIN: Final = syscalls.MS_NOSUID | syscalls.MS_NODEV


def _die_with_parent(parent: int) -> None:
    """End with the process that started this one, also when it has ended already."""
    syscalls.set_parent_death_signal(syscalls.SIGKILL)
    if os.getppid() != parent:
        os._exit(FAILED)


def _write(path: str, text: str) -> None:
    # By hand: a codec may have to be loaded, from where the ids of the map have no way to.
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    except OSError as error:
        raise OSError(f"write {path}: {error}") from None
    finally:
        os.close(descriptor)


def _lines(entries: Sequence[Sequence[int]]) -> str:
    return "".join(f"{inside} {outside} {count}\n" for inside, outside, count in entries)


def _map_from_outside(plan: dict[str, Any]) -> Callable[[], None]:
    """Fork a process that stays outside; return the function that lets it write the id map of this one."""
    reader, writer = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(writer)
        code = 1
        try:
            if os.read(reader, 1):
                _write_maps(parent, plan)
                code = 0
        except BaseException as error:
            sys.stderr.write(f"write the id map: {error}\n")
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.close(reader)

    def finish() -> None:
        os.write(writer, b"!")
        os.close(writer)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
            raise OSError("the id map could not be written")

    return finish


def _write_maps(pid: int, plan: dict[str, Any]) -> None:
    import subprocess

    for program, name in (("newuidmap", "uids"), ("newgidmap", "gids")):
        entries: list[list[int]] = plan[name]
        if plan["kind"] == "range":
            _write(f"/proc/{pid}/{name[:3]}_map", _lines(entries))
        else:
            numbers = [str(number) for entry in entries for number in entry]
            subprocess.run([plan[program], str(pid), *numbers], check=True, stdin=subprocess.DEVNULL)


def _become_mapped(plan: dict[str, Any], flags: int) -> None:
    """Unshare the user namespace, with what else is to belong to it, and be user 0 in it."""
    if plan["kind"] == "single":
        syscalls.unshare(flags | syscalls.CLONE_NEWUSER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/gid_map", _lines(plan["gids"]))
        _write("/proc/self/uid_map", _lines(plan["uids"]))
        return
    finish = _map_from_outside(plan)
    syscalls.unshare(flags | syscalls.CLONE_NEWUSER)
    finish()
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def _mount_all(plan: dict[str, Any]) -> None:
    """Mount what the plan names below a file system in memory."""
    syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    # Opened before anything covers them, and in this namespace: the kernel mounts nothing that lies in another.
    opened = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in _paths(plan)}
    if not opened:
        return
    syscalls.mount("tmpfs", _PLACE, "tmpfs", _PLAIN, "mode=0755,size=1m")

    def at(path: str) -> str:
        return f"/proc/self/fd/{opened[path]}"

    for path, name in plan["binds"]:
        target = f"{_PLACE}/{name}"
        if os.path.isdir(at(path)):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
        syscalls.mount(at(path), target, None, syscalls.MS_BIND | syscalls.MS_REC)
    if overlay := plan["overlay"]:
        os.mkdir(f"{_PLACE}/root")
        lower = ":".join(at(path) for path in overlay["lower"])
        options = f"lowerdir={lower},upperdir={at(overlay['upper'])},workdir={at(overlay['work'])},{overlay['options']}"
        syscalls.mount("overlay", f"{_PLACE}/root", "overlay", _PLAIN, options)


def _paths(plan: dict[str, Any]) -> list[str]:
    overlay = plan["overlay"]
    paths = [path for path, _ in plan["binds"]]
    return paths if not overlay else [*paths, *overlay["lower"], overlay["upper"], overlay["work"]]


def _perform(plan: dict[str, Any], parent: int) -> None:
    for folder in plan["control_groups"]:
        _write(f"{folder}/cgroup.procs", str(os.getpid()))
    # Opened now: the ids of the map may have no way to where it lies.
    program = os.open(plan["argv"][0], os.O_PATH | os.O_CLOEXEC)
    ids = plan["map"]
    if ids is None:
        if _paths(plan):
            syscalls.unshare(syscalls.CLONE_NEWNS)
            _mount_all(plan)
    elif ids["kind"] == "range":
        # As root: only root of the host can mount an overlay whose layers keep their marks in trusted attributes.
        syscalls.unshare(syscalls.CLONE_NEWNS)
        _mount_all(plan)
        _become_mapped(ids, 0)
    else:
        _become_mapped(ids, syscalls.CLONE_NEWNS)
        _mount_all(plan)
    if plan["forbid_user_namespaces"]:
        _write("/proc/sys/user/max_user_namespaces", "0")
    # The change of user has made the kernel forget it.
    _die_with_parent(parent)
    os.chdir("/")
    os.umask(0o022)
    os.execve(program, plan["argv"], plan["environment"])


def _await_plan(told: int, descriptor: int) -> dict[str, Any]:
    """Return the plan when it is there; end this process when it is not wanted any more."""
    if not os.read(told, 1):
        os._exit(FAILED)
    os.close(told)
    # It was written by another process, whose place in the file is this one's as well.
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb") as file:
        plan: dict[str, Any] = marshal.load(file)
    return plan


def main() -> None:
    """Wait for the plan and perform it; return only by becoming another program."""
    told, plan, parent = map(int, sys.argv[1:])
    try:
        _die_with_parent(parent)
        _perform(_await_plan(told, plan), parent)
    except BaseException as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(FAILED)


if __name__ == "__main__":
    main()
