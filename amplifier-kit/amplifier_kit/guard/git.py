"""Run git so that nothing an untrusted repository configures is ever run or followed.

Reading takes no settings from the user or the repository. git has no option to ignore a repository's config, and new
keys that run a program are found every year. So it is given a temporary folder (`PrivateGitDir`) with a config that we
wrote and links to the objects, refs and index. git itself follows a `.git` file, a link, `commondir` or `core.worktree`
anywhere, so an untrusted project could show a model the commits and files of any repository on the machine:
`find_repository` refuses one that leads elsewhere.

Fetching needs the user's settings (credentials, proxies, URL rewrites), and runs where git finds no other repository's
settings.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from amplifier_kit.guard.private_files import read_regular
from amplifier_kit.guard.processes.launch import CommandTimeoutError, run_program
from amplifier_kit.guard.processes.programs import Folders, find_program, host_environment, is_below
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct

# --- commands ---

_PROGRAM: Final = "git"

#: Variables that git needs to find its libraries; a reading git gets no others of ours.
_INHERITED: Final = ("HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DEVELOPER_DIR")
_READ_VARIABLES: Final = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    # Missing objects must not make git contact a server.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": ":",
    "GIT_ASKPASS": "",
    "GIT_SSH_COMMAND": "false",
}
#: A second line of defence: a config that a repository could write is not read at all.
_READ_OPTIONS: Final = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "credential.helper=",
    "gc.auto=0",
    "i18n.logOutputEncoding=UTF-8",
    "log.showSignature=false",
    "maintenance.auto=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "status.submoduleSummary=false",
    "submodule.recurse=false",
)
#: git sets these for its hooks; they would redirect it to another repository.
_HOOK_VARIABLES: Final = frozenset(
    (
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"),
        *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE"),
        *("GIT_INTERNAL_SUPER_PREFIX", "GIT_NAMESPACE", "GIT_CONFIG", "GIT_EXTERNAL_DIFF"),
    )
)
_FETCH_OPTIONS: Final = (
    "core.longpaths=true",
    # The same files on every machine, for the content hash of a lock file.
    "core.autocrlf=false",
    # No other program runs, neither now nor in the background.
    "gc.auto=0",
    "maintenance.auto=false",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    # A server must not redirect from an encrypted connection to a plain one.
    "protocol.http.allow=user",
    "advice.detachedHead=false",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
)


class GitMissingError(FileNotFoundError):
    """git is not on PATH, or only in a folder that is not trusted."""

    def __init__(self) -> None:
        super().__init__(errno.ENOENT, "git is not installed", _PROGRAM)

    def __str__(self) -> str:
        return "git is not installed"


def find_git(path: str | None = None, *, outside: Folders | None = None) -> str:
    """Return the path of git; raises GitMissingError.

    A git in one of the folders `outside`, which commands can write to, is not used. Here and below, the default is the
    working directory of this process.
    """
    found = find_program(_PROGRAM, os.environ.get("PATH") if path is None else path, outside)
    if found is None:
        raise GitMissingError
    return found


def read_command(*arguments: str, program: str | None = None, options: Sequence[str] = ()) -> list[str]:
    """Return the command line of a git that only reads, to be run with `read_environment`."""
    return [program or find_git(), "--no-pager", *_with_c((*_READ_OPTIONS, *options)), *arguments]


def read_environment(
    *, git_dir: str = os.devnull, work_tree: str | None = None, outside: Folders | None = None
) -> dict[str, str]:
    """Return the whole environment of a git that reads `git_dir`, by default no repository at all."""
    given = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    given = host_environment({"PATH": os.environ.get("PATH", os.defpath), **given}, outside)
    given |= {**_READ_VARIABLES, "GIT_DIR": git_dir}
    return given if work_tree is None else given | {"GIT_WORK_TREE": work_tree}


def fetch_command(
    *arguments: str, environ: Mapping[str, str], options: Sequence[str] = (), outside: Folders | None = None
) -> list[str]:
    """Return the command line of a git that fetches, to be run with `fetch_environment`; raises GitMissingError."""
    program = find_git(environ.get("PATH", os.defpath), outside=outside)
    return [program, "--no-pager", *_with_c((*_FETCH_OPTIONS, *options)), *arguments]


def fetch_environment(
    environ: Mapping[str, str], *, folder: str | None = None, outside: Folders | None = None
) -> dict[str, str]:
    """Return the environment of a git that fetches into `folder`, or only queries a server.

    It prompts for nothing and uses the proxies and CAs that other programs use. It reads no settings of repositories
    above the folder; without a folder, it reads those of no repository.
    """
    env = {name: value for name, value in environ.items() if name not in _HOOK_VARIABLES}
    env |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
    env = host_environment({"PATH": os.defpath, **env}, outside)
    env["GIT_TEMPLATE_DIR"] = ""  # templates could contain hooks
    if folder is None:
        env["GIT_DIR"] = os.devnull
    else:
        env["GIT_CEILING_DIRECTORIES"] = os.path.dirname(os.path.realpath(folder))
    if "SSH_ASKPASS_REQUIRE" not in env:
        # A password dialog of the desktop would block until the deadline.
        env["SSH_ASKPASS_REQUIRE"] = "never"
        env.pop("SSH_ASKPASS", None)
    # git has its own names for these, and knows only the lower case one of the last.
    for name, sources in (
        ("GIT_SSL_CAINFO", ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")),
        ("GIT_SSL_CAPATH", ("SSL_CERT_DIR",)),
        ("http_proxy", ("HTTP_PROXY",)),
    ):
        value = next((environ[source] for source in sources if environ.get(source)), "")
        if value and not environ.get(name):
            env[name] = value
    return env


def _with_c(options: Iterable[str]) -> list[str]:
    return [part for option in options for part in ("-c", option)]


# --- repositories ---

#: The largest accepted size of git's small files.
_SMALL: Final = 64 * 1024
_GITFILE: Final = "gitdir:"


class UnsafeRepositoryError(Exception):
    """A repository is not read; the text says why."""


class Repository(NamedTuple):
    """The folders of a repository, with links resolved."""

    #: The folder that holds `.git`; None for a bare repository.
    root: str | None
    git_dir: str
    #: Shared by all worktrees: objects, refs, config.
    common_dir: str
    #: Links in the git folder must lead into one of these.
    places: tuple[str, ...]
    #: Whether the git folder is elsewhere, so that its config must name `root` as its working tree.
    needs_back_link: bool = False


def find_repository(folder: str, project: str | None = None) -> Repository | None:
    """Return the repository whose working tree a folder is in, or None.

    `project` is the session's folder, if that is another: a git folder in it is accepted. A bare repository does not
    count, as any clone may contain one. Raises UnsafeRepositoryError, and OSError for a folder that cannot be read.
    """
    at = os.path.realpath(folder)
    device = os.stat(at).st_dev
    ceilings = os.environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep)
    ends = {os.path.realpath(path) for path in ceilings if os.path.isabs(path)}
    while True:
        repository = _repository_at(at, os.path.realpath(project or folder))
        if repository is not None:
            return repository
        above = os.path.dirname(at)
        if above == at or above in ends:
            return None
        try:
            if os.stat(above).st_dev != device and not os.environ.get("GIT_DISCOVERY_ACROSS_FILESYSTEM"):
                return None
        except OSError:
            return None
        at = above


def bare_repository(folder: str) -> Repository | None:
    """Return the bare repository at a path that the user has named, or None."""
    git_dir = os.path.realpath(folder)
    if not _is_git_dir(git_dir, git_dir) or _common_dir(git_dir) != git_dir:
        return None
    return Repository(None, git_dir, git_dir, (git_dir,))


def read_small(path: str, limit: int = _SMALL, *, places: tuple[str, ...] | None = None) -> bytes | None:
    """Return the content of a file of git, None when it does not exist.

    A link must lead below one of `places`, by default the folder of the file; with no places at all it is the user's
    own file and may be anywhere. Raises UnsafeRepositoryError for other links, pipes, devices and large files.
    """
    if os.path.islink(path):
        real = os.path.realpath(path)
        allowed = (os.path.realpath(os.path.dirname(path)),) if places is None else places
        if allowed and not any(is_below(real, place) for place in allowed):
            raise UnsafeRepositoryError(f"{path} leads out of the repository, to {real}")
        path = real
    try:
        return read_regular(path, limit, follow=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnsafeRepositoryError(f"{path} cannot be read: {error.strerror}") from error


def _repository_at(root: str, project: str) -> Repository | None:
    marker = os.path.join(root, ".git")
    try:
        mode = os.stat(marker).st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        git_dir = os.path.realpath(marker)
        if not os.path.lexists(os.path.join(git_dir, "HEAD")):
            return None  # git ignores an empty folder of this name too
    else:
        text = _read_line(marker) or ""
        if not text.startswith(_GITFILE):
            raise UnsafeRepositoryError(f"{marker} is neither a folder nor names one")
        git_dir = os.path.realpath(os.path.join(root, text.removeprefix(_GITFILE).strip()))
    common_dir = _common_dir(git_dir)
    if not _is_git_dir(git_dir, common_dir):
        raise UnsafeRepositoryError(f"{marker} leads to {git_dir}, which is not a git folder")
    needs_back_link = False
    if not is_below(git_dir, root) and not is_below(git_dir, project):
        back = _read_line(os.path.join(git_dir, "gitdir"))
        needs_back_link = back is None
        if back is not None and (
            os.path.realpath(os.path.join(git_dir, back)) != os.path.realpath(marker) or os.path.islink(marker)
        ):
            raise UnsafeRepositoryError(f"{marker} leads to {git_dir}, a worktree of another folder")
    return Repository(root, git_dir, common_dir, (root, project, git_dir, common_dir), needs_back_link)


def _common_dir(git_dir: str) -> str:
    """Return the folder that a worktree shares with others; it must be in that folder itself."""
    text = _read_line(os.path.join(git_dir, "commondir"))
    common_dir = git_dir if text is None else os.path.realpath(os.path.join(git_dir, text))
    if common_dir == git_dir:
        return git_dir  # no worktree, or the sandbox's placeholder for `commondir`
    worktrees = os.path.dirname(git_dir)
    if os.path.basename(worktrees) != "worktrees" or os.path.dirname(worktrees) != common_dir:
        raise UnsafeRepositoryError(f"{git_dir}/commondir leads to {common_dir}, another repository")
    return common_dir


def _is_git_dir(git_dir: str, common_dir: str) -> bool:
    return os.path.lexists(os.path.join(git_dir, "HEAD")) and all(
        os.path.isdir(os.path.join(common_dir, name)) for name in ("objects", "refs")
    )


def _read_line(path: str) -> str | None:
    data = read_small(path)
    return None if data is None else os.fsdecode(data).rstrip("\r\n")


# --- settings ---

#: Seconds for git to list a config.
_TIMEOUT: Final = 10.0
_CONFIG_LIMIT: Final = 4 * 1024 * 1024
_EXCLUDES_LIMIT: Final = 1024 * 1024
#: Longer listings of settings are refused: only their end would be kept.
_LISTED_LIMIT: Final = 16 << 20

Entries = Sequence[tuple[str, str]]

#: The settings that a reading git gets: how files are compared, and what a branch tracks. None of them names a program,
#: a file or a URL to follow.
_PASSED_ON: Final = (
    r"(?s)core\.(?:filemode|ignorecase|symlinks|precomposeunicode|trustctime|checkstat|autocrlf|eol|safecrlf"
    r"|sparsecheckout|sparsecheckoutcone)|branch\..+\.(?:remote|merge)|remote\..+\.fetch"
)
#: Repository extensions that make no difference to how we read.
_EXTENSIONS: Final = frozenset(
    (
        *("noop", "noop-v1", "objectformat", "partialclone", "preciousobjects", "refstorage"),
        *("relativeworktrees", "worktreeconfig"),
    )
)


class UserSettings(FrozenStruct):
    """The user's settings that are used in every repository."""

    entries: Entries = ()
    #: The content of the global ignore file.
    excludes: bytes = b""


