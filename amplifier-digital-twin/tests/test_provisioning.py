"""Commands and files of a profile in a twin: whose they are, where they go, when it stops."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin.backends.twin import Finished, Run
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Command, PushedFile, User
from amplifier_digital_twin.provisioning import Provisioner, expanded
from amplifier_digital_twin.recorder import Recorder

USER = User()


class Noting:
    """A twin that notes what it is asked for and ends commands as it is told."""

    def __init__(self, ends: Callable[[Run], Finished] | None = None) -> None:
        self.runs: list[Run] = []
        self.put_in: list[tuple[str, str, list[tarfile.TarInfo]]] = []
        self._ends = ends or (lambda _: Finished(0, b"", b"", False, False, 0.1))

    async def run(self, run: Run, sink: Any = None) -> Finished:
        """Note a command."""
        self.runs.append(run)
        return self._ends(run)

    async def put(self, archive: BinaryIO, user: User, folder: str) -> None:
        """Note files."""
        with tarfile.open(fileobj=archive) as opened:
            self.put_in.append((user.name, folder, opened.getmembers()))

    async def get(self, paths: Sequence[str], user: User, archive: BinaryIO, max_bytes: int) -> None:
        """Give an archive of nothing."""
        tarfile.open(fileobj=archive, mode="w|").close()


@pytest.fixture
def provision(tmp_path: Path) -> Callable[[Any], Provisioner]:
    """Return a way to make a provisioner of a twin."""
    recorder = Recorder(tmp_path / "log.jsonl", ["hidden-value"])
    return lambda twin: Provisioner(twin, USER, lambda user: {"WHO": user.name}, recorder)


Make = Callable[[Any], Provisioner]


async def test_commands_run_one_after_the_other_as_the_user_they_name(provision: Make) -> None:
    """In the home of that user, with that user's environment and the command's own time."""
    twin = Noting()
    await provision(twin).commands([Command("a", 5), Command("b", 6, "root"), Command("c", 7, "user")])
    seen = [(run.argv[2], run.user.name, run.environment["WHO"], run.cwd, run.timeout) for run in twin.runs]
    assert seen == [
        ("a", "user", "user", "/home/user", 5),
        ("b", "root", "root", "/root", 6),
        ("c", "user", "user", "/home/user", 7),
    ]


async def test_first_failure_ends_it(provision: Make, tmp_path: Path) -> None:
    """What failed is told with its words, without secrets; nothing after it runs; the log has it too."""
    twin = Noting(lambda run: Finished(4, b"out", b"with hidden-value", False, False, 0.1))
    with pytest.raises(TwinError, match=r"`a` ended with exit code 4:\nwith \[secret\]") as caught:
        await provision(twin).commands([Command("a"), Command("b")])
    assert caught.value.code == "provision_failed"
    assert len(twin.runs) == 1
    log = (tmp_path / "log.jsonl").read_text(encoding="utf-8")
    assert [json.loads(line)["event"] for line in log.splitlines()] == ["progress", "command"]
    assert "hidden-value" not in log


async def test_time_that_is_up_is_told_as_such(provision: Make) -> None:
    """Not as an exit code, which a killed command has as well."""
    twin = Noting(lambda run: Finished(137, b"", b"", True, False, 9.0))
    with pytest.raises(TwinError, match="not done after 9 s"):
        await provision(twin).commands([Command("a", 9)])


def test_unknown_user_is_named(provision: Make) -> None:
    """Only the profile's user and root exist."""
    with pytest.raises(TwinError, match="'nobody'") as caught:
        provision(Noting()).user_named("nobody")
    assert caught.value.code == "user_unknown"


