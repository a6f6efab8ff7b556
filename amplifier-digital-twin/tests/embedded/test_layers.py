"""Layers: what is kept, what comes back, and who wins over whom."""

from __future__ import annotations

import hashlib
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.embedded.id_maps import IdMap, Range
from amplifier_digital_twin.embedded.layers import Kept, Node, check_name, settle, with_parents, write_layer
from amplifier_digital_twin.errors import TwinError


@pytest.fixture(params=["overlay", "copy"])
def stacking(request: pytest.FixtureRequest, keeper: Any) -> Any:
    """A keeper that stacks layers, and one that has to copy them."""
    if request.param == "overlay":
        return keeper
    keeper.order("forbid_overlays")
    assert "layers are copied: not in this test" in keeper.order("create", "copied")["notes"]
    return keeper


def test_reset_goes_back_to_the_start(stacking: Any) -> None:
    """Without a name everything written since the start is gone, and what was removed is there again."""
    stacking.order("create", files={"/etc/made": ["once", 0o644], "/home/user/made": ["his", 0o600]})
    stacking.shell("echo x > ~/file; rm ~/made; mkdir ~/folder; sleep 600 &")
    stacking.order("reset")
    assert stacking.shell("ls ~; cat ~/made /etc/made; stat -c %U:%a ~ ~/made") == "made\nhisonceuser:700\nuser:600\n"
    assert "sleep" not in stacking.shell("cat /proc/[0-9]*/comm")


def test_snapshots_come_back(stacking: Any) -> None:
    """A snapshot holds files, removals, replaced folders, links, owners, permissions and times, and can be built on."""
    stacking.order("create")
    stacking.shell("echo x > ~/gone; mkdir ~/folder; echo x > ~/folder/old")
    stacking.order("snapshot", name="before")
    stacking.order("reset", name="before")
    stacking.shell(
        "cd; rm gone; rm -r folder; mkdir folder; echo new > folder/new; ln -s new folder/link; ln folder/new hard; "
        "chmod 640 folder/new; touch -d 2001-02-03T04:05:06Z folder; mkdir closed; echo in > closed/in; chmod 0 closed"
    )
    stacking.order("snapshot", name="first")
    look = "cd; ls; ls folder; readlink folder/link; stat -c %a:%h:%Y folder/new folder | head -c 5; stat -c %Y folder"
    seen = stacking.shell(look)
    assert seen == "closed\nfolder\nhard\nlink\nnew\nnew\n640:2981173106\n"
    stacking.shell("rm -rf ~/folder; echo later > ~/later")
    stacking.order("reset", name="first")
    assert stacking.shell(look) == seen
    stacking.shell("echo two > ~/two")
    stacking.order("snapshot", name="second")
    stacking.order("reset", name="first")
    assert stacking.shell("ls ~") == "closed\nfolder\nhard\n"
    stacking.order("reset", name="second")
    assert stacking.shell("cat ~/two ~/folder/new; chmod 700 ~/closed; cat ~/closed/in") == "two\nnew\nin\n"


def test_a_snapshot_can_be_replaced_while_it_is_in_use(stacking: Any) -> None:
    """A snapshot taken under the name of the one the universe stands on holds what it held, and the changes."""
    stacking.order("create")
    stacking.shell("echo 1 > ~/one")
    stacking.order("snapshot", name="same")
    stacking.order("reset", name="same")
    stacking.shell("echo 2 > ~/two")
    stacking.order("snapshot", name="same")
    assert stacking.shell("cat ~/one ~/two") == "1\n2\n"
    stacking.order("reset", name="same")
    assert stacking.shell("cat ~/one ~/two") == "1\n2\n"


