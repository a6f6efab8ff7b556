"""Ways out of the sandbox, each tried for real: none leads anywhere."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.sandbox.sandbox import Sandbox
from amplifier_kit.guard.sandbox.system_paths import interpreter

Inside = Callable[..., "subprocess.CompletedProcess[str]"]
MakeBox = Callable[..., Sandbox]


def _python(code: str) -> list[str]:
    return [interpreter(), "-I", "-S", "-c", code]


@pytest.fixture
def tcp() -> Iterator[int]:
    """Return the port of a server on 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def _connect(family: str, address: Any) -> list[str]:
    code = (
        f"import socket; s = socket.socket(socket.{family}); s.settimeout(60); s.connect({address!r}); print('reached')"
    )
    return [interpreter(), "-c", code]


def test_a_server_of_the_host(inside: Inside, make_box: MakeBox, tcp: int) -> None:
    """It cannot be reached on 127.0.0.1, which is another one inside, until the network is allowed."""
    attempt = _connect("AF_INET", ("127.0.0.1", tcp))
    done = inside(attempt)
    assert "Connection refused" in done.stderr
    assert inside(attempt, box=make_box(network=True)).stdout == "reached\n"


def test_an_address_elsewhere(inside: Inside) -> None:
    """There is no route to any, whatever the protocol."""
    for family, address in (("AF_INET", ("192.0.2.1", 80)), ("AF_INET6", ("2001:db8::1", 80))):
        assert "Network is unreachable" in inside(_connect(family, address)).stderr
    code = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))"
    assert "Network is unreachable" in inside([interpreter(), "-c", code]).stderr


def test_an_abstract_socket(inside: Inside) -> None:
    """A server with a name that is in no folder cannot be reached."""
    name = f"\0amplifier-{os.urandom(8).hex()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        assert "Connection refused" in inside(_connect("AF_UNIX", name)).stderr


def test_names(inside: Inside) -> None:
    """No name is looked up: there is nobody to ask."""
    done = inside([interpreter(), "-c", "import socket; socket.getaddrinfo('example.com', 80)"])
    assert "gaierror" in done.stderr
    assert not inside("cat /etc/resolv.conf").stdout


