"""What a universe cannot see, reach or become."""

from __future__ import annotations

import os
import re
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

PYTHON_CONNECT = (
    "import socket, sys; s = socket.socket({family}); s.settimeout(3)\n"
    'try:\n s.connect({address}); print("reached")\n'
    'except OSError as error: print("refused", error.errno)'
)


def test_capabilities_are_empty(kept: Any) -> None:
    """No set of a command's capabilities holds any, and none can be gained."""
    status = dict(line.split(":\t") for line in kept.shell("cat /proc/self/status").splitlines() if ":\t" in line)
    assert {status[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"


def test_the_holder_has_no_capabilities(kept: Any) -> None:
    """The processes that hold the universe have none either, as the host sees them."""
    first = kept.order("state")["pid"]
    status = Path(f"/proc/{first}/status").read_text(encoding="utf-8")
    assert set(re.findall(r"Cap(?:Inh|Prm|Eff|Amb):\t(\w+)", status)) == {"0" * 16}
    assert "NoNewPrivs:\t1" in status


def test_nobody_inside_is_root_of_the_host(kept: Any) -> None:
    """The ids inside are others on the host: never root's."""
    first = kept.order("state")["pid"]
    ranges = Path(f"/proc/{first}/uid_map").read_text(encoding="utf-8").split()
    assert all(int(outside) != 0 for outside in ranges[1::3])


def test_there_is_no_route_out(kept: Any) -> None:
    """Loopback is the only interface, there is no route, and addresses outside cannot be reached."""
    assert kept.shell("ls /proc/sys/net/ipv4/conf").split() == ["all", "default", "lo"]
    assert kept.shell("tail -n +2 /proc/net/route") == ""
    text = PYTHON_CONNECT.format(family="socket.AF_INET", address='("192.0.2.1", 80)')
    assert kept.python(text) == "refused 101\n"


def test_loopback_of_the_host_cannot_be_reached(kept: Any) -> None:
    """What listens on the host's loopback is not there inside."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = PYTHON_CONNECT.format(family="socket.AF_INET", address=f'("127.0.0.1", {server.getsockname()[1]})')
        assert kept.python(text) == "refused 111\n"


def test_abstract_sockets_of_the_host_cannot_be_reached(kept: Any) -> None:
    """A socket without a file, which only a network namespace keeps away, is not there inside."""
    name = f"twin-test-{os.getpid()}-{os.urandom(4).hex()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        text = PYTHON_CONNECT.format(family="socket.AF_UNIX", address=f'"\\0{name}"')
        assert kept.python(text) == "refused 111\n"
        assert kept.shell("tail -n +2 /proc/net/unix") == ""


def test_no_socket_of_the_host_is_in_the_tree(kept: Any) -> None:
    """Neither an engine's socket, nor the message bus, nor a display has a file inside."""
    assert kept.shell("find / -xdev -type s 2>/dev/null; find /run /tmp /dev/shm /var -type s 2>/dev/null") == ""
    # `mount`, which another test has root try in vain, leaves a folder of this name.
    assert set(kept.shell("ls -A /run /tmp").split()) <= {"/run:", "/tmp:", "mount"}


def test_host_files_are_invisible(kept: Any) -> None:
    """Of the host's root only `/usr` is there, and nothing of its homes, its data and its own `/etc`."""
    expected = {"dev", "etc", "home", "mnt", "opt", "proc", "root", "run", "srv", "tmp", "usr", "var"}
    links = {name for name in ("bin", "lib", "lib32", "lib64", "libx32", "sbin") if Path("/", name).exists()}
    assert set(kept.shell("ls -A /").split()) == expected | links
    assert kept.shell("ls -A /home /opt /srv /mnt") == "/home:\nuser\n\n/mnt:\n\n/opt:\n\n/srv:\n"
    assert kept.shell("find /var -type f") == ""
    assert kept.order("run", shell="ls /etc/shadow /etc/sudoers /etc/ssh /etc/hostname /etc/machine-id")["out"] == ""


def test_a_file_of_the_host_is_invisible(kept: Any) -> None:
    """A file that everybody on the host can read is not there inside, nor is the folder of the universe itself."""
    with tempfile.NamedTemporaryFile(prefix="of-the-host-") as file:
        Path(file.name).chmod(0o644)
        assert kept.order("run", shell=f"cat {file.name} {kept.folder}")["code"] != 0


def test_root_of_the_host_cannot_be_had_through_proc(kept: Any) -> None:
    """The first process's root and working folder lead to the universe's own tree, and its neighbours are unseen."""
    assert kept.shell("ls -d /proc/[0-9]* | wc -l").strip() in {"2", "3", "4", "5", "6"}
    outside = kept.shell("for p in /proc/[0-9]*; do ls $p/root/work $p/root/boot $p/cwd/boot; done 2>/dev/null")
    assert outside == ""


def test_environment_of_the_host_is_invisible(kept: Any) -> None:
    """No process inside carries a variable of the keeper's."""
    assert "of-the-host-only" not in kept.shell("cat /proc/*/environ 2>/dev/null; env")


def test_there_is_no_sys(kept: Any) -> None:
    """The kernel's devices and settings have no tree inside, and its switches do not move."""
    assert kept.order("run", shell="ls /sys")["code"] != 0
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/user/max_user_namespaces"):
        assert kept.order("run", shell=f"echo 1 > {path}")["code"] != 0, path


def test_devices_are_few(kept: Any) -> None:
    """Only the devices that every program needs are there."""
    allowed = "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero console"
    assert set(kept.shell("ls /dev").split()) <= set(allowed.split())
    assert kept.shell("find / -xdev -type b -o -xdev -type c 2>/dev/null") == ""


def test_no_device_can_be_made(kept: Any) -> None:
    """A node for the disk of the host cannot be made, by anybody inside."""
    users = [["user", 1000]] + ([["root", 0]] if kept.has_root else [])
    for user in users:
        assert kept.order("run", shell="mknod /tmp/disk b 254 0", **{"as": user})["code"] != 0


def test_programs_of_the_host_cannot_be_changed(kept: Any) -> None:
    """`/usr` is read-only, and stays so."""
    users = [["user", 1000]] + ([["root", 0]] if kept.has_root else [])
    for user in users:
        details = {"as": user}
        assert kept.order("run", shell="touch /usr/bin/of-the-twin", **details)["code"] != 0
        assert kept.order("run", shell="mount -o remount,rw /usr", **details)["code"] != 0
        assert kept.order("run", shell="mount -t tmpfs none /mnt", **details)["code"] != 0
    assert not Path("/usr/bin/of-the-twin").exists()


def test_user_namespaces_cannot_be_made(kept: Any) -> None:
    """Nobody inside can become root of a namespace of his own."""
    users = [["user", 1000]] + ([["root", 0]] if kept.has_root else [])
    for user in users:
        assert kept.order("run", shell="unshare --user true", **{"as": user})["code"] != 0
        assert kept.order("run", shell="unshare --mount --net true", **{"as": user})["code"] != 0


def test_setuid_programs_give_nothing(kept: Any) -> None:
    """Neither the host's programs that become root nor one made inside change who runs them."""
    if kept.has_root:
        making = "cp /usr/bin/python3 /opt/become; chmod 6755 /opt/become"
        assert kept.order("run", shell=making, **{"as": ["root", 0]})["code"] == 0
        text = "import os; print(os.getresuid(), os.getresgid())"
        assert kept.shell(f"/opt/become -c '{text}'") == "(1000, 1000, 1000) (1000, 1000, 1000)\n"
        kept.order("run", shell="rm /opt/become", **{"as": ["root", 0]})
    done = kept.order("run", shell="su -c id root < /dev/null")
    assert done["code"] != 0
    assert "uid=0" not in done["out"]


def test_no_descriptor_of_the_host_is_inherited(kept: Any) -> None:
    """A command has its three streams and nothing else open; the first process keeps no folder of the host open."""
    assert kept.shell("ls /proc/self/fd").split() == ["0", "1", "2", "3"]
    first = kept.order("state")["pid"]
    kinds = {os.readlink(f"/proc/{first}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{first}/fd")}
    assert not [kind for kind in kinds if kind.startswith("/") and kind != "/dev/null" and "memfd" not in kind]


def test_there_is_no_terminal(kept: Any) -> None:
    """A command cannot type into the terminal of the host: it has none."""
    assert kept.order("run", shell="exec < /dev/tty")["code"] != 0


def test_the_clock_cannot_be_set_and_the_kernel_log_not_read(kept: Any) -> None:
    """What only root of the host may do fails for everybody inside."""
    users = [["user", 1000]] + ([["root", 0]] if kept.has_root else [])
    for user in users:
        for text in ("date -s 2001-01-01", "chroot / true", "hostname other", "ip link set lo down"):
            assert kept.order("run", shell=text, **{"as": user})["code"] != 0, text


def test_root_is_not_to_be_had_without_subordinate_ids(kept: Any) -> None:
    """A user who is not root, and to whom root has given no ids, gets a universe without root, and is told why."""
    if kept.has_root:
        assert kept.shell("id -u", **{"as": ["root", 0]}) == "0\n"
        return
    with pytest.raises(kept.refusal, match="subordinate ids") as caught:
        kept.order("run", shell="id", **{"as": ["root", 0]})
    assert caught.value.code == "user_unavailable"


def test_two_universes_never_meet(keeper: Any) -> None:
    """Files, processes, networks, shared memory and sockets of one are not there in the other."""
    keeper.order("create", "one")
    keeper.order("create", "two")
    for universe in ("one", "two"):
        keeper.shell(
            f"echo {universe} > ~/file; echo {universe} > /tmp/file; echo {universe} > /dev/shm/file", universe
        )
    leaving = (
        "import socket, os, time\n"
        's = socket.socket(socket.AF_UNIX); s.bind("\\0meeting"); s.listen()\n'
        't = socket.create_server(("127.0.0.1", 4000))\n'
        "if os.fork() == 0:\n os.setsid(); [os.close(n) for n in (0, 1, 2)]; time.sleep(600)\n"
    )
    keeper.python(leaving, "one")
    assert keeper.shell("ipcmk -M 4096 >/dev/null && ipcs -m | grep -c 4096", "one") == "1\n"
    assert keeper.shell("cat ~/file /tmp/file /dev/shm/file", "two") == "two\n" * 3
    assert keeper.shell("ipcs -m | grep -c 4096", "two") == "0\n"
    assert "time.sleep(600)" in keeper.shell('cat /proc/*/cmdline | tr "\\0" " "', "one")
    assert "time.sleep(600)" not in keeper.shell('cat /proc/*/cmdline | tr "\\0" " "', "two")
    for family, address in (("socket.AF_UNIX", '"\\0meeting"'), ("socket.AF_INET", '("127.0.0.1", 4000)')):
        text = PYTHON_CONNECT.format(family=family, address=address)
        assert keeper.python(text, "one") == "reached\n"
        assert keeper.python(text, "two") == "refused 111\n"
