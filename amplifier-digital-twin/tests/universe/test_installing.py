"""Packages from working trees: wheels built and kept, the index that serves them, and proof of where they came from."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.errors import TwinError

URL = "https://git.example/owner/tiny"
#: A package that builds itself with nothing but the standard library, so that nothing is fetched.
BACKEND = """
import base64, hashlib, pathlib, zipfile
NAME, VERSION = "tiny", "1.0"
def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = f"{NAME}-{VERSION}.dist-info"
    files = {
        "tiny.py": pathlib.Path("tiny.py").read_text(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\\nName: {NAME}\\nVersion: {VERSION}\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: tiny\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    record = f"{info}/RECORD,,\\n"
    wheel = pathlib.Path(wheel_directory, f"{NAME}-{VERSION}-py3-none-any.whl")
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(text)}\\n"
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", record)
    return wheel.name
if __name__ == "__main__":
    pathlib.Path("dist").mkdir(exist_ok=True)
    build_wheel("dist")
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "tiny"
version = "1.0"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return the working tree of a package, committed."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name, text in (("backend.py", BACKEND), ("pyproject.toml", PYPROJECT), ("tiny.py", "MARK = 'first'\n")):
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=first")
    return folder


def git(folder: Path, *arguments: str) -> None:
    """Run git in a folder, without anybody's settings."""
    who = {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@localhost"}
    who |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in who.items()}
    environ = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder), **who}
    subprocess.run(["git", *arguments], cwd=folder, env=environ, check=True)


def build(folder: Path) -> None:
    """Build the wheel in its own tree."""
    subprocess.run(["python3", "backend.py"], cwd=folder, check=True)


FROM_GIT = f"""
base: {{image: host, tools: [uv]}}
network: {{mode: none}}
repositories: [{{path: tiny, url: "{URL}"}}]
packages:
  - name: tiny
    wheel_from_git: {{repo: tiny, build: python3 backend.py}}
provision:
  commands:
    - uv venv --quiet ~/venv
    - uv pip install --quiet --python ~/venv/bin/python WHAT
update: {{refresh_packages: true, commands: [uv pip install --quiet --python ~/venv/bin/python --reinstall WHAT]}}
"""
MARK = "~/venv/bin/python -c 'import tiny; print(tiny.MARK)'"


async def test_wheel_is_built_in_a_twin_kept_by_commit_and_served(here: Any, say: Any, tree: Path) -> None:
    """It is built from the tree as it is, once; when the tree changes, again, and what was provisioned is not used."""
    profile = FROM_GIT.replace("WHAT", "tiny")
    async with here.launched(profile) as universe:
        assert await say(universe, MARK) == "first\n"
        assert "wheels" in universe.recorder.timings
        assert [twin.id for twin in universe.place.read().twins] == [universe.place.read().id]
        findings = await universe.provenance(["tiny"])
        assert [(finding.source, finding.is_ok) for finding in findings] == [("wheel", True)]
    assert len(list(here.cache.glob("wheels/*/*.whl"))) == 1
    async with here.launched(profile) as universe:
        assert (await universe.status())["warm"]
        assert "wheels" not in universe.recorder.timings
        # Neither committed nor staged: the working tree counts.
        (tree / "tiny.py").write_text("MARK = 'second'\n", encoding="utf-8")
        assert await say(universe, MARK) == "first\n"
        # The same version: an installer must not take the wheel that it has.
        updated = await universe.update()
        assert set(updated["commits"]) == {URL}
        assert await say(universe, MARK) == "second\n"
        assert all(finding.is_ok for finding in await universe.provenance(["tiny"]))
    assert len(list(here.cache.glob("wheels/*/*.whl"))) == 2
    async with here.launched(profile) as universe:
        assert not (await universe.status())["warm"]
        assert "wheels" not in universe.recorder.timings
        assert await say(universe, MARK) == "second\n"
    assert list((here.registry.universes).glob("dtu-*")) == []


async def test_wheel_of_a_file_is_served(here: Any, say: Any, tree: Path) -> None:
    """`wheel_path` is what its name is answered with; a wheel of another package is refused."""
    build(tree)
    profile = FROM_GIT.replace("wheel_from_git: {repo: tiny, build: python3 backend.py}", "wheel_path: WHEEL")
    profile = profile.replace("WHAT", "tiny").replace("WHEEL", "tiny/dist/tiny-1.0-py3-none-any.whl")
    async with here.launched(profile) as universe:
        assert await say(universe, MARK) == "first\n"
    async with here.made(profile.replace("- name: tiny", "- name: other")) as universe:
        with pytest.raises(TwinError) as caught:
            await universe.launch()
    assert caught.value.code == "wheel_mismatch"


async def test_build_that_fails_leaves_nothing(here: Any, tree: Path) -> None:
    """The words of the build are told, no wheel is kept, and no twin is left."""
    async with here.made(FROM_GIT.replace("python3 backend.py", "echo no compiler >&2; exit 8")) as universe:
        with pytest.raises(TwinError, match="no compiler") as caught:
            await universe.launch()
        assert universe.place.read().twins == ()
    assert caught.value.code == "wheel_build_failed"
    assert list(here.cache.glob("wheels/**/*.whl")) == []