class RepositorySettings(FrozenStruct):
    """The settings of a repository."""

    object_format: str
    ref_storage: str
    #: The working tree that the repository names; not followed.
    worktree: str | None
    is_bare: bool
    #: Whether objects may be missing, as in a partial clone.
    is_partial: bool
    entries: Entries


def read_repository_settings(program: str, git_dir: str, common_dir: str) -> RepositorySettings:
    """Read the config of a repository without following anything in it; raises UnsafeRepositoryError."""
    entries = _entries(program, os.path.join(common_dir, "config"))
    version = _last(entries, "core.repositoryformatversion") or "0"
    extensions = {key.partition(".")[2]: value.lower() for key, value in entries if key.startswith("extensions.")}
    if version not in ("0", "1"):
        raise UnsafeRepositoryError(f"the repository has the unknown format version {version[:20]!r}")
    if version == "1" and (unknown := sorted(set(extensions) - _EXTENSIONS)):
        raise UnsafeRepositoryError(f"the repository needs the unknown extension {unknown[0][:50]!r}")
    object_format = extensions.get("objectformat", "sha1") if version == "1" else "sha1"
    ref_storage = extensions.get("refstorage", "files") if version == "1" else "files"
    if object_format not in ("sha1", "sha256") or ref_storage not in ("files", "reftable"):
        raise UnsafeRepositoryError("the repository has an unknown object format or ref storage")
    is_bare = _is_true(_last(entries, "core.bare"))
    if _is_true(extensions.get("worktreeconfig")):
        entries = (*entries, *_entries(program, os.path.join(git_dir, "config.worktree")))
    is_partial = "partialclone" in extensions or any(key.endswith(".promisor") for key, _ in entries)
    return RepositorySettings(object_format, ref_storage, _last(entries, "core.worktree"), is_bare, is_partial, entries)


