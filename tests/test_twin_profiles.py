"""The profiles that ship say what the README, the Makefile and their own folders say."""

import re
from pathlib import Path

import pytest

from amplifier_digital_twin.profile.load import load, locate, shipped_names
from amplifier_digital_twin.profile.model import Profile

ROOT = Path(__file__).resolve().parent.parent
HOSTILE = locate("hostile-module").with_suffix("")


def _profile(name: str, **more: str) -> Profile:
    return load(name, {"REPO": str(ROOT), **more}).profile


def _block(page: Path, heading: str) -> str:
    """Return the first fenced block behind a heading."""
    text = page.read_text(encoding="utf-8").partition(f"\n{heading}\n")[2]
    return text.partition("\n```")[2].partition("\n")[2].partition("\n```")[0]


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_profile_is_valid(name: str) -> None:
    """A profile that ships is read without a fault or a note, has checks, and proves the tree it is given."""
    loaded = load(name, {"REPO": str(ROOT)})
    assert (loaded.profile.name, loaded.format, loaded.notes) == (name, "dtu-1", ())
    assert loaded.profile.checks
    assert [repository.path for repository in loaded.profile.repositories] == [ROOT]


def test_make_twin_runs_every_shipped_profile() -> None:
    """`make twin` proves with each profile that ships, and with no other."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    listed = re.findall(r"^TWIN_PROFILES := (.+)$", makefile, flags=re.MULTILINE)
    assert [sorted(line.split()) for line in listed] == [shipped_names()]


def test_the_page_of_the_digital_twin_lists_every_shipped_profile() -> None:
    """digital-twin.md says of each profile that ships what it proves, and of no other."""
    text = (ROOT / "docs" / "digital-twin.md").read_text(encoding="utf-8")
    table = text.partition("\n| Profile that ships |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `([^`]+)` \|", table, flags=re.MULTILINE)) == shipped_names()


def test_a_fresh_machine_runs_what_the_readme_says() -> None:
    """The commands under "Start" are, word for word, what a new user of a bare system runs in a clone."""
    commands = _block(ROOT / "README.md", "## Start").splitlines()
    profile = _profile("fresh-machine")
    clone, *later = [check.run for check in profile.checks]
    assert clone == f"git clone {profile.repositories[0].url} && cd amplifier"
    # Each check begins at home.
    first, second = (later.index(f"cd amplifier && {command}") for command in commands)
    assert first < second
    assert (profile.provision.files, profile.provision.commands) == ((), ())
    assert profile.base.image.startswith("debian:")
    assert profile.base.tools == ()


def test_the_address_of_a_fresh_machine_is_a_variable() -> None:
    """Who serves the tree at another address has the same commands with that one."""
    profile = _profile("fresh-machine", ADDRESS="https://example.com/them/amplifier")
    assert profile.checks[0].run == "git clone https://example.com/them/amplifier && cd amplifier"
    assert profile.repositories[0].url == "https://example.com/them/amplifier"


def test_every_hostile_module_is_run() -> None:
    """Each module of the profile has a bundle that mounts it, each bundle is run by one check, and no other is."""
    modules = sorted(path.name for path in (HOSTILE / "modules").iterdir())
    bundles = {path.stem: path.read_text(encoding="utf-8") for path in HOSTILE.glob("*.md")}
    run = [
        name for check in _profile("hostile-module").checks for name in re.findall(r"\./([\w-]+)\.md", check.run or "")
    ]
    assert modules
    assert sorted(bundles) == modules
    assert sorted(run) == modules
    for name, text in bundles.items():
        assert f"module: {name}\n" in text
        assert f"modules/{name}\n" in text


def test_the_example_of_the_package_is_valid(tmp_path: Path) -> None:
    """The profile in the package's README can be launched as it stands."""
    text = _block(ROOT / "amplifier-digital-twin" / "README.md", "## An example")
    path = tmp_path / "hello.yaml"
    path.write_text(text, encoding="utf-8")
    loaded = load(str(path), {})
    assert (loaded.profile.name, loaded.notes) == ("hello", ())


def test_the_links_of_the_package_lead_somewhere() -> None:
    """What the package's README refers to is there, and so are the headings."""
    page = ROOT / "amplifier-digital-twin" / "README.md"
    links = re.findall(r"\]\((?!https://)([^)]+)\)", page.read_text(encoding="utf-8"))
    assert links
    for path, _, anchor in (link.partition("#") for link in links):
        text = (page.parent / path).read_text(encoding="utf-8")
        headings = [re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()) for line in text.splitlines() if line[:1] == "#"]
        assert not anchor or anchor.replace("-", " ") in headings