def test_a_provisioned_layer_starts_another_universe(stacking: Any) -> None:
    """What one universe kept for all is there in the next, writable, under files and accounts of its own."""
    stacking.order("create", "maker", files={"/etc/hosts": ["old\n", 0o644]})
    stacking.shell("echo kept > ~/file; mkdir ~/sub; rm -f /tmp/x", "maker")
    assert not stacking.order("has_layer", name="ready")
    stacking.order("snapshot", "maker", name="ready", cache=True)
    assert stacking.order("has_layer", name="ready")
    stacking.order("destroy", "maker")
    stacking.order("create", "taker", layer="ready", files={"/etc/hosts": ["new\n", 0o644]})
    assert stacking.shell("cat ~/file /etc/hosts; echo more >> ~/file; touch ~/sub/x && echo fine", "taker") == (
        "kept\nnew\nfine\n"
    )
    stacking.order("snapshot", "taker", name="further", cache=True)
    stacking.order("create", "third", layer="further")
    assert stacking.shell("cat ~/file; ls ~/sub", "third") == "kept\nmore\nx\n"
    stacking.order("create", "fourth", layer="ready")
    assert stacking.shell("cat ~/file; ls ~/sub", "fourth") == "kept\n"


def test_files_of_the_start_win_over_layers(stacking: Any) -> None:
    """A file that a layer holds too is the one of this start."""
    stacking.order("create", "maker", files={"/home/user/.config/a": ["old", 0o644]})
    stacking.shell("echo changed > ~/.config/a; echo b > ~/.config/b", "maker")
    stacking.order("snapshot", "maker", name="changed", cache=True)
    stacking.order("create", "taker", layer="changed", files={"/home/user/.config/a": ["new", 0o600]})
    assert stacking.shell("cat ~/.config/a ~/.config/b; stat -c %a:%U ~/.config/a", "taker") == "newb\n600:user\n"


def test_a_provisioned_layer_is_never_changed(keeper: Any) -> None:
    """Two universes at once that keep the same name do no harm, and the first stays."""
    for universe in ("one", "two"):
        keeper.order("create", universe)
        keeper.shell(f"echo {universe} > ~/file", universe)
    keeper.order("snapshot", "one", name="same", cache=True)
    keeper.order("snapshot", "two", name="same", cache=True)
    keeper.order("create", "three", layer="same")
    assert keeper.shell("cat ~/file", "three") == "one\n"
    assert list((keeper.folder / "cache").rglob(".aside-*")) == []


def test_a_missing_snapshot_names_those_there_are(keeper: Any) -> None:
    """Going back to what was never kept is an error that says what can be had; the universe runs on."""
    keeper.order("create")
    keeper.order("snapshot", name="there")
    with pytest.raises(keeper.refusal, match="'other'") as caught:
        keeper.order("reset", name="other")
    assert caught.value.code == "snapshot_missing"
    assert "there" in caught.value.remedy
    assert keeper.shell("echo runs") == "runs\n"


def test_a_missing_layer_is_an_error(keeper: Any) -> None:
    """A launch from a layer that is gone fails and leaves nothing."""
    with pytest.raises(keeper.refusal, match="no layer") as caught:
        keeper.order("create", layer="gone")
    assert caught.value.code == "layer_missing"
    assert list((keeper.folder / "universes" / keeper.id_of("one")).iterdir()) == []


def test_tools_of_the_host_are_on_the_path(keeper: Any, tmp_path: Path) -> None:
    """A program of the host is copied, and copied again when it has changed."""
    tool = keeper.folder / "say tool"
    for word in ("first", "second!"):
        tool.write_text(f"#!/bin/sh\necho {word}\n", encoding="utf-8")
        tool.chmod(0o755)
        keeper.order("create", word.strip("!"), tools={"say": str(tool)})
        assert keeper.shell("say; command -v say", word.strip("!")) == f"{word}\n/opt/twin/bin/say\n"
    with pytest.raises(keeper.refusal, match="is no program"):
        keeper.order("create", "third", tools={"say": str(tmp_path / "none")})


def test_a_tree_in_an_archive_is_a_base(keeper: Any) -> None:
    """A tar base is unpacked once, with its owners where there is a root, and its accounts stay beside the user's."""
    root = keeper.folder / "tree"
    with ThreadPoolExecutor(1):
        archive = _busy_archive(root)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    for universe in ("one", "two"):
        keeper.order("create", universe, tar=[str(archive), digest])
    assert keeper.shell("cat /etc/mark; grep -c special /etc/passwd; id -un", "two") == "of the archive\n1\nuser\n"
    assert keeper.order("run", "two", shell="ls /usr/bin/env")["code"] != 0
    if keeper.has_root:
        assert keeper.shell("stat -c %u /etc/mark", "two") == "7\n"