def read_user_settings(program: str) -> UserSettings:
    """Read the user's settings; empty when git cannot read them."""
    given = {name: value for name, value in os.environ.items() if name not in _HOOK_VARIABLES}
    command = [program, "--no-pager", "config", "--includes", "--list", "-z"]
    try:
        entries = _listed(command, given | {"GIT_DIR": os.devnull}, None)
        path = os.path.expanduser(_last(entries, "core.excludesfile") or "")
        if not path:
            config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
            path = os.path.join(config, "git", "ignore")
        excludes = read_small(path, _EXCLUDES_LIMIT, places=()) if os.path.isabs(path) else None
        return UserSettings(entries, excludes or b"")
    except UnsafeRepositoryError:
        return UserSettings()


def _entries(program: str, path: str) -> Entries:
    """Return the keys and values of a config file, without its includes."""
    data = read_small(path, _CONFIG_LIMIT)
    return _entries_of(program, data) if data else ()


@lru_cache(maxsize=32)
def _entries_of(program: str, data: bytes) -> Entries:
    command = read_command("config", "--file", "-", "--no-includes", "--list", "-z", program=program)
    return _listed(command, read_environment(), data)


def _listed(command: Sequence[str], environment: Mapping[str, str], data: bytes | None) -> Entries:
    """Return the settings that a git command lists; raises UnsafeRepositoryError when it cannot."""
    try:
        done = run_program(
            command, timeout=_TIMEOUT, environment=environment, data=data, is_split=True, limit=_LISTED_LIMIT
        )
    except (OSError, CommandTimeoutError) as error:
        raise UnsafeRepositoryError(f"git cannot list the config: {error}") from error
    if done.returncode or len(done.stdout) >= _LISTED_LIMIT:
        raise UnsafeRepositoryError("the config of the repository cannot be read")
    parts = [item.partition("\n") for item in os.fsdecode(done.stdout).split("\0")]
    return tuple((key, value if separator else "true") for key, separator, value in parts if key)