@pytest.mark.parametrize(
    ("dest", "folder", "name"),
    [
        ("~/a/b", "/home/user/a", "b"),
        ("a", "/home/user", "a"),
        ("/etc/x", "/etc", "x"),
        ("/x", "/", "x"),
        ("~/folder/", "/home/user/folder", "source"),
        ("/", "/", "source"),
    ],
)
async def test_place_of_a_pushed_file(provision: Make, tmp_path: Path, dest: str, folder: str, name: str) -> None:
    """`~` and relative paths start at the user's home; a path that ends with a slash is the folder."""
    (tmp_path / "source").write_text("x", encoding="utf-8")
    twin = Noting()
    pushed = await provision(twin).push(PushedFile(tmp_path / "source", dest))
    [(user, place, members)] = twin.put_in
    assert (user, place, [member.name for member in members]) == ("user", folder, [name])
    assert pushed == f"{folder.rstrip('/')}/{name}"
    # The user's home is there.
    made = [] if folder == "/home/user" else [f"mkdir -p -- {folder}"]
    assert [run.argv[2] for run in twin.runs] == made


async def test_folder_of_several_files_is_made_once(provision: Make, tmp_path: Path) -> None:
    """Files that go to one folder need it made once; another folder is another one."""
    (tmp_path / "source").write_text("x", encoding="utf-8")
    twin = Noting()
    provisioner = provision(twin)
    for dest in ("~/a/x", "~/a/y", "~/b/x", "~/a/z"):
        await provisioner.push(PushedFile(tmp_path / "source", dest))
    assert [run.argv[2] for run in twin.runs] == ["mkdir -p -- /home/user/a", "mkdir -p -- /home/user/b"]
    assert [place for _, place, _ in twin.put_in] == [f"/home/user/{name}" for name in "aaba"]


@pytest.mark.parametrize(
    ("uid", "gid", "who", "owner"),
    [
        (None, None, "user", (1000, 1000)),
        (1000, 1000, "user", (1000, 1000)),
        (0, None, "root", (0, 0)),
        (1234, None, "root", (1234, 1234)),
        (None, 50, "root", (1000, 50)),
    ],
)
async def test_owner_of_a_pushed_file(
    provision: Make, tmp_path: Path, uid: int | None, gid: int | None, who: str, owner: tuple[int, int]
) -> None:
    """Files of anybody but the user are put there by root, who alone can give them away."""
    (tmp_path / "source").write_text("x", encoding="utf-8")
    twin = Noting()
    await provision(twin).push(PushedFile(tmp_path / "source", "~/x", create_dirs=False, uid=uid, gid=gid))
    [(user, _, [member])] = twin.put_in
    assert (user, (member.uid, member.gid)) == (who, owner)
    assert twin.runs == []


async def test_folders_of_the_users_home_are_the_users(provision: Make, tmp_path: Path) -> None:
    """A file of root's in the user's home does not take the folders above it away from the user."""
    (tmp_path / "source").write_text("x", encoding="utf-8")
    twin = Noting()
    for place in ("~/a/b/c", "/opt/a/b"):
        await provision(twin).push(PushedFile(tmp_path / "source", place, uid=0))
    assert [run.user.name for run in twin.runs] == ["user", "root"]


async def test_folder_that_cannot_be_made_is_told(provision: Make, tmp_path: Path) -> None:
    """With its place and the system's words."""
    (tmp_path / "source").write_text("x", encoding="utf-8")
    twin = Noting(lambda run: Finished(1, b"", b"Permission denied", False, False, 0.0))
    with pytest.raises(TwinError, match=r"/srv/it's here: .*Permission denied") as caught:
        await provision(twin).push(PushedFile(tmp_path / "source", "/srv/it's here/x"))
    assert caught.value.code == "push_failed"
    assert twin.runs[0].argv[2] == "mkdir -p -- '/srv/it'\"'\"'s here'"
    assert twin.put_in == []


async def test_nothing_pulled_is_an_error(provision: Make, tmp_path: Path) -> None:
    """A pattern that finds nothing does not look like success."""
    with pytest.raises(TwinError, match="no such file") as caught:
        await provision(Noting()).pull("~/a*", tmp_path / "out")
    assert caught.value.code == "file_missing"


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_expanded_paths_are_absolute(path: str) -> None:
    """Whatever is written, a path inside is absolute, and an absolute one stays as it is."""
    found = expanded(path, USER)
    assert found.startswith("/")
    assert found == path or found == f"/home/user/{path}" or (path[:1] == "~" and found == f"/home/user{path[1:]}")
    assert not path.startswith("/") or found == path