def _busy_archive(root: Path) -> Path:
    """Make an archive with a shell that needs nothing else, and a few files."""
    import subprocess

    names = ["sh", "cat", "grep", "id", "ls", "stat"]
    root.mkdir()
    archive = root.with_suffix(".tar")
    with tarfile.open(archive, "w") as tar:
        files: set[str] = set()
        for name in names:
            path = str(Path(f"/usr/bin/{name}").resolve())
            info = tar.gettarinfo(path, arcname=f"./bin/{name}")
            with open(path, "rb") as file:
                tar.addfile(info, file)
            words = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout.split()
            files |= {word for word in words if word.startswith("/")}
        for path in files:
            info = tar.gettarinfo(str(Path(path).resolve()), arcname=f".{path}")
            with open(path, "rb") as file:
                tar.addfile(info, file)
        for path, text in (("etc/mark", "of the archive\n"), ("etc/passwd", "special:x:9:9::/:/bin/sh\n")):
            source = root / "file"
            source.write_text(text, encoding="utf-8")
            info = tar.gettarinfo(str(source), arcname=f"./{path}")
            info.uid, info.mode = 7, 0o644
            with source.open("rb") as file:
                tar.addfile(info, file)
    return archive


def test_paths_of_a_layer_are_plain() -> None:
    """A path that would lead out of the layer, or is not plain, is refused."""
    for path in ("relative", "/a/../b", "/a//b", "/a/", "/", "/a\0b"):
        if path == "/":
            continue
        with pytest.raises(TwinError, match="plain absolute path"):
            with_parents({path: Node(content=b"")})


def test_parents_come_before_what_is_in_them() -> None:
    """Folders that lead to a node are made first, and one that is named keeps its own permissions."""
    nodes = with_parents({"/a/b/c": Node(content=b""), "/a": Node(0o700)})
    assert list(nodes) == ["/a", "/a/b", "/a/b/c"]
    assert nodes["/a"].mode == 0o700


async def test_layers_are_written_as_this_user(tmp_path: Path) -> None:
    """Without a root inside everything belongs to the one user; modes hold, whatever the umask is."""
    ids = IdMap("single", (Range(0, 1, 1),), (Range(0, 1, 1),))
    nodes = {"/x/file": Node(0o4755, b"a"), "/x/link": Node(target="/etc/shadow"), "/open": Node(0o1777)}
    await write_layer(tmp_path / "layer", nodes, ids)
    assert (tmp_path / "layer/x/file").stat().st_mode & 0o7777 == 0o4755
    assert (tmp_path / "layer/open").stat().st_mode & 0o7777 == 0o1777
    assert (tmp_path / "layer/x/link").readlink() == Path("/etc/shadow")


def test_a_finished_folder_takes_its_name_once(tmp_path: Path) -> None:
    """When another has been quicker, its folder stays."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name, encoding="utf-8")
        settle(tmp_path / name, tmp_path / "target")
    assert (tmp_path / "target/file").read_text(encoding="utf-8") == "first"
    assert (tmp_path / "second").is_dir()
    with pytest.raises(FileNotFoundError):
        settle(tmp_path / "none", tmp_path / "other")


def test_kept_layers_are_ordered_by_number(tmp_path: Path) -> None:
    """The topmost comes first, and ten is above nine."""
    for number in range(11):
        (tmp_path / str(number)).mkdir()
    assert [path.name for path in Kept(tmp_path).stack()][:2] == ["10", "9"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".hidden", "a b", "ä\n"])
def test_names_of_snapshots_are_plain(name: str) -> None:
    """A name that is no plain name of a folder is refused."""
    with pytest.raises(TwinError) as caught:
        check_name(name)
    assert caught.value.code == "name_invalid"