async def test_installation_from_git_is_the_working_tree(here: Any, say: Any, tree: Path) -> None:
    """A public address leads to the tree as it is now, and after `update` as it is then."""
    profile = FROM_GIT.replace("packages:", "checks:\n  - {name: p, provenance: [tiny]}\nx:").partition("x:")[0]
    profile += FROM_GIT.partition("build: python3 backend.py}\n")[2].replace("WHAT", f"git+{URL}")
    (tree / "tiny.py").write_text("MARK = 'uncommitted'\n", encoding="utf-8")
    async with here.launched(profile) as universe:
        assert await say(universe, MARK) == "uncommitted\n"
        assert (await universe.check())["verdict"] == "pass"
        (tree / "tiny.py").write_text("MARK = 'later'\n", encoding="utf-8")
        await universe.update()
        assert await say(universe, MARK) == "later\n"


async def test_update_without_commands_only_serves(here: Any, say: Any, tree: Path) -> None:
    """A tree that has changed is served as it is now, and what was made of it before stays as it is."""
    profile = f"repositories: [{{path: tiny, url: '{URL}'}}]\nprovision: {{commands: ['git clone -q {URL} before']}}"
    async with here.launched(profile) as universe:
        (tree / "tiny.py").write_text("MARK = 'later'\n", encoding="utf-8")
        served = (await universe.update())["commits"][URL]["HEAD"]
        assert await say(universe, f"git clone -q {URL} after; cat before/tiny.py after/tiny.py") == (
            "MARK = 'first'\nMARK = 'later'\n"
        )
        assert await say(universe, "git -C after rev-parse HEAD") == f"{served}\n"


#: The wheel that is served, changed afterwards.
CHANGED = (
    "uv pip install -q --python ~/venv/bin/python tiny; "
    "for f in ~/venv/lib/*/site-packages/tiny.py; do echo >> $f; done"
)
#: From the public address, past the mirror.
PAST = (
    f"git clone -q {URL} ~/c; cd ~/c; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; "
    f"git config --global url.file:///home/user/c.insteadOf {URL}; "
    f"uv pip install -q --python ~/venv/bin/python git+{URL}"
)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        # From a folder, in place of the wheel that the profile serves.
        (f"git clone -q {URL} ~/c; uv pip install -q --python ~/venv/bin/python ~/c", "not from the index"),
        (CHANGED, "tiny.py is not what"),
        (PAST, "another commit"),
    ],
)
async def test_installation_that_was_not_served_fails_the_launch(here: Any, tree: Path, what: str, why: str) -> None:
    """What was tested would not be what the profile says: the package and the difference are named, and kept."""
    head, _, tail = FROM_GIT.partition("    - uv pip install")
    command = what.replace('"', '\\"')
    profile = f'{head}    - "set -e; {command}"\n{tail.partition(chr(10))[2]}'
    async with here.made(profile) as universe:
        with pytest.raises(TwinError, match=why) as caught:
            await universe.launch()
    assert caught.value.code == "provenance_mismatch"
    assert "tiny" in caught.value.message
    assert "provenance_mismatch" in (here.evidence / "error.json").read_text(encoding="utf-8")
    assert list(here.cache.glob("embedded/*/layers/*")) == []


PROJECT = """
mkdir -p ~/project; cd ~/project
printf '[project]\\nname = "p"\\nversion = "1"\\nrequires-python = ">=3.11"\\ndependencies = ["tiny"]\\n' > pyproject.toml
uv lock -q && sed -i 's,http://127[^"]*,https://index.invalid/simple,; s,url = "[^"]*",url = "https://index.invalid/x/tiny-1.0-py3-none-any.whl",' uv.lock
"""  # noqa: E501


@pytest.mark.parametrize("policy", ["refuse", "relock"])
async def test_frozen_lock_does_not_go_past_the_index(here: Any, say: Any, tree: Path, policy: str) -> None:
    """`uv sync --frozen` ignores the index: it is refused, or the lock is made anew first, however it is asked for."""
    text = FROM_GIT.partition("provision:")[0] + f"uv: {{lock: {policy}}}"
    async with here.launched(text) as universe:
        assert await say(universe, PROJECT) == ""
        for ask in (
            "cd ~/project; uv sync --frozen",
            "uv --project ~/project sync --frozen",
            "UV_FROZEN=1 uv sync --directory=project",
        ):
            await say(universe, "rm -rf ~/project/.venv")
            finished = await universe.exec(
                f"cp ~/project/uv.lock ~/kept; {ask}; c=$?; cp ~/kept ~/project/uv.lock; exit $c", None, 60, None
            )
            if policy == "refuse":
                assert (finished.exit_code, finished.stdout) == (2, b""), finished
                assert b"uv.lock: relock" in finished.stderr
            else:
                assert finished.exit_code == 0, finished
                assert await say(universe, "~/project/.venv/bin/python -c 'import tiny; print(tiny.MARK)'") == "first\n"
        assert "uv " in await say(universe, "uv --version; UV_FROZEN=0 uv --version")
