"""Repositories of the host, served read-only: the working tree as it is, and the branches and tags beside it.

A repository is exported into a bare one that borrows its objects. git runs here on content that may be hostile, so
everything goes through `amplifier_kit.guard.git`: no setting of the repository takes effect, no hook, filter, monitor
or submodule command runs, and the source is only read.

Each connection is one `git upload-pack` on the client's own socket. The first line of git's protocol is read here and
not by `git daemon`, which compares names letter by letter, logs no requests, and speaks the version of the protocol in
which a client may ask for any object.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import shutil
import socket
import socketserver
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Repository
from amplifier_digital_twin.services.config import ServedRepository
from amplifier_digital_twin.services.request_log import RequestLog
from amplifier_kit.guard.git import (
    GitMissingError,
    PrivateGitDir,
    UnsafeRepositoryError,
    bare_repository,
    find_git,
    find_repository,
    read_command,
    read_environment,
    read_user_settings,
)

#: How long one git command may take, and a client may let git wait, in seconds.
_TIMEOUT: Final = 300.0
_PATIENCE: Final = 120
_REQUEST_TIMEOUT: Final = 10.0
_PROCESSES: Final = 8
#: The branch that people ask for: it means what the profile serves, whatever that is called at home.
_MAIN: Final = "refs/heads/main"
_HEX: Final = re.compile(r"[0-9a-f]{7,64}")
#: Wins over every `.gitattributes`: content is taken byte for byte.
_ATTRIBUTES: Final = "* -text -ident -filter -working-tree-encoding\n"
#: A first commit is dated so; later ones follow their parent, so that ids depend on content alone.
_EPOCH: Final = 946684800
_WHO: Final = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "Digital Twin"), ("EMAIL", "twin@localhost"))
}
#: A URL, or what ssh understands: `git@host:org/repo`.
_URL: Final = re.compile(r"(?:git\+)?(https?|ssh|git)://(?:[^/@\s]*@)?([^/@\s]+)/(.+)")
_SCP: Final = re.compile(r"(?:[^/@:\s]+@)([^/:@\s]+):(?!/)(.+)")
_USUAL_PORTS: Final = {"https": ":443", "http": ":80", "ssh": ":22", "git": ":9418"}


class GitAddress(NamedTuple):
    """The public address of a repository in the one spelling by which addresses are compared."""

    host: str
    #: Lower case, no `.git`, no slashes around.
    path: str

    @classmethod
    def find(cls, url: str) -> GitAddress | None:
        """Return the address that a URL means, None when it names no repository on a host."""
        if found := _URL.fullmatch(url.strip()):
            scheme, host, path = found.groups()
            return cls.of(host.lower().removesuffix(_USUAL_PORTS[scheme]), path)
        found = _SCP.fullmatch(url.strip())
        return cls.of(found[1], found[2]) if found else None

    @classmethod
    def parse(cls, url: str) -> GitAddress:
        """Return the address that a URL of a profile means, which was checked when it was read."""
        address = cls.find(url)
        assert address is not None, url
        return address

    @classmethod
    def of(cls, host: str, path: str) -> GitAddress | None:
        """Return the address of a path on a host; None for a path that is not a plain list of names."""
        names = path.lower().strip("/").removesuffix(".git").split("/")
        if any(name in ("", ".", "..") or "\\" in name or "\0" in name for name in names):
            return None
        return cls(host.lower(), "/".join(names))


# --- serving ---


class GitServer(socketserver.ThreadingUnixStreamServer):
    """Answers on a listening unix socket, in threads of its own."""

    daemon_threads = True

    def __init__(self, log: RequestLog, listening: socket.socket, repositories: Sequence[ServedRepository]) -> None:
        super().__init__("", _Request, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.log = log
        self.folders = {GitAddress.parse(served.url): served.folder for served in repositories}
        self.turns = threading.Semaphore(_PROCESSES)
        self.processes: set[subprocess.Popen[bytes]] = set()

    def close(self) -> None:
        """End every connection and its git."""
        self.shutdown()
        for process in list(self.processes):
            # With its group: it starts `git pack-objects`.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)


class _Request(socketserver.BaseRequestHandler):
    request: socket.socket
    server: GitServer

    def handle(self) -> None:
        self.request.settimeout(_REQUEST_TIMEOUT)
        try:
            service, path = self._read()
        except (OSError, ValueError):
            self.server.log.record("git", "", "", 400, allowed=False, reason="not a request of git")
            return
        host, _, name = path.strip("/").partition("/")
        address = GitAddress.of(host, name)
        folder = self.server.folders.get(address) if address is not None else None
        if service != "git-upload-pack":
            self._refuse(host, name, 403, "this server is read-only")
        elif folder is None:
            reason = f"{host}/{name} is not served in this universe: add it to `repositories` in the profile"
            self._refuse(host, name, 404, reason)
        else:
            self.server.log.record("git", host, name, 200, allowed=True)
            with self.server.turns:
                self._upload(folder)

    def _read(self) -> tuple[str, str]:
        """Return service and path of git's first packet; nothing behind it is read."""
        with self.request.makefile("rb", buffering=0) as file:
            size = int(file.read(4) or b"", 16)
            if not 4 < size <= 4096:
                raise ValueError("the size of the request is invalid")
            # What follows the zero byte names the host and a protocol version. It is not used: without one, git speaks
            # version 0, in which only what refs lead to can be asked for (the source may hold other work).
            packet = file.read(size - 4) or b""
        if len(packet) != size - 4:
            raise ValueError("the request ended")
        service, _, path = packet.partition(b"\0")[0].decode().rstrip("\n").partition(" ")
        return service, path

    def _refuse(self, host: str, name: str, status: int, reason: str) -> None:
        self.server.log.record("git", host, name, status, allowed=False, reason=reason)
        message = b"ERR " + reason.encode()[:900]
        with contextlib.suppress(OSError):  # the client has gone
            self.request.sendall(b"%04x" % (len(message) + 4) + message)

    def _upload(self, folder: Path) -> None:
        settings = ("uploadpack.allowReachableSHA1InWant=true", "uploadpack.allowFilter=false", "pack.window=0")
        argv = ["upload-pack", "--strict", f"--timeout={_PATIENCE}", str(folder)]
        self.request.settimeout(None)
        process = subprocess.Popen(
            read_command(*argv, options=settings),
            stdin=self.request.fileno(),
            stdout=self.request.fileno(),
            stderr=subprocess.DEVNULL,
            env=read_environment(),
            start_new_session=True,
        )
        self.server.processes.add(process)
        process.wait()
        self.server.processes.discard(process)


