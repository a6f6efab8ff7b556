"""Whatever was installed from elsewhere than the universe served it is found, by looking at real environments."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Repository
from amplifier_digital_twin.provenance import verify
from amplifier_digital_twin.services.config import Served
from amplifier_digital_twin.services.git import export_all

MakeWheel = Callable[..., Path]
MakeSite = Callable[..., Any]
URL = "https://github.com/example/own"


def test_served_wheel_is_recognised(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """A wheel that the universe's index served is ok, though installers add files, programs and data of their own."""
    make_wheel()
    site = make_site()
    site.install("--compile-bytecode", "own")
    (found,) = site.look()
    assert found.is_ok, found.reason
    assert (found.name, found.version, found.source, found.expected) == ("own", "1.0", "wheel", "1.0")
    assert found.location.startswith("/home/user/venv/lib/")
    assert found.record()["is_ok"] is True


def test_other_version(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """A newer release of an overridden name came from elsewhere."""
    make_wheel()
    site = make_site()
    newer = make_wheel(version="9.0", folder="published")
    site.install("own", links=newer.parent)
    (found,) = site.look()
    assert not found.is_ok
    assert (found.expected, found.found) == ("1.0", "9.0")


def test_same_version_with_other_content(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """A published wheel of the very version that is overridden differs in content, and that is seen."""
    make_wheel()
    site = make_site()
    other = make_wheel("published = True\n", folder="published")
    site.install("own", links=other.parent)
    (found,) = site.look()
    assert not found.is_ok
    assert "own/__init__.py is not what own-1.0" in found.reason


@pytest.mark.parametrize("what", ["changed", "deleted", "linked", "odd", "extra", "record", "purelib"])
def test_tampering_after_the_installation(make_site: MakeSite, make_wheel: MakeWheel, what: str) -> None:
    """Files that were changed, removed, replaced by links or added to the record afterwards are seen."""
    make_wheel()
    site = make_site()
    site.install("own", "--link-mode=copy")
    module = site.packages / "own" / "__init__.py"
    record = site.packages / "own-1.0.dist-info" / "RECORD"
    if what == "changed":
        module.write_text("evil = True\n", encoding="utf-8")
    elif what == "deleted":
        module.unlink()
    elif what == "linked":
        module.rename(site.venv / "moved.py")
        module.symlink_to(site.venv / "moved.py")
    elif what == "odd":
        (site.packages / "own" / "data [x].txt").write_text("other\n", encoding="utf-8")
    elif what == "extra":
        record.write_text(record.read_text(encoding="utf-8") + "own/evil.py,sha256=x,1\n", encoding="utf-8")
    elif what == "record":
        record.unlink()
    else:
        (site.packages / "own_extra.py").write_text("EXTRA = 2\n", encoding="utf-8")
    (found,) = site.look()
    assert not found.is_ok


def test_folder_and_address_are_not_the_index(make_site: MakeSite, make_wheel: MakeWheel, tmp_path: Path) -> None:
    """An overridden name installed from a folder is not ok; from the very wheel that is served it is."""
    wheel = make_wheel()
    site = make_site()
    site.install(str(wheel))
    (found,) = site.look()
    assert found.is_ok, found.reason
    direct = site.packages / "own-1.0.dist-info" / "direct_url.json"
    direct.write_text(json.dumps({"url": "file:///src/own", "dir_info": {"editable": True}}), encoding="utf-8")
    (found,) = site.look()
    assert not found.is_ok
    assert "file:///src/own" in found.reason
    for damaged in ("", "[]", "{}", "{"):
        direct.write_text(damaged, encoding="utf-8")
        (found,) = site.look()
        assert not found.is_ok


def test_names(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """Only what was named is looked at, however it is spelled; what is named and missing is a finding."""
    make_wheel()
    make_wheel(name="other")
    site = make_site()
    site.install("own", "other")
    assert [found.name for found in site.look(("OWN",))] == ["own"]
    missing, present = site.look(("own", "absent_one"))
    assert (missing.name, missing.is_ok, missing.reason) == ("absent-one", False, "is not installed")
    assert present.is_ok
    assert len(site.look()) == 2


def test_caches_and_the_base_system(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """What lies in uv's cache is not installed; what the base system brings is not the profile's."""
    make_wheel()
    site = make_site()
    site.install("own")
    assert list(site.venv.parent.glob(".cache/uv/archive-v*/*/own-1.0.dist-info"))
    system = site.root / "usr/lib/python3/dist-packages/own-0.1.dist-info"
    system.mkdir(parents=True)
    old = site.packages / "own-0.2.egg-info"
    old.mkdir()
    sources = site.venv.parent / "src" / "own.egg-info"
    sources.mkdir(parents=True)
    findings = site.look()
    assert [(found.version, found.source, found.is_ok) for found in findings] == [
        ("0.2", "wheel", False),
        ("1.0", "wheel", True),
        ("0.1", "system", True),
    ]


def test_modules_that_run_from_their_folder(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """A module that amplifier only names is judged by the folder it runs from; others without a record are unknown."""
    make_wheel()
    site = make_site()
    info = site.venv.parent / ".amplifier/cache/installed/x-1/module_x-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: module-x\n", encoding="utf-8")
    (found,) = site.look()
    assert (found.source, found.is_ok) == ("unknown", False)
    (info / "INSTALLER").write_text("amplifier\n", encoding="utf-8")
    (found,) = site.look()
    assert (found.source, found.is_ok) == ("folder", True)
    own = info.rename(info.with_name("own-1.0.dist-info"))
    (found,) = site.look()
    assert (found.source, found.is_ok) == ("folder", True)
    (own / "INSTALLER").unlink()
    (found,) = site.look()
    assert (found.source, found.is_ok) == ("wheel", False)


def test_nothing_served(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """Packages that the profile does not speak of are reported as what they are; a name without a wheel is not ok."""
    wheel = make_wheel(folder="published")
    site = make_site()
    site.install("own", links=wheel.parent)
    (found,) = site.look()
    assert (found.source, found.is_ok) == ("index", True)
    site.served = Served(names=("Own",))
    (found,) = site.look()
    assert (found.source, found.is_ok) == ("wheel", False)


@pytest.mark.parametrize("said", ["", "{", "[]", "{}", '{"packages": [{}], "sources": [], "startup": []}'])
def test_unreadable_survey(said: str) -> None:
    """What is not the answer of the survey is an error, never a pass."""
    with pytest.raises(TwinError) as caught:
        verify(Served(), said)
    assert caught.value.code == "provenance_unknown"


class Mirrored(NamedTuple):
    """A repository that is served one commit ahead of what is published."""

    served: Served
    commits: dict[str, str]
    published: str
    config: str


@pytest.fixture
def mirrored(tmp_path: Path) -> Mirrored:
    """Serve a repository whose working tree is one commit ahead of what is published."""
    folder = tmp_path / "repository"
    folder.mkdir()
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com"]
    # Without the settings of whoever runs the tests: their hooks may refuse a commit, or want it signed.
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*words: str) -> str:
        done = subprocess.run([*command, *words], cwd=folder, env=environ, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    backend = Path(__file__).with_name("backend.txt").read_text(encoding="utf-8")
    (folder / "backend.py").write_text(backend, encoding="utf-8")
    (folder / "own.py").write_text("WHAT = 'old'\n", encoding="utf-8")
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (folder / "pyproject.toml").write_text(build + '[project]\nname = "own"\nversion = "1.0"\n', encoding="utf-8")
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "published")
    git("tag", "v1")
    (folder / "own.py").write_text("WHAT = 'new'\n", encoding="utf-8")
    found, _ = export_all([Repository(url=URL, path=folder)], tmp_path / "git")
    config = tmp_path / "gitconfig"
    config.write_text(f'[url "{found[0].folder.as_uri()}"]\n\tinsteadOf = {URL}.git\n', encoding="utf-8")
    served = Served(repositories=tuple(found))
    return Mirrored(served, found[0].commits, git("rev-parse", "HEAD"), str(config))


def direct_url(site: Any, url: str, commit: str, asked: str | None) -> None:
    """Write what an installer would have written."""
    info: dict[str, str] = {"vcs": "git", "commit_id": commit}
    if asked is not None:
        info["requested_revision"] = asked
    place = site.packages / "own-1.0.dist-info" / "direct_url.json"
    place.write_text(json.dumps({"url": url, "vcs_info": info}), encoding="utf-8")


@pytest.mark.parametrize("ref", ["", "@main", "@v1", "@commit"])
def test_served_commit_is_recognised(make_site: MakeSite, mirrored: Mirrored, ref: str) -> None:
    """What was installed from our server is ok: HEAD, a branch, a tag, a commit of the history."""
    site = make_site(repositories=mirrored.served.repositories)
    ref = f"@{mirrored.published}" if ref == "@commit" else ref
    site.install(f"git+{URL}.git{ref}", GIT_CONFIG_GLOBAL=mirrored.config)
    (found,) = site.look()
    assert found.is_ok, found.reason
    assert found.source == "git"
    expected = mirrored.published if ref not in ("", "@main") else mirrored.commits["HEAD"]
    assert found.expected == found.found == expected


def test_wrong_commits(make_site: MakeSite, mirrored: Mirrored) -> None:
    """Commits that are not served for what was asked for are not ok, though they may be in the served history."""
    served, published = mirrored.commits["HEAD"], mirrored.published
    site = make_site(repositories=mirrored.served.repositories)
    site.install(f"git+{URL}.git@main", GIT_CONFIG_GLOBAL=mirrored.config)
    cases = [
        (URL, served, "main", True),
        (URL.upper().replace("HTTPS", "https"), served, None, True),
        ("ssh://git@github.com/example/own.git", served, None, True),
        (URL, published, published, True),
        (URL, published, published[:12], True),
        (URL, published, None, False),
        (URL, published, "main", False),
        (URL, "0" * 40, "main", False),
        (URL, "0" * 40, "0" * 40, False),
        (URL, served, published, False),
        (URL, served, "gone", False),
        (URL, "", None, False),
        ("https://github.com/example/own-extra", served, "main", False),
        ("https://elsewhere.example/a/own", served, "main", True),
    ]
    for url, commit, asked, is_ok in cases:
        direct_url(site, url, commit, asked)
        (found,) = site.look()
        assert found.is_ok is is_ok, (url, commit, asked, found)
    direct_url(site, URL, published, "main")
    (found,) = site.look()
    assert (found.expected, found.found) == (served, published)
    assert "past the server" in found.reason
    site.served = Served()
    (found,) = site.look()
    assert found.is_ok


def test_repositories_that_amplifier_fetched(make_site: MakeSite, mirrored: Mirrored) -> None:
    """Modules that amplifier fetched by itself are judged by the commit that it recorded."""
    published = mirrored.published
    site = make_site(repositories=mirrored.served.repositories)
    record = site.venv.parent / ".amplifier" / "cache" / "own-1234" / ".amplifier_cache_meta.json"
    record.parent.mkdir(parents=True)
    served = mirrored.commits["HEAD"]
    for commit, is_ok in ((served, True), (published, False), ("", False)):
        record.write_text(json.dumps({"git_url": URL, "ref": "main", "commit": commit}), encoding="utf-8")
        (found,) = site.look()
        assert (found.name, found.source, found.is_ok) == ("own-1234", "git", is_ok)
    record.write_text("damaged", encoding="utf-8")
    (found,) = site.look()
    assert (found.source, found.is_ok) == ("unknown", False)
    record.write_text(json.dumps({"git_url": "https://x.example/a.zip", "ref": "", "commit": None}), encoding="utf-8")
    assert site.look() == []


def test_files_that_python_runs_by_itself(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """A file that Python runs when it starts, and that no installation brought, is a finding."""
    make_wheel()
    site = make_site()
    site.install("own")
    (site.packages / "shadow.pth").write_text("import os\n", encoding="utf-8")
    (site.packages / "sitecustomize.py").write_text("\n", encoding="utf-8")
    wrong = [found for found in site.look() if not found.is_ok]
    assert sorted(found.name.rpartition("/")[2] for found in wrong) == ["shadow.pth", "sitecustomize.py"]
    assert all("no RECORD lists it" in found.reason for found in wrong)


def test_nothing_hides_in_a_record(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """What Python runs is found in folders that look like a record, too; records in a record are parts of it."""
    make_wheel()
    site = make_site()
    site.install("own")
    inner = site.packages / "looks-1.0.dist-info" / "lib" / "site-packages"
    (inner / "inner-1.0.dist-info").mkdir(parents=True)
    (inner / "hidden.pth").write_text("import os\n", encoding="utf-8")
    wrong = [found for found in site.look() if not found.is_ok]
    assert sorted(found.name.rpartition("/")[2] for found in wrong) == ["hidden.pth", "looks"]