@pytest.mark.parametrize("way", ["absolute", "relative"])
@pytest.mark.parametrize("place", ["/tmp", "/run", "project", "home"])
def test_sockets_in_folders(
    inside: Inside, project: Path, home: Path, place: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of the host is not reached by its file, wherever that is, also in the project itself."""
    folder = {"project": project, "home": home}.get(place, Path(place))
    if not os.access(folder, os.W_OK):
        pytest.skip(f"{folder} cannot be written by this user")
    path = folder / f"{os.urandom(6).hex()}.sock"
    if way == "absolute" and len(str(path)) > 107:
        pytest.skip("the folder of the test is too deep for the name of a socket")
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path) if way == "absolute" else path.name)
        try:
            server.listen()
            code = f"import os, socket\nos.chdir({str(folder)!r})\nsocket.socket(socket.AF_UNIX).connect({path.name!r})"
            done = inside([interpreter(), "-c", code])
        finally:
            path.unlink()
    assert done.returncode == 1
    assert "Error" in done.stderr


@pytest.mark.parametrize("kind", ["SOCK_DGRAM", "SOCK_SEQPACKET"])
@pytest.mark.parametrize("way", ["absolute", "relative"])
def test_sockets_of_other_kinds(
    inside: Inside, project: Path, monkeypatch: pytest.MonkeyPatch, kind: str, way: str
) -> None:
    """A socket in the project that nobody listens on, as one for datagrams, takes nothing from inside either."""
    path = project / f"{os.urandom(6).hex()}.sock"
    if way == "absolute" and len(str(path)) > 107:
        pytest.skip("the folder of the test is too deep for the name of a socket")
    monkeypatch.chdir(project)
    code = (
        f"import socket; s = socket.socket(socket.AF_UNIX, socket.{kind}); s.connect({path.name!r}); s.send(b'text'); "
        "print('reached')"
    )
    with socket.socket(socket.AF_UNIX, getattr(socket, kind)) as server:
        server.bind(str(path) if way == "absolute" else path.name)
        if kind == "SOCK_SEQPACKET":
            server.listen()
        assert subprocess.run(_python(code), check=False, capture_output=True).stdout == b"reached\n"
        done = inside(_python(code))
    assert done.stdout == ""
    assert "Error" in done.stderr


def test_writing_outside(inside: Inside, home: Path, project: Path, tmp_path: Path) -> None:
    """Nothing of the host changes, wherever a command writes."""
    places = [
        home,
        tmp_path,
        Path("/tmp"),
        Path("/var/tmp"),
        Path("/usr"),
        Path("/etc"),
        Path("/opt"),
        Path("/"),
        Path("/run"),
    ]
    name = f"made-{os.urandom(6).hex()}"
    inside("; ".join(f"mkdir -p '{place}'; echo x > '{place / name}'" for place in places))
    assert [place for place in places if (place / name).exists()] == []
    assert "Read-only file system" in inside(f"echo x > /usr/{name}").stderr
    assert inside(f"echo x > {name}").returncode == 0
    assert (project / name).exists()


def test_reading_outside(inside: Inside, home: Path, tmp_path: Path) -> None:
    """What is neither the system's nor the project's is not there."""
    (tmp_path / "notes").write_text("secret words", encoding="utf-8")
    (home / "notes").write_text("secret words", encoding="utf-8")
    done = inside(f"cat '{tmp_path}/notes' '{home}/notes' /etc/shadow /etc/ssl/private/*; ls -A ~ '{tmp_path}'")
    assert "secret words" not in done.stdout
    assert "root:" not in done.stdout
    assert "notes" not in done.stdout


def test_the_environment(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets, ways to the host and what our processes were started with are in nobody's environment."""
    monkeypatch.setenv("SOME_API_KEY", "a-secret-value")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/a-way-out")
    monkeypatch.setenv("https_proxy", "http://user:a-password@proxy.example")
    monkeypatch.setenv("PLAIN", "plain-value")
    done = inside("env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'")
    assert "PLAIN=plain-value" in done.stdout
    for word in ("a-secret-value", "a-way-out", "a-password"):
        assert word not in done.stdout


def test_values_are_no_arguments(make_box: MakeBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command is given in its environment is not in the list of processes that everybody can read."""
    monkeypatch.setenv("SOME_API_KEY", "a-secret-value")
    argv, environment = make_box(environment=["SOME_API_KEY"]).wrap(["true"])
    assert environment["SOME_API_KEY"] == "a-secret-value"
    assert "a-secret-value" not in " ".join(argv)


def test_processes_of_the_host(inside: Inside) -> None:
    """None is seen, and none can be signalled or looked into."""
    pids = inside("echo /proc/[0-9]*").stdout.split()
    assert len(pids) < 6
    assert inside(f"kill -0 {os.getpid()}").returncode != 0
    assert inside(f"cat /proc/{os.getpid()}/environ").returncode != 0
    assert inside("ls /proc/1/root/").stdout.split() == inside("ls /").stdout.split()


def test_no_privileges(inside: Inside) -> None:
    """There are no capabilities, none to be had, and no program that gives some."""
    done = inside("grep -E '^(Cap|NoNewPrivs)' /proc/self/status")
    values = dict(line.split() for line in done.stdout.splitlines())
    assert values.pop("NoNewPrivs:") == "1"
    assert {int(value, 16) for value in values.values()} == {0}


@pytest.mark.parametrize(
    "command",
    [
        "mount -o remount,bind,rw /usr",
        "mount -o remount,rw /",
        "mount -t tmpfs none /tmp",
        "mount --bind /tmp /opt",
        "umount /usr",
        "umount -l /proc",
        "pivot_root / /tmp",
        "chroot / true",
        "unshare --user true",
        "unshare --mount true",
        "unshare --user --map-root-user mount -t tmpfs none /tmp",
        "nsenter --target 1 --mount true",
        "mknod /tmp/disk b 8 0",
        "hostname other",
        "ip link add x type dummy",
    ],
)
def test_changing_the_sandbox(inside: Inside, command: str) -> None:
    """No mount, namespace or kernel setting of the sandbox can be changed from inside."""
    done = inside(f"export PATH=$PATH:/usr/sbin:/sbin; {command}")
    assert done.returncode != 0, done.stdout


@pytest.mark.parametrize(
    "path",
    [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/user/max_user_namespaces",
        "/proc/sys/vm/drop_caches",
        "/proc/sysrq-trigger",
    ],
)
def test_switches_of_the_kernel(inside: Inside, path: str) -> None:
    """None can be opened for writing, also by root, whose they are; nothing is written here, in case one can."""
    if not os.path.exists(path):
        pytest.skip(f"this kernel has no {path}")
    done = inside(f": > {path}")
    assert done.returncode != 0


def test_nothing_of_the_kernel_is_writable(inside: Inside) -> None:
    """Beyond what belongs to the processes inside, nothing in /proc can be opened for writing."""
    code = (
        "import os\n"
        "for folder, folders, files in os.walk('/proc'):\n"
        "    if folder == '/proc': folders[:] = [name for name in folders if not name.isdigit()]\n"
        "    for name in files:\n"
        "        path = os.path.join(folder, name)\n"
        "        if os.access(path, os.W_OK) and not os.path.islink(path): print(path)\n"
    )
    assert inside(_python(code)).stdout == ""


def test_system_calls(inside: Inside) -> None:
    """What no program offers is refused as well: tracing a process of the host, a user namespace, a mount."""
    code = (
        "import ctypes; c = ctypes.CDLL(None, use_errno=True)\n"
        f"print(c.ptrace(16, {os.getpid()}, 0, 0), c.unshare(0x10000000), "
        "c.mount(b'none', b'/tmp', b'tmpfs', 0, None), c.mount(None, b'/usr', None, 4096 | 32, None), c.setns(0, 0))"
    )
    assert set(inside(_python(code)).stdout.split()) == {"-1"}


def test_terminal(inside: Inside) -> None:
    """There is none to type into."""
    assert inside("echo x > /dev/tty").returncode != 0


def test_a_link_that_leads_outside(inside: Inside, project: Path, tmp_path: Path) -> None:
    """A link in the project leads to what is inside, not to what the host has there."""
    (tmp_path / "secret").write_text("secret words", encoding="utf-8")
    (project / "link").symlink_to(tmp_path / "secret")
    (project / "folder").symlink_to(tmp_path)
    done = inside("cat link folder/secret; echo changed > link; echo new > folder/made")
    assert "secret words" not in done.stdout
    assert (tmp_path / "secret").read_text(encoding="utf-8") == "secret words"
    assert not (tmp_path / "made").exists()


def test_hard_links(inside: Inside, project: Path) -> None:
    """What is read-only cannot be had writable by another name."""
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("[core]\n", encoding="utf-8")
    done = inside("ln .git/config other || ln /usr/bin/env other")
    assert done.returncode != 0
    assert not (project / "other").exists()


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        (".git/config", True),  # there always is one
        *(
            (name, exists)
            for name in (".agents", ".amplifier", ".claude", ".mcp.json", ".git/hooks")
            for exists in (True, False)
        ),
        *((name, True) for name in ("bundle.md", "bundle.yaml", "bundle.yml")),
    ],
)
def test_what_decides_about_the_session(inside: Inside, project: Path, name: str, exists: bool) -> None:
    """It cannot be written, replaced, removed or brought into being, also not by moving what it is in."""
    target = project / name
    (project / ".git").mkdir()
    if (exists and name in (".mcp.json", ".git/config")) or name.startswith("bundle."):
        target.write_text("as it was", encoding="utf-8")
    elif exists:
        target.mkdir()
        (target / "file").write_text("as it was", encoding="utf-8")
    inside(
        f"echo x > {name}; echo x > {name}/file; echo x > {name}/new; rm -rf {name}; mv {name} away; mkdir {name}; "
        f"mv .git old; mkdir -p $(dirname {name}); mkdir {name}; echo x > {name}/new; ln -s /tmp {name}; "
        f"cp /dev/null {name}; chmod 777 {name}; echo x > /tmp/x; mv /tmp/x {name}"
    )
    if not exists:
        assert not target.is_file()
        assert not target.is_dir() or list(target.iterdir()) == []
    elif target.is_file():
        assert target.read_text(encoding="utf-8") == "as it was"
    else:
        assert {path.name: path.read_text(encoding="utf-8") for path in target.iterdir()} == {"file": "as it was"}
    assert not (project / "old").exists()


def test_submodules(inside: Inside, project: Path) -> None:
    """Hooks and configs of submodules cannot be changed either."""
    module = project / ".git" / "modules" / "deep" / "er"
    (module / "hooks").mkdir(parents=True)
    (module / "HEAD").touch()
    (module / "config").write_text("[core]\n", encoding="utf-8")
    inside(
        f"cd '{module}'; echo x >> config; echo x > hooks/post-checkout; "
        "mv ../../deep ../../gone; mv ../../../modules ../../../m"
    )
    assert (module / "config").read_text(encoding="utf-8") == "[core]\n"
    assert list((module / "hooks").iterdir()) == []


def test_a_repository_that_is_led_elsewhere(
    inside: Inside, make_box: MakeBox, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where git's newer references let nothing stand in for `commondir`, it is gone after the command; that is said."""
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("[extensions]\n\trefStorage = reftable\n", encoding="utf-8")
    box = make_box()
    inside("echo ../evil > .git/commondir", box=box)
    box.close()
    assert not (project / ".git" / "commondir").exists()
    assert "commondir, which decides what git runs: it was removed" in caplog.text


def test_git_works(inside: Inside, project: Path) -> None:
    """In spite of all that, a repository can be worked in."""
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    done = inside(
        "echo x > file && git add file && git -c user.name=A -c user.email=a@example.com commit -qm one && "
        "git checkout -qb other && git mv file moved && git stash -q && git stash pop -q && git gc -q && "
        "git log --oneline"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(" one\n")


def test_python_works(inside: Inside, project: Path) -> None:
    """Programs on PATH run, with threads, processes and temporary files."""
    code = (
        "import multiprocessing, tempfile, threading, concurrent.futures as f\n"
        "with tempfile.NamedTemporaryFile() as t, f.ThreadPoolExecutor() as p: print(p.submit(lambda: 1).result())\n"
        "q = multiprocessing.get_context('fork').Queue(); q.put(2); print(q.get())"
    )
    assert inside([interpreter(), "-c", code]).stdout == "1\n2\n"
    assert sys.platform == "linux"


def test_a_library_of_the_project_is_not_loaded_outside(
    inside: Inside, make_box: MakeBox, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has the project among their library folders has it inside; bubblewrap itself loads nothing from there."""
    box = make_box()
    assert box.status.is_active
    for name in ("libcap.so.2", "libselinux.so.1", "libpcre2-8.so.0"):
        (project / name).write_bytes(b"planted")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(project))
    done = inside(["/bin/sh", "-c", 'echo "$LD_LIBRARY_PATH"'], box=box)
    assert (done.stdout, done.stderr) == (f"{project}\n", "")