# --- exporting ---


def export_all(repositories: Sequence[Repository], folder: Path) -> tuple[list[ServedRepository], list[str]]:
    """Export repositories into the new folder `folder`; return what is served, and notes for the user.

    Raises TwinError (`repository_invalid`, `ref_unknown`, `git_failed`, `git_missing`).
    """
    notes: list[str] = []
    exported = [export(item, folder / f"{number}.git", notes) for number, item in enumerate(repositories)]
    return exported, notes


def export(repository: Repository, folder: Path, notes: list[str]) -> ServedRepository:
    """Export a repository into the new bare repository `folder`.

    `worktree`: all branches and tags; HEAD, the branch that is checked out and `main` are the working tree: the commit
    that is checked out when nothing differs, else one on top of it. Any other ref: that one alone, HEAD and `main`
    meaning it too. Notes for the user are added to `notes`. Raises TwinError.
    """
    path = repository.path
    try:
        # A bare repository counts only where the profile names it, never where it is merely found.
        found = bare_repository(str(path)) or (find_repository(str(path)) if path.is_dir() else None)
        if found is None:
            raise _invalid(path, "is not a git repository")
        if found.root not in (None, os.path.realpath(path)):
            raise _invalid(path, f"is a folder inside a repository: name its root, {found.root}")
        # Not one in the tree that is served, as in an activated environment.
        program = find_git(outside=[str(path)])
        # The profile names the repository, so it may borrow objects from others, as it does for its owner.
        with PrivateGitDir(found, program, read_user_settings(program), may_borrow=True) as private:
            commits = _Export(path, folder, private, program, notes).run(repository.ref)
    except UnsafeRepositoryError as error:
        raise _invalid(path, f"is not read: {error}") from error
    except GitMissingError as error:
        said = "git is not installed on this machine"
        raise TwinError("git_missing", said, "install git and try again") from error
    return ServedRepository(url=repository.url, folder=folder, commits=commits)


