"""Objects written without git are those that git would have written."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.object_store import Entry, ObjectStore

#: Names that sort differently as files and as folders.
PARTS = st.sampled_from([b"a", b"a-b", b"a.txt", b"a0", b"A", b"b", b"\xff", b"a b"])
PATHS = st.lists(PARTS, min_size=1, max_size=3).map(b"/".join)


def is_possible(paths: set[bytes]) -> bool:
    """Tell whether no path is a folder of another one."""
    return not any(other.startswith(path + b"/") for path in paths for other in paths)


@given(st.sets(PATHS, max_size=8), st.sampled_from(["sha1", "sha256"]))
def test_trees_are_those_of_git(paths: set[bytes], object_format: str) -> None:
    """The tree has the name that git gives it; contradictions are refused."""
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare.git"
        init = ["git", "init", "-q", "--bare", f"--object-format={object_format}", str(bare)]
        subprocess.run(init, check=True)
        store = ObjectStore(bare, object_format)
        entries = {path: Entry(b"100644", store.write("blob", path)) for path in paths}
        if not is_possible(paths):
            with pytest.raises(TwinError):
                store.write_tree(entries, set())
            return
        own = store.write_tree(entries, set())
        listed = b"".join(b"100644 %s 0\t%s\0" % (entry.object.encode(), path) for path, entry in entries.items())
        git = ["git", f"--git-dir={bare}"]
        subprocess.run([*git, "update-index", "-z", "--index-info"], input=listed, check=True)
        tree = subprocess.run([*git, "write-tree"], capture_output=True, check=True).stdout.decode().strip()
        assert own == tree
        subprocess.run([*git, "fsck", "--strict"], check=True, capture_output=True)


def test_known_trees_are_not_written(tmp_path: Path) -> None:
    """A folder whose tree is known elsewhere is named and not written."""
    (tmp_path / "objects").mkdir()
    store = ObjectStore(tmp_path, "sha1")
    entries = {b"same/f": Entry(b"100644", "1" * 40), b"other/f": Entry(b"100644", "2" * 40)}
    same = ObjectStore(tmp_path, "sha1").write_tree({b"f": entries[b"same/f"]}, set())
    place = tmp_path / "objects" / same[:2] / same[2:]
    place.unlink()
    store.write_tree(entries, {same})
    assert not place.exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link in place of a file is an error, never what it points to."""
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(OSError):
        ObjectStore(tmp_path, "sha1").write_file(bytes(tmp_path / "link"))
