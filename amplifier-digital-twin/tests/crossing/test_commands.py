"""Commands in a twin: what they get, what comes back, and what they cannot have."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from amplifier_digital_twin.backends.twin import MAX_OUTPUT, Finished, Run
from amplifier_digital_twin.embedded.entry import Entry
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import User

Shell = Callable[..., Awaitable[Finished]]


async def test_gets_exactly_the_environment_given(entry: Entry, user: User) -> None:
    """The environment is what was given, odd bytes and new lines included, and nothing of the host's."""
    environment = {"A": "1", "Ü": "a\nb\udcff", "EMPTY": ""}
    done = await entry.run(Run(["/usr/bin/env", "-0"], environment, user))
    assert set(done.stdout.split(b"\0")) == {b"A=1", "Ü=a\nb".encode() + b"\xff", b"EMPTY=", b""}


async def test_gives_back_streams_and_exit_code(entry: Entry, user: User) -> None:
    """Standard input, both streams, the folder and the exit code are the command's own."""
    run = Run(["/bin/sh", "-c", "cat; pwd >&2; exit 3"], {}, user, cwd="/home/user", stdin=b"in\0put")
    done = await entry.run(run)
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"in\0put", b"/home/user\n")
    assert (done.is_timed_out, done.is_cut) == (False, False)


async def test_large_requests_fit(entry: Entry, user: User) -> None:
    """A large environment and a large input arrive whole."""
    run = Run(
        ["/bin/sh", "-c", 'printf %s "$BIG" | wc -c; wc -c'], {"BIG": "x" * 100_000}, user, stdin=b"y" * 5_000_000
    )
    done = await entry.run(run)
    assert done.stdout.split() == [b"100000", b"5000000"], done


async def test_signal_is_an_exit_code(shell: Shell) -> None:
    """A command that a signal ended returns what a shell would say."""
    assert (await shell("kill -TERM $$")).exit_code == 143


