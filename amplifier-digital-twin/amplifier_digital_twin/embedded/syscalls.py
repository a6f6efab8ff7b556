"""The few calls of the kernel that Python 3.11 has no names for. Standard library only: the scripts import it.

A script that is run as `python -I -S script.py` finds this file by appending the folder that holds the package to
`sys.path` (at its end, so that nothing of the standard library is hidden).
"""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: As `signal` names it, which takes longer to be read than all of this.
SIGKILL = 9

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000
MNT_DETACH = 2

CAP_CHOWN = 0
CAP_DAC_OVERRIDE = 1
CAP_FOWNER = 3
CAP_FSETID = 4
CAP_KILL = 5
CAP_SETGID = 6
CAP_SETUID = 7
CAP_NET_BIND_SERVICE = 10
#: What root of a twin keeps: enough for dpkg, nothing that reaches the kernel, the network or mounts.
ROOT_CAPABILITIES = frozenset({CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_KILL, CAP_SETGID, CAP_SETUID})

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_SECCOMP = 22
_PR_CAPBSET_READ = 23
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_KEYCTL_JOIN_SESSION_KEYRING = 1
#: The same on every architecture.
_CLOSE_RANGE = 436
_LONG = ctypes.c_long
_KEYCTL_NUMBERS = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}

_LIBC = ctypes.CDLL(None, use_errno=True)
# Looked up now: nothing may be searched for once the file system is the twin's.
_SETNS = _LIBC.setns
_UNSHARE = _LIBC.unshare
_MOUNT = _LIBC.mount
_UMOUNT = _LIBC.umount2
_PRCTL = _LIBC.prctl
_CAPSET = _LIBC.capset
_SETFSUID = _LIBC.setfsuid
_SETFSGID = _LIBC.setfsgid
_SYSCALL = _LIBC.syscall
_KEYCTL_NUMBER = _KEYCTL_NUMBERS.get(os.uname().machine)

_MOUNT.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
_PRCTL.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong]
_SYSCALL.restype = ctypes.c_long


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapabilityData(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def setns(descriptor: int, kind: int) -> None:
    """Enter the namespace behind a descriptor; raise OSError."""
    _checked(_SETNS(descriptor, kind), "setns")


def unshare(kinds: int) -> None:
    """Leave namespaces for new ones; raise OSError."""
    _checked(_UNSHARE(kinds), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int = 0, options: str = "") -> None:
    """Mount a file system; raise OSError that names the target."""
    result = _MOUNT(
        os.fsencode(source),
        os.fsencode(target),
        None if kind is None else kind.encode("ascii"),
        flags,
        os.fsencode(options) if options else None,
    )
    _checked(result, f"mount on {target}")


def umount(target: str, flags: int = MNT_DETACH) -> None:
    """Unmount what is mounted at a place; raise OSError that names it."""
    _checked(_UMOUNT(os.fsencode(target), flags), f"umount {target}")


def _prctl(what: str, option: int, second: int = 0, third: int = 0) -> int:
    return _checked(_PRCTL(option, second, third, 0, 0), what)


def set_dumpable(is_dumpable: bool) -> None:
    """Say whether others of the same uid may look into this process; execve resets it to yes."""
    _prctl("PR_SET_DUMPABLE", _PR_SET_DUMPABLE, int(is_dumpable))


def set_no_new_privileges() -> None:
    """Give up gaining rights by execve, for this process and all its children, for good."""
    _prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)


def set_call_filter(steps: bytes) -> None:
    """Have the kernel judge every call of this process and its children by a filter, for good; raise OSError.

    Needs `set_no_new_privileges`. Each step is 8 bytes.
    """
    buffer = ctypes.create_string_buffer(steps, len(steps))
    program = _FilterProgram(len(steps) // 8, ctypes.addressof(buffer))
    _prctl("PR_SET_SECCOMP", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program))


def set_child_subreaper() -> None:
    """Become the parent of every orphan among the descendants, within this pid namespace."""
    _prctl("PR_SET_CHILD_SUBREAPER", _PR_SET_CHILD_SUBREAPER, 1)


def set_parent_death_signal(number: int) -> None:
    """Ask for a signal when the parent dies; a change of user ids or capabilities forgets it."""
    _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, number)


def set_process_name(name: str) -> None:
    """Set the name that process lists show (15 bytes)."""
    buffer = ctypes.create_string_buffer(name.encode("ascii")[:15])
    _prctl("PR_SET_NAME", _PR_SET_NAME, ctypes.addressof(buffer))


def set_file_ids(uid: int, gid: int) -> None:
    """Set the ids that new inodes (pipes too) belong to; raise OSError when they cannot be had."""
    _SETFSGID(gid)
    _SETFSUID(uid)
    # Neither call says whether it worked: asking for an id that is never valid returns the one in force.
    if _SETFSGID(-1) != gid or _SETFSUID(-1) != uid:
        raise OSError(1, f"setfsuid: the ids {uid}:{gid} cannot be had here")


def limit_bounding_set(keep: Iterable[int] = ()) -> None:
    """Drop every capability from the bounding set but those to keep, and all ambient ones; needs CAP_SETPCAP."""
    kept = frozenset(keep)
    for capability in range(64):
        if _PRCTL(_PR_CAPBSET_READ, capability, 0, 0, 0) < 0:
            break  # The kernel knows no capability of this number, nor any above it.
        if capability not in kept:
            _prctl("PR_CAPBSET_DROP", _PR_CAPBSET_DROP, capability)
    _prctl("PR_CAP_AMBIENT_CLEAR_ALL", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)


def set_capabilities(keep: Iterable[int] = ()) -> None:
    """Make exactly these capabilities effective and permitted, and none inheritable; raise OSError."""
    mask = sum(1 << capability for capability in frozenset(keep))
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    data = (_CapabilityData * 2)()
    for index, half in enumerate((mask & 0xFFFFFFFF, mask >> 32)):
        data[index].effective = half
        data[index].permitted = half
        data[index].inheritable = 0
    _checked(_CAPSET(ctypes.byref(header), ctypes.byref(data)), "capset")


def close_from(first: int) -> None:
    """Close every descriptor from this number on; raise OSError (a kernel before 5.9)."""
    _checked(_SYSCALL(_LONG(_CLOSE_RANGE), _LONG(first), _LONG(0xFFFFFFFF), _LONG(0)), "close_range")


def join_new_session_keyring() -> None:
    """Leave the session keyring that was inherited, and the keys in it, for an empty one; raise OSError."""
    if _KEYCTL_NUMBER is None:
        raise OSError(38, f"keyctl: no call number is known for {os.uname().machine}")
    result = _SYSCALL(_LONG(_KEYCTL_NUMBER), _LONG(_KEYCTL_JOIN_SESSION_KEYRING), _LONG(0))
    if result < 0 and ctypes.get_errno() != 38:  # ENOSYS: a kernel without keyrings has none to leak.
        _checked(int(result), "keyctl")


def hide_arguments(start: int, end: int, shown: str) -> None:
    """Overwrite this process's argument strings (`/proc/self/stat` names where they lie), which everyone can read."""
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, shown.encode("ascii"), min(len(shown), end - start - 1))
