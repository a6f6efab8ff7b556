"""Whatever was installed from elsewhere than the universe served it is found, by looking at real environments."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.profile.model import Repository, User
from amplifier_digital_twin.provenance import Finding, check_provenance
from amplifier_digital_twin.services.decisions import Decisions
from amplifier_digital_twin.services.git_mirror import GitMirror

MakeWheel = Callable[..., Path]
MakeSite = Callable[..., Awaitable[Any]]
USER = User()
URL = "https://github.com/example/own"


async def look(site: Any, mirror: GitMirror | None = None, names: Any = "all") -> list[Finding]:
    """Check what is installed in the stand-in."""
    return await check_provenance(site.twin, USER, mirror, site.index, names)


async def test_served_wheel_is_recognised(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """A wheel that the universe's index served is ok, though installers add files, programs and data of their own."""
    site = await make_site({"own": [make_wheel()]})
    await site.install("--compile-bytecode", "own")
    (found,) = await look(site)
    assert found.is_ok, found.reason
    assert (found.name, found.version, found.source, found.expected) == ("own", "1.0", "wheel", "1.0")
    assert found.location.startswith("/home/user/venv/lib/")
    assert found.record()["is_ok"] is True


async def test_other_version(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """A newer release of an overridden name came from elsewhere."""
    site = await make_site({"own": [make_wheel()]})
    newer = make_wheel(version="9.0", folder="published")
    await site.install("--no-index", "--find-links", str(newer.parent), "own")
    (found,) = await look(site)
    assert not found.is_ok
    assert (found.expected, found.found) == ("1.0", "9.0")


async def test_same_version_with_other_content(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """A published wheel of the very version that is overridden differs in content, and that is seen."""
    site = await make_site({"own": [make_wheel()]})
    other = make_wheel("published = True\n", folder="published")
    await site.install("--no-index", "--find-links", str(other.parent), "own")
    (found,) = await look(site)
    assert not found.is_ok
    assert "own/__init__.py is recorded as sha256=" in found.reason


@pytest.mark.parametrize("what", ["changed", "deleted", "linked", "odd", "extra", "record", "purelib"])
async def test_tampering_after_the_installation(make_site: MakeSite, make_wheel: MakeWheel, what: str) -> None:
    """Files that were changed, removed, replaced by links or added to the record afterwards are seen."""
    site = await make_site({"own": [make_wheel()]})
    await site.install("own", "--link-mode=copy")
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
    (found,) = await look(site)
    assert not found.is_ok


@pytest.mark.parametrize("path", ["own/__init__.py", "own-1.0.data/purelib/own_extra.py"])
async def test_file_without_a_hash_is_not_believed(make_site: MakeSite, make_wheel: MakeWheel, path: str) -> None:
    """A wheel whose RECORD lists a file without its hash cannot be compared, and the reason says so."""
    wheel = make_wheel()
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    lines = files["own-1.0.dist-info/RECORD"].splitlines()
    lines = [f"{path},," if line.startswith(f"{path},") else line for line in lines]
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, "own-1.0.dist-info/RECORD": "\n".join([*lines, ""])}.items():
            archive.writestr(name, text)
    site = await make_site({"own": [wheel]})
    await site.install("own")
    (found,) = await look(site)
    assert (found.is_ok, "has no hash in the RECORD of own-1.0-py3-none-any.whl" in found.reason) == (False, True)


async def test_folder_and_address_are_not_the_index(make_site: MakeSite, make_wheel: MakeWheel, tmp_path: Path) -> None:
    """An overridden name installed from a folder is not ok; from the very wheel that is served it is."""
    wheel = make_wheel()
    site = await make_site({"own": [wheel]})
    await site.install(str(wheel))
    (found,) = await look(site)
    assert found.is_ok, found.reason
    direct = site.packages / "own-1.0.dist-info" / "direct_url.json"
    direct.write_text(json.dumps({"url": "file:///src/own", "dir_info": {"editable": True}}), encoding="utf-8")
    (found,) = await look(site)
    assert not found.is_ok
    assert "file:///src/own" in found.reason
    for damaged in ("", "[]", "{}", "{"):
        direct.write_text(damaged, encoding="utf-8")
        (found,) = await look(site)
        assert not found.is_ok


async def test_names(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """Only what was named is looked at, however it is spelled; what is named and missing is a finding."""
    site = await make_site({"own": [make_wheel()], "other": [make_wheel(name="other")]})
    await site.install("own", "other")
    assert [found.name for found in await look(site, names=("OWN",))] == ["own"]
    missing, present = await look(site, names=("own", "absent_one"))
    assert (missing.name, missing.is_ok, missing.reason) == ("absent-one", False, "is not installed")
    assert present.is_ok
    assert len(await look(site)) == 2


async def test_caches_and_the_base_system(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """What lies in uv's cache is not installed; what the base system brings is not the profile's."""
    site = await make_site({"own": [make_wheel()]})
    await site.install("own")
    assert list(site.venv.parent.glob(".cache/uv/archive-v*/*/own-1.0.dist-info"))
    system = site.twin.root / "usr/lib/python3/dist-packages/own-0.1.dist-info"
    system.mkdir(parents=True)
    old = site.packages / "own-0.2.egg-info"
    old.mkdir()
    sources = site.venv.parent / "src" / "own.egg-info"
    sources.mkdir(parents=True)
    findings = await look(site)
    assert [(found.version, found.source, found.is_ok) for found in findings] == [
        ("0.2", "wheel", False),
        ("1.0", "wheel", True),
        ("0.1", "system", True),
    ]


async def test_modules_that_run_from_their_folder(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """A module that amplifier only names is judged by the folder it runs from; others without a record are unknown."""
    site = await make_site({"own": [make_wheel()]})
    info = site.venv.parent / ".amplifier/cache/installed/x-1/module_x-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: module-x\n", encoding="utf-8")
    (found,) = await look(site)
    assert (found.source, found.is_ok) == ("unknown", False)
    (info / "INSTALLER").write_text("amplifier\n", encoding="utf-8")
    (found,) = await look(site)
    assert (found.source, found.is_ok) == ("folder", True)
    own = info.rename(info.with_name("own-1.0.dist-info"))
    (found,) = await look(site)
    assert (found.source, found.is_ok) == ("folder", True)
    (own / "INSTALLER").unlink()
    (found,) = await look(site)
    assert (found.source, found.is_ok) == ("wheel", False)


async def test_nothing_served(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """Packages that the profile does not speak of are reported as what they are."""
    site = await make_site({})
    wheel = make_wheel()
    await site.install("--no-index", "--find-links", str(wheel.parent), "own")
    (found,) = await look(site)
    assert (found.source, found.is_ok) == ("index", True)
    (found,) = await check_provenance(site.twin, USER, None, None)
    assert found.is_ok


@pytest.fixture
async def mirrored(tmp_path: Path) -> AsyncIterator[tuple[GitMirror, str, Path]]:
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
    mirror = GitMirror([Repository(folder, URL)], tmp_path / "mirror", Decisions(tmp_path / "git.jsonl"))
    await mirror.prepare()
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    await mirror.serve(listening)
    config = tmp_path / "gitconfig"
    config.write_text(mirror.git_config(("127.0.0.1", port)), encoding="utf-8")
    yield mirror, git("rev-parse", "HEAD"), config
    await mirror.close()


def direct_url(site: Any, url: str, commit: str, asked: str | None) -> None:
    """Write what an installer would have written."""
    info: dict[str, str] = {"vcs": "git", "commit_id": commit}
    if asked is not None:
        info["requested_revision"] = asked
    place = site.packages / "own-1.0.dist-info" / "direct_url.json"
    place.write_text(json.dumps({"url": url, "vcs_info": info}), encoding="utf-8")


@pytest.mark.parametrize("ref", ["", "@main", "@v1", "@commit"])
async def test_served_commit_is_recognised(
    make_site: MakeSite, mirrored: tuple[GitMirror, str, Path], ref: str
) -> None:
    """What was installed from the mirror is ok: HEAD, a branch, a tag, a commit of the history."""
    mirror, published, config = mirrored
    site = await make_site({})
    ref = f"@{published}" if ref == "@commit" else ref
    await site.install(f"git+{URL}.git{ref}", GIT_CONFIG_GLOBAL=str(config))
    (found,) = await look(site, mirror)
    assert found.is_ok, found.reason
    assert found.source == "git"
    assert found.expected == found.found == (published if ref not in ("", "@main") else mirror.commits[URL]["HEAD"])


async def test_uv_github_fast_path_is_caught(make_site: MakeSite, mirrored: tuple[GitMirror, str, Path]) -> None:
    """The published commit in place of the served one is caught, though it is in the served history."""
    from amplifier_digital_twin.services.http_site import Answer, HttpSite, Question

    mirror, published, config = mirrored

    async def answer(question: Question) -> Answer:
        return Answer(200, published.encode())

    hosting = HttpSite(answer)
    listening = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    await hosting.serve(listening)
    site = await make_site({})
    await site.install(
        f"git+{URL}@main",
        GIT_CONFIG_GLOBAL=str(config),
        has_fast_path=True,
        UV_GITHUB_FAST_PATH_URL=address,
    )
    await hosting.close()
    (found,) = await look(site, mirror)
    assert not found.is_ok
    assert (found.expected, found.found) == (mirror.commits[URL]["refs/heads/main"], published)
    assert "past the mirror" in found.reason


async def test_wrong_commits(make_site: MakeSite, mirrored: tuple[GitMirror, str, Path]) -> None:
    """Commits that the mirror does not serve for what was asked for are not ok."""
    mirror, published, config = mirrored
    served = mirror.commits[URL]["HEAD"]
    site = await make_site({})
    await site.install(f"git+{URL}@main", GIT_CONFIG_GLOBAL=str(config))
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
        (found,) = await look(site, mirror)
        assert found.is_ok is is_ok, (url, commit, asked, found)
    (found,) = await look(site, None)
    assert found.is_ok


async def test_repositories_that_amplifier_fetched(make_site: MakeSite, mirrored: tuple[GitMirror, str, Path]) -> None:
    """Modules that amplifier fetched by itself are judged by the commit that it recorded."""
    mirror, published, _ = mirrored
    site = await make_site({})
    record = site.venv.parent / ".amplifier" / "cache" / "own-1234" / ".amplifier_cache_meta.json"
    record.parent.mkdir(parents=True)
    served = mirror.commits[URL]["HEAD"]
    for commit, is_ok in ((served, True), (published, False), ("", False)):
        record.write_text(json.dumps({"git_url": URL, "ref": "main", "commit": commit}), encoding="utf-8")
        (found,) = await look(site, mirror)
        assert (found.name, found.source, found.is_ok) == ("own-1234", "git", is_ok)
    record.write_text("damaged", encoding="utf-8")
    (found,) = await look(site, mirror)
    assert (found.source, found.is_ok) == ("unknown", False)
    record.write_text(json.dumps({"git_url": "https://x.example/a.zip", "ref": "", "commit": None}), encoding="utf-8")
    assert await look(site, mirror) == []


async def test_files_that_python_runs_by_itself(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """A file that Python runs when it starts, and that no installation brought, is a finding."""
    site = await make_site({"own": [make_wheel()]})
    await site.install("own")
    (site.packages / "shadow.pth").write_text("import os\n", encoding="utf-8")
    (site.packages / "sitecustomize.py").write_text("\n", encoding="utf-8")
    wrong = [found for found in await look(site) if not found.is_ok]
    assert sorted(found.name.rpartition("/")[2] for found in wrong) == ["shadow.pth", "sitecustomize.py"]
    assert all("no RECORD lists it" in found.reason for found in wrong)


async def test_nothing_hides_in_a_record(make_site: MakeSite, make_wheel: MakeWheel) -> None:
    """What Python runs is found in folders that look like a record, too; records in a record are parts of it."""
    site = await make_site({"own": [make_wheel()]})
    await site.install("own")
    inner = site.packages / "looks-1.0.dist-info" / "lib" / "site-packages"
    (inner / "inner-1.0.dist-info").mkdir(parents=True)
    (inner / "hidden.pth").write_text("import os\n", encoding="utf-8")
    wrong = [found for found in await look(site) if not found.is_ok]
    assert sorted(found.name.rpartition("/")[2] for found in wrong) == ["hidden.pth", "looks"]