async def test_user_has_no_rights(shell: Shell) -> None:
    """The profile's user has no capability in any set, cannot gain one, and is in no group."""
    done = await shell("id -u; id -g; grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups)' /proc/self/status")
    lines = done.stdout.decode().split("\n")
    assert lines[:2] == ["1000", "1000"]
    facts = dict(line.split(":\t", 1) for line in lines[2:] if line)
    assert {facts[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert facts["NoNewPrivs"] == "1"
    if os.geteuid() == 0:
        assert facts["Groups"].strip() == ""


async def test_root_keeps_what_packages_need(mapped_walls: object, tmp_path: Path) -> None:
    """Root of a twin keeps a short list of capabilities, none over mounts or networks, and none when not asked for."""
    entry = Entry(mapped_walls.pid)  # type: ignore[attr-defined]
    command = ["/bin/grep", "-E", "^Cap(Eff|Bnd)", "/proc/self/status"]
    kept = await entry.run(Run(command, {}, User("root", 0)))
    bare = await entry.run(Run(command, {}, User("root", 0)), keep_root_capabilities=False)
    can = [
        "/bin/sh",
        "-c",
        "touch /tmp/x && chown 1000:1000 /tmp/x && setpriv --reuid 1000 --clear-groups id -u; mount -t tmpfs x /tmp",
    ]
    done = await entry.run(Run(can, {"PATH": "/usr/bin:/usr/sbin:/bin"}, User("root", 0)))
    await entry.close()
    assert {line.split()[1] for line in kept.stdout.splitlines()} == {b"00000000000000fb"}
    assert {line.split()[1] for line in bare.stdout.splitlines()} == {b"0" * 16}
    assert done.stdout == b"1000\n"
    assert done.exit_code != 0


async def test_nothing_of_the_host_is_open(shell: Shell) -> None:
    """A command has its three streams and no other descriptor, and its folder and root are the twin's."""
    done = await shell("ls /proc/self/fd; readlink /proc/self/cwd /proc/self/root; cat /proc/self/cgroup >/dev/null")
    # The fourth is the folder that ls itself reads.
    assert done.stdout.split() == [b"0", b"1", b"2", b"3", b"/", b"/"], done


async def test_streams_can_be_opened_again(shell: Shell) -> None:
    """/dev/stdout and /dev/stderr work although the pipes came from outside."""
    done = await shell("echo out > /dev/stdout; echo err > /dev/stderr; cat < /dev/stdin")
    assert (done.stdout, done.stderr, done.exit_code) == (b"out\n", b"err\n", 0)


async def test_signals_are_as_new(shell: Shell) -> None:
    """No signal is ignored or blocked: a pipe whose reader ends stops its writer."""
    done = await shell("grep -E '^Sig(Ign|Blk)' /proc/self/status; umask")
    blocked, ignored, mask = [line.split()[-1] for line in done.stdout.splitlines()]
    # 32 and 33 belong to the C library, which sets them itself before it uses them and lets nobody else do it;
    # whoever started these tests may have left them ignored.
    of_libc = 1 << 31 | 1 << 32
    assert (int(blocked, 16), int(ignored, 16) & ~of_libc, mask) == (0, 0, b"0022")


async def test_keyring_is_not_the_hosts(shell: Shell) -> None:
    """The session's keys stay outside: the keyring of a command is new and empty."""
    script = (
        "import ctypes; c = ctypes.CDLL(None); n = {'x86_64': 250, 'aarch64': 219}[__import__('os').uname().machine];"
        "b = ctypes.create_string_buffer(4096); print(c.syscall(n, 11, -3, b, 4096))"
    )
    done = await shell(f'/usr/bin/python3 -c "{script}"')
    assert int(done.stdout) <= 0, done


async def test_flood_is_cut_and_never_blocks(entry: Entry, user: User) -> None:
    """What exceeds the limit is thrown away, said so, still told to the sink, and the command ends by itself."""
    heard = 0

    def sink(stream: str, data: bytes) -> None:
        nonlocal heard
        heard += len(data)

    amount = 3 * MAX_OUTPUT
    done = await entry.run(Run(["/bin/sh", "-c", f"yes | head -c {amount}; echo end >&2"], {}, user), sink)
    assert (len(done.stdout), done.stderr, done.is_cut, done.exit_code) == (MAX_OUTPUT, b"end\n", True, 0)
    assert heard == amount + 4


async def test_failing_sink_ends_the_command(entry: Entry, shell: Shell, user: User) -> None:
    """An error of the sink is the caller's to see, and the command does not go on without him."""

    def sink(stream: str, data: bytes) -> None:
        raise ZeroDivisionError("sink")

    with pytest.raises(ZeroDivisionError, match="sink"):
        await entry.run(Run(["/bin/sh", "-c", "echo x; sleep 1111"], {"PATH": "/usr/bin:/bin"}, user), sink)
    assert b"1111" not in (await shell("cat /proc/*/cmdline")).stdout


@pytest.mark.parametrize(("word", "code"), [("nosuch", 127), ("/no/such", 127), ("/usr", 126), ("/proc/version", 126)])
async def test_command_that_cannot_run(entry: Entry, user: User, word: str, code: int) -> None:
    """What is not found returns 127, what cannot be executed 126, and the stream says why."""
    done = await entry.run(Run([word], {"PATH": "/usr/bin:/bin"}, user))
    assert done.exit_code == code
    assert done.stderr.startswith(word.encode() + b": ")


@pytest.mark.parametrize(
    ("run", "code"),
    [
        (Run(["/bin/true"], {}, User("user", 1000), cwd="/no/such"), "cwd_missing"),
        (Run([], {}, User("user", 1000)), "run_invalid"),
        (Run(["a\0b"], {}, User("user", 1000)), "run_invalid"),
        (Run(["true"], {"A=B": "c"}, User("user", 1000)), "run_invalid"),
        (Run(["/bin/true"], {}, User("user", 70_000)), "user_unmapped"),
    ],
)
async def test_impossible_runs_are_errors(entry: Entry, run: Run, code: str) -> None:
    """What cannot be started raises an error by a stable code, with a remedy."""
    with pytest.raises(TwinError) as caught:
        await entry.run(run)
    assert caught.value.code == code
    assert caught.value.remedy


async def test_limits_hold(entry: Entry, user: User) -> None:
    """Limits of the system and the number of processors apply to the command."""
    limits = {"RLIMIT_FSIZE": 1024 * 1024, "RLIMIT_NOFILE": 99, "CPUS": 1}
    script = "ulimit -f; ulimit -n; nproc; head -c 3000000 /dev/zero > /tmp/big; wc -c < /tmp/big"
    done = await entry.run(Run(["/bin/sh", "-c", script], {"PATH": "/usr/bin:/bin"}, user), rlimits=limits)
    assert done.stdout.split() == [b"2048", b"99", b"1", b"1048576"], done


async def test_joins_control_groups(entry: Entry, user: User, tmp_path: Path) -> None:
    """The command, not what watches over it, is in the control groups named."""
    parent = Path("/sys/fs/cgroup/pids")
    if not os.access(parent / "cgroup.procs", os.W_OK):
        pytest.skip("control groups (version 1, pids) cannot be written here")
    group = parent / f"twin-test-{os.getpid()}-{tmp_path.name}"
    group.mkdir()
    try:
        command = ["/bin/sh", "-c", "grep pids: /proc/self/cgroup"]
        done = await entry.run(Run(command, {"PATH": "/usr/bin:/bin"}, user), cgroups=[group])
        assert group.name.encode() in done.stdout
    finally:
        group.rmdir()


async def test_twin_that_ended(walls: object, entry: Entry, user: User) -> None:
    """A twin that is gone is said to be gone; a process that gets its number is never entered."""
    walls.end()  # type: ignore[attr-defined]
    with pytest.raises(TwinError) as caught:
        await entry.run(Run(["/bin/true"], {}, user))
    assert caught.value.code == "twin_gone"
    with pytest.raises(TwinError) as caught:
        Entry(2**22 - 1)
    assert caught.value.code == "twin_gone"


async def test_closed_entry_refuses(entry: Entry, user: User) -> None:
    """After closing there is no way in, and closing again does nothing."""
    await entry.close()
    await entry.close()
    with pytest.raises(TwinError) as caught:
        await entry.run(Run(["/bin/true"], {}, user))
    assert json.dumps(caught.value.record())
    assert caught.value.code == "twin_gone"