def has_commit(folder: Path, commit: str) -> bool:
    """Return whether a commit is in the history that a served repository has refs for."""
    environment = read_environment(git_dir=str(folder))
    command = read_command("for-each-ref", "--count=1", f"--contains={commit}")
    # git fails for what is no commit.
    return bool(_HEX.fullmatch(commit) and _run(command, environment, accepted=(0, 129)))


class _Export:
    """Makes one bare repository."""

    def __init__(self, path: Path, folder: Path, private: PrivateGitDir, program: str, notes: list[str]) -> None:
        self._path, self._folder, self._private, self._notes = path, folder, private, notes
        self._program = program

    def run(self, ref: str) -> dict[str, str]:
        """Return what `HEAD` and the refs lead to."""
        form = "--format=%(objectname) %(objecttype) %(*objectname) %(*objecttype) %(refname)"
        refs: dict[str, tuple[str, str]] = {}  # the object that a ref names, and its commit
        for line in self._ask("for-each-ref", form, "refs/heads", "refs/tags").splitlines():
            own, kind, peeled, peeled_kind, name = line.split(" ", 4)
            if "commit" in (kind, peeled_kind):
                refs[name] = (own, peeled or own)
        self._create()
        head = _MAIN
        if ref == "worktree":
            head = self._ask("symbolic-ref", "-q", "HEAD", accepted=(0, 1)).strip() or _MAIN
            commit = self._commit_worktree()
            refs[head] = (commit, commit)
        else:
            name, own, commit = self._resolve(ref, refs)
            refs = {name: (own, commit)} if name else {}
            head = name if name.startswith("refs/heads/") else _MAIN
        refs[_MAIN] = (commit, commit)
        created = "".join(f"create {name}\0{own}\0" for name, (own, _) in refs.items())
        self._write("update-ref", "-z", "--stdin", stdin=created)
        self._write("symbolic-ref", "HEAD", head)
        return {"HEAD": commit, **{name: peeled for name, (_, peeled) in refs.items()}}

    def _create(self) -> None:
        self._folder.mkdir(parents=True)
        form = f"--object-format={self._private.settings.object_format}"
        self._write("init", "--quiet", "--bare", "--template=", "--initial-branch=main", form)
        common = Path(self._private.repository.common_dir)
        objects = os.fsencode(common / "objects")
        if any(mark in objects for mark in b'":\n'):
            objects = json.dumps(os.fsdecode(objects), ensure_ascii=False).encode("utf-8", "surrogateescape")
        (self._folder / "objects" / "info").mkdir(exist_ok=True)
        (self._folder / "objects" / "info" / "alternates").write_bytes(objects + b"\n")
        if (common / "shallow").is_file():
            shutil.copyfile(common / "shallow", self._folder / "shallow")

    def _commit_worktree(self) -> str:
        """Return a commit of the working tree: uncommitted, untracked and deleted files count, ignored ones do not."""
        private = self._private
        if private.repository.root is None:
            raise _invalid(self._path, "has no working tree: name a branch, tag or commit as its `ref`")
        (Path(private.path) / "info" / "attributes").write_text(_ATTRIBUTES, encoding="utf-8")
        parent = self._ask("rev-parse", "-q", "--verify", "HEAD^{commit}", accepted=(0, 1, 128)).strip()
        # Not the user's index: it may say of a file that it is unchanged without looking.
        given = {"GIT_INDEX_FILE": str(self._folder / "index"), "GIT_OBJECT_DIRECTORY": str(self._folder / "objects")}
        self._ask("read-tree", parent or "--empty", environment=given)
        # Left out of a sparse checkout on purpose: served as it is tracked.
        sparse = [line[2:] for line in self._ask("ls-files", "-t", "-z").split("\0") if line.startswith("S ")]
        self._ask("update-index", "--skip-worktree", "-z", "--stdin", names=sparse, environment=given)
        modules = self._remove_submodules(given)
        others = self._ask("ls-files", "-o", "-z", "--exclude-standard", environment=given).split("\0")
        # git would look into submodules and repositories inside, with their settings.
        left_out = [*modules, *(name for name in others if name.endswith("/") and name.rstrip("/") not in modules)]
        if left_out:
            shown = ", ".join(left_out[:5]) + (f" and {len(left_out) - 5} more" if len(left_out) > 5 else "")
            self._notes.append(f"{self._path}: submodules and repositories inside are left out: {shown}")
        paths = [":(top)", *(f":(exclude,literal,top){name.rstrip('/')}" for name in left_out)]
        add = ("add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul")
        self._ask(*add, names=paths, environment=given)
        self._remove_submodules(given)
        tree = self._ask("write-tree", environment=given).strip()
        (self._folder / "index").unlink()
        if parent and self._ask("rev-parse", f"{parent}^{{tree}}").strip() == tree:
            return parent
        date = int(self._ask("log", "-1", "--format=%ct", parent)) + 1 if parent else _EPOCH
        given |= _WHO | {"GIT_AUTHOR_DATE": f"@{date} +0000", "GIT_COMMITTER_DATE": f"@{date} +0000"}
        arguments = ["commit-tree", "-m", "The working tree as it is", *(["-p", parent] if parent else []), tree]
        return self._ask(*arguments, environment=given).strip()

    def _remove_submodules(self, given: Mapping[str, str]) -> list[str]:
        """Take submodules out of the index; return their paths."""
        staged = self._ask("ls-files", "-s", "-z", environment=given).split("\0")
        modules = [line.partition("\t")[2] for line in staged if line.startswith("160000 ")]
        self._ask("update-index", "--force-remove", "-z", "--stdin", names=modules, environment=given)
        return modules

    def _resolve(self, ref: str, refs: Mapping[str, tuple[str, str]]) -> tuple[str, str, str]:
        """Return full name (empty for a bare commit), object and commit of a ref.

        A branch wins over a tag, and that over a branch that was only fetched. Raises TwinError (`ref_unknown`).
        """
        for name in (ref, f"refs/heads/{ref}", f"refs/tags/{ref}"):
            if name in refs:
                return name, *refs[name]
        asked = [(f"refs/heads/{ref}", f"refs/remotes/origin/{ref}")] if not ref.startswith("-") else []
        asked += [("", ref)] if _HEX.fullmatch(ref) else []
        for name, expression in asked:
            verify = ("rev-parse", "-q", "--verify", f"{expression}^{{commit}}")
            if commit := self._ask(*verify, accepted=(0, 1, 128)).strip():
                return name, commit, commit
        known = [name.split("/", 2)[2] for name in refs]
        near = difflib.get_close_matches(ref, known, 3) or known[:5]
        said = f"{self._path}: unknown branch, tag or commit {ref!r}"
        raise TwinError("ref_unknown", said, f"use one of: {', '.join([*near, 'worktree'])}")

    def _write(self, *arguments: str, stdin: str = "") -> None:
        """Run git on the new repository."""
        environment = read_environment(git_dir=str(self._folder), outside=[str(self._path)])
        _run(read_command(*arguments, program=self._program), environment, stdin)

    def _ask(
        self,
        *arguments: str,
        names: Sequence[str] = (),
        accepted: tuple[int, ...] = (0,),
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Run git on the source, with `names` on its stdin."""
        stdin = "".join(f"{name}\0" for name in names)
        given = {**self._private.environment, **(environment or {})}
        return _run(self._private.command(*arguments), given, stdin, accepted, self._private.repository.root)


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    stdin: str = "",
    accepted: Sequence[int] = (0,),
    cwd: str | None = None,
) -> str:
    """Return what git writes; raises TwinError (`git_failed`) with its own words."""
    try:
        done = subprocess.run(
            command,
            input=stdin.encode("utf-8", "surrogateescape"),
            capture_output=True,
            env=environment,
            cwd=cwd,
            timeout=_TIMEOUT,
            start_new_session=True,
            check=False,
        )
        words = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
        if done.returncode in accepted:
            return done.stdout.decode("utf-8", "surrogateescape")
    except subprocess.TimeoutExpired:
        words = f"`{' '.join(command[-3:])}` took longer than {_TIMEOUT:g} s"
    said = f"git failed{f' in {cwd}' if cwd else ''}: {words}"
    raise TwinError("git_failed", said, "run `git status` in the repository and try again")


def _invalid(path: Path, why: str) -> TwinError:
    said = f"{path} {why}"
    return TwinError("repository_invalid", said, "name the root of a git working tree in `repositories`")
