"""Bundles in odd places and odd encodings."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.bundles import BundleError


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
async def test_bom_and_line_ends(place: Any, newline: str, bom: str) -> None:
    """A byte order mark and any line ends change nothing, and lines are counted all the same."""
    files = {
        "a.md": "---\nbundle: {name: a}\nincludes:\n  - ./b.yaml\n---\nBe kind.\n",
        "b.yaml": "session: {b: 1}\n",
        "bad.md": "---\nbundle: {name: bad}\nincludes:\n  - ./gone.yaml\n---\n",
    }
    for name, text in files.items():
        place.write(f"project/{name}", bom + text.replace("\n", newline))
    bundle = await place.loader().load("./a.md")
    assert (bundle.session, bundle.instruction) == ({"b": 1}, "Be kind.")
    with pytest.raises(BundleError, match=r"bad\.md:4:"):
        await place.loader().load("./bad.md")


@pytest.mark.parametrize(
    "name", ["a b", "ünïcødé", "日本", "#hash", "per%20cent", "quo'te", "a:b", "-dash", "glob*[x]"]
)
async def test_paths_with_any_characters(place: Any, name: str) -> None:
    """Folders and files of any name hold bundles, include each other and have modules."""
    place.write(f"project/{name}/bundle.md", f'---\nincludes:\n  - "./{name}/x y.yaml"\n---\n')
    place.write(f"project/{name}/{name}/x y.yaml", "tools: [{module: t, source: ./mödule}]\n")
    (place.project / name / "mödule").mkdir()
    bundle = await place.loader().load(f"./{name}")
    assert bundle.tools[0]["source"] == str(place.project / name / "mödule")
    assert bundle.name == name


async def test_file_address_with_escaped_blanks(place: Any) -> None:
    """`file://` addresses with %20 and with a part are understood."""
    place.write("a b/sub/bundle.yaml", "session: {x: 1}\n")
    address = f"file://{place.folder}/a%20b#subdirectory=sub"
    assert (await place.loader().load(address)).session == {"x": 1}


async def test_linked_project(place: Any) -> None:
    """A project that is reached through a link is the project, whichever name is used."""
    place.write("project/bundle.md", "---\nincludes: [./behaviors/x.yaml]\n---\n")
    place.write("project/behaviors/x.yaml", "tools: [{module: t, source: ./m}]\n")
    (place.project / "m").mkdir()
    link = place.folder / "link"
    link.symlink_to(place.project)
    for project in (link, place.project):
        place.project = project
        for reference in (str(link), str(link.resolve())):
            bundle = await place.loader().load(reference)
            assert {layer.owner for layer in bundle.layers} == {"project"}
            assert Path(bundle.tools[0]["source"]) == link.resolve() / "m"


async def test_linked_behaviors_folder(place: Any) -> None:
    """A folder of behaviors that is a link to a shared one works: relative includes go where the link leads."""
    place.write("project/bundle.md", "---\nincludes: [./behaviors/x.yaml]\n---\n")
    place.write("shared/x.yaml", "includes: [./y.yaml]\n")
    place.write("shared/y.yaml", "session: {y: 1}\n")
    (place.project / "behaviors").symlink_to(place.folder / "shared")
    assert (await place.loader().load(".")).session == {"y": 1}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"session: {a: \xff}\n", "b.yaml:1: not UTF-8"),
        (b"a: 1\n\xfe\n", "b.yaml:2: not UTF-8"),
        (b"session: &a {x: *a}\n", "b.yaml:1: "),
        (b"session: {}\nsession: {}\n", "b.yaml:2: the key 'session' is given twice"),
        (b"session: !!python/object:os.system {}\n", "b.yaml:1: malformed YAML"),
        (b"\x00", "b.yaml:1: "),
    ],
)
async def test_files_that_are_no_text(place: Any, content: bytes, said: str) -> None:
    """What cannot be understood is told with file and line, never as a traceback."""
    (place.project / "b.yaml").write_bytes(content)
    with pytest.raises(BundleError) as caught:
        await place.loader().load("./b.yaml")
    assert said in str(caught.value)


async def test_folder_that_is_a_file_and_the_other_way(place: Any) -> None:
    """A folder named like a bundle file, and a file in place of a folder, are told."""
    (place.project / "b.yaml").mkdir()
    with pytest.raises(BundleError, match=r"b\.yaml: no bundle\.md or bundle\.yaml in this folder"):
        await place.loader().load("./b.yaml")
    place.write("project/file.txt", "x")
    with pytest.raises(BundleError, match=r"a bundle is a \.md or \.yaml file, not \.txt"):
        await place.loader().load("./file.txt")
    with pytest.raises(BundleError, match="no bundle at"):
        await place.loader().load("./file.txt/x.yaml")


async def test_links_that_go_in_circles(place: Any) -> None:
    """A link to itself is a bundle that is not there."""
    (place.project / "loop.yaml").symlink_to("loop.yaml")
    with pytest.raises(BundleError, match=r"loop\.yaml"):
        await place.loader().load("./loop.yaml")


def test_locale_without_unicode(place: Any) -> None:
    """Files are UTF-8 whatever the locale says."""
    place.write("project/b.md", "---\nbundle: {name: grün}\n---\nSei höflich.")
    program = (
        "import sys; from pathlib import Path; from amplifier_foundation.bundles import load_bundle_file;"
        "b = load_bundle_file(Path(sys.argv[1])); sys.stdout.buffer.write((b.name + b.instruction).encode())"
    )
    environment = {"PATH": "", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(place.project / "b.md")], env=environment, capture_output=True, check=True
    )
    assert done.stdout.decode() == "grünSei höflich."


async def test_a_bundle_below_a_home_that_nobody_knows(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~/x` in a bundle is an error with its line where the home directory cannot be told, and no crash."""

    def nobody(user: int) -> None:
        raise KeyError(user)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", nobody)
    place.write("project/a.yaml", "bundle: {name: a}\nincludes:\n  - ~/x.yaml\n")
    with pytest.raises(BundleError, match=r"a\.yaml:3: the include '~/x\.yaml' cannot be used: .*home directory"):
        await place.loader().load("./a.yaml")