def _last(entries: Entries, key: str) -> str | None:
    return next((value for known, value in reversed(entries) if known == key), None)


def _is_true(value: str | None) -> bool:
    return value is not None and value.lower() in ("true", "yes", "on", "1")


# --- the private git folder ---

_HEAD: Final = r"ref: refs/[^\x00-\x20\x7f]+|[0-9a-f]{40}|[0-9a-f]{64}"


class PrivateGitDir:
    """A temporary git folder for one repository; a context manager, which removes it."""

    def __init__(
        self, repository: Repository, program: str, user: UserSettings | None = None, *, may_borrow: bool = False
    ) -> None:
        """Create the folder; raises UnsafeRepositoryError, and OSError.

        `may_borrow` allows objects of other repositories (`objects/info/alternates`): for a repository that the user
        has named.
        """
        self.repository = repository
        self._program = program
        self.settings = read_repository_settings(program, repository.git_dir, repository.common_dir)
        self._check_root()
        self.path = tempfile.mkdtemp(prefix="amplifier-git-", dir=_temporary_folder(repository))
        try:
            self._fill(user or UserSettings(), may_borrow)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> PrivateGitDir:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder; the targets of its links stay."""
        shutil.rmtree(self.path, ignore_errors=True)

    @property
    def readable(self) -> list[str]:
        """Return the paths that must be visible in a sandbox for git to read the repository."""
        places = [self.path, self.repository.git_dir, self.repository.common_dir]
        return [*places, self.repository.root] if self.repository.root is not None else places

    @property
    def environment(self) -> dict[str, str]:
        """Return the whole environment of a git that reads the repository."""
        root = self.repository.root
        return read_environment(git_dir=self.path, work_tree=root, outside=() if root is None else (root,))

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of a git that reads the repository."""
        options = [f"core.excludesFile={os.path.join(self.path, 'user-excludes')}"]
        # Rename detection reads file contents, which a partial clone may lack.
        options += ["status.renames=false"] if self.settings.is_partial else []
        return read_command(*arguments, program=self._program, options=options)

    def _check_root(self) -> None:
        root, named = self.repository.root, self.settings.worktree
        if root is None:
            return
        if self.repository.git_dir == self.repository.common_dir:
            leads_to = os.path.realpath(os.path.join(self.repository.git_dir, named)) if named else None
            if leads_to not in (None, root):
                raise UnsafeRepositoryError(f"its working tree is elsewhere: core.worktree leads to {leads_to}")
            if self.repository.needs_back_link and leads_to is None:
                raise UnsafeRepositoryError(
                    f"its git folder {self.repository.git_dir} is outside of the project and does not lead back to it"
                )
            if self.settings.is_bare and leads_to is None:
                raise UnsafeRepositoryError("the repository is bare: it has no working tree")
        elif self.settings.ref_storage == "reftable":
            raise UnsafeRepositoryError("worktrees of a repository with reftable storage are not supported")

    def _fill(self, user: UserSettings, may_borrow: bool) -> None:
        own, common = self.repository.git_dir, self.repository.common_dir
        head = os.fsdecode(read_small(os.path.join(own, "HEAD")) or b"").strip()
        if re.fullmatch(_HEAD, head) is None:
            raise UnsafeRepositoryError("the HEAD of the repository cannot be read")
        config = _config(self.settings, user.entries, is_bare=self.repository.root is None)
        contents = {"HEAD": os.fsencode(f"{head}\n"), "config": os.fsencode(config), "user-excludes": user.excludes}
        for name, content in contents.items():
            with open(os.path.join(self.path, name), "wb") as file:
                file.write(content)
        os.mkdir(os.path.join(self.path, "info"))
        shared = ["refs", "packed-refs", "shallow", "info/exclude"]
        shared += ["reftable"] if self.settings.ref_storage == "reftable" else []
        for name in shared:
            self._link(os.path.join(common, name), name)
        with os.scandir(own) as entries:
            halves = [entry.name for entry in entries if entry.name.startswith("sharedindex.")]
        for name in ("index", "info/sparse-checkout", *halves):
            self._link(os.path.join(own, name), name)
        objects = os.path.join(common, "objects")
        if not may_borrow:
            if (read_small(os.path.join(objects, "info", "alternates")) or b"").strip():
                raise UnsafeRepositoryError("it borrows objects of another repository (objects/info/alternates)")
            for path in _links_in(objects):
                self._check_place(path)
        self._link(objects, "objects")

    def _link(self, target: str, name: str) -> None:
        if os.path.exists(target):
            self._check_place(target)
            os.symlink(target, os.path.join(self.path, name))

    def _check_place(self, path: str) -> None:
        """Raise UnsafeRepositoryError for a path that leads out of the repository."""
        real = os.path.realpath(path)
        if not any(is_below(real, place) for place in self.repository.places):
            raise UnsafeRepositoryError(f"{path} leads to {real}, out of the repository")


def _config(settings: RepositorySettings, user: Entries, *, is_bare: bool) -> str:
    """Return the content of the config file that a reading git gets; of two values for one key, the last one counts."""
    version = 0 if settings.object_format == "sha1" and settings.ref_storage == "files" else 1
    lines = ["[core]", f"repositoryformatversion = {version}", f"bare = {'true' if is_bare else 'false'}"]
    if version:
        lines += ["[extensions]", f"objectformat = {settings.object_format}"]
        lines += ["refstorage = reftable"] if settings.ref_storage == "reftable" else []
    for key, value in (*user, *settings.entries):
        if re.fullmatch(_PASSED_ON, key):
            section, _, rest = key.partition(".")
            subsection, _, name = rest.rpartition(".")
            lines += [
                f"[{section} {_quote(subsection)}]" if subsection else f"[{section}]",
                f"{name} = {_quote(value)}",
            ]
    return "\n".join([*lines, ""])


def _links_in(objects: str) -> list[str]:
    """Return the links among the objects and their folders, all of which git follows."""
    links = []
    with os.scandir(objects) as entries:
        folders = [entry.path for entry in entries]
    for folder in folders:
        if os.path.islink(folder):
            links.append(folder)
        elif os.path.isdir(folder):
            with os.scandir(folder) as entries:
                links += [entry.path for entry in entries if entry.is_symlink()]
    return links


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _temporary_folder(repository: Repository) -> str:
    """Return a folder for temporary files outside of the repository, where commands could write."""
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        real = os.path.realpath(folder)
        if os.path.isdir(real) and not any(is_below(real, place) for place in repository.places):
            return real
    raise UnsafeRepositoryError("there is no folder for temporary files outside of the repository")
