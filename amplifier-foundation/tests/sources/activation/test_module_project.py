"""What a module's project files say about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_foundation.sources.module_project import (
    UNKNOWN_VERSION,
    ModuleProjectError,
    code_folder,
    other_transport,
    package_folders,
    read_module_project,
)


def _project(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


def test_a_folder_without_project_files_needs_nothing(tmp_path: Path) -> None:
    """A bare package is a module."""
    project = read_module_project(tmp_path)
    assert (project.name, project.dependencies, project.is_built) == (None, (), False)


def test_a_project_is_read_whole(tmp_path: Path) -> None:
    """Name, version, dependencies, extras and entry points are taken as they stand."""
    project = read_module_project(
        _project(
            tmp_path,
            '[project]\nname = "a"\nversion = "1.0"\ndependencies = ["b>=1"]\n'
            '[project.optional-dependencies]\nx = ["c"]\n[project.scripts]\nrun = "a:main"\n'
            '[project.entry-points."amplifier.modules"]\ntool-a = "a:mount"\n',
        )
    )
    assert (project.name, project.version, project.dependencies) == ("a", "1.0", ("b>=1",))
    assert project.optional == {"x": ("c",)}
    assert project.entry_points == {"console_scripts": {"run": "a:main"}, "amplifier.modules": {"tool-a": "a:mount"}}


@pytest.mark.parametrize(
    "backend",
    [
        *("hatchling.build", "setuptools.build_meta", "setuptools.build_meta:__legacy__", "flit_core.buildapi"),
        *("poetry.core.masonry.api", "pdm.backend", "uv_build"),
    ],
)
def test_backends_that_copy_need_no_build(tmp_path: Path, backend: str) -> None:
    """The code of an ordinary Python project is what lies in its folder."""
    text = f'[project]\nname = "a"\nversion = "1"\n[build-system]\nbuild-backend = "{backend}"\n'
    assert not read_module_project(_project(tmp_path, text)).is_built


@pytest.mark.parametrize(
    "more",
    [
        '[build-system]\nbuild-backend = "maturin"\n',
        '[build-system]\nbuild-backend = "hatchling_x"\n',
        '[build-system]\nbuild-backend = "setuptools.build_meta"\nbackend-path = ["."]\n',
        '[[tool.setuptools.ext-modules]]\nname = "x"\n',
        '[tool.setuptools.package-dir]\nx = "elsewhere"\n',
        '[tool.hatch.build.hooks.vcs]\nversion-file = "x"\n',
        '[tool.hatch.build.targets.wheel.force-include]\n"a" = "b"\n',
        '[tool.hatch.build.targets.wheel]\nsources = {a = "b"}\n',
        '[tool.setuptools_scm]\nversion_file = "x"\n',
        '[tool.poetry]\nbuild = "build.py"\n',
    ],
)
def test_code_that_is_made_or_moved_needs_a_build(tmp_path: Path, more: str) -> None:
    """Where a build changes the code, the folder is not what runs."""
    assert read_module_project(_project(tmp_path, f'[project]\nname = "a"\nversion = "1"\n{more}')).is_built


def test_a_setup_script_with_extensions_needs_a_build(tmp_path: Path) -> None:
    """A setup.py that compiles something is seen; one that does not is not run."""
    folder = _project(tmp_path, '[project]\nname = "a"\nversion = "1"\n')
    (folder / "setup.py").write_text("setup()\n", encoding="utf-8")
    assert not read_module_project(folder).is_built
    (folder / "setup.py").write_text("setup(ext_modules=[Extension('x', ['x.c'])])\n", encoding="utf-8")
    assert read_module_project(folder).is_built


@pytest.mark.parametrize(
    ("text", "is_built"),
    [
        ('[tool.poetry]\nname = "a"\n', True),
        ('[build-system]\nbuild-backend = "setuptools.build_meta"\n', True),
        ("[tool.ruff]\nline-length = 100\n", False),
        ('[project]\nname = "a"\ndynamic = ["dependencies"]\n', True),
        ('[project]\nname = "a"\ndynamic = ["version"]\n', False),
    ],
)
def test_what_only_a_build_can_tell(tmp_path: Path, text: str, is_built: bool) -> None:
    """A project whose dependencies are not written down is built; one that is no distribution is not."""
    project = read_module_project(_project(tmp_path, text))
    assert project.is_built is is_built
    assert project.version == UNKNOWN_VERSION


def test_dependencies_in_a_file_are_read(tmp_path: Path) -> None:
    """Setuptools' dynamic dependencies are taken from the file they are in, and are part of the fingerprint."""
    (tmp_path / "needs.txt").write_text("b>=1\n", encoding="utf-8")
    text = '[project]\nname = "a"\ndynamic = ["dependencies"]\n'
    folder = _project(tmp_path, text + '[tool.setuptools.dynamic]\ndependencies = {file = ["needs.txt"]}\n')
    first = read_module_project(folder)
    assert (first.dependencies, first.is_built) == (("b>=1",), False)
    (tmp_path / "needs.txt").write_text("b>=2\n", encoding="utf-8")
    assert read_module_project(folder).facts != first.facts


def test_requirements_are_read_with_what_they_refer_to(tmp_path: Path) -> None:
    """Comments, continued lines, markers and `-r` are understood."""
    (tmp_path / "requirements.txt").write_text(
        "# all\na>=1 # why\nb \\\n>=2\n\nc; python_version > '3'\n-r more/further.txt\n", encoding="utf-8"
    )
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "further.txt").write_text("d @ https://x.invalid/d.whl#sha256=1\n", encoding="utf-8")
    wishes = ("a>=1", "b  >=2", "c; python_version > '3'", "d @ https://x.invalid/d.whl#sha256=1")
    assert read_module_project(tmp_path).dependencies == wishes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\n--index-url https://x.invalid\n", ":2: options are not supported"),
        ("a --hash=sha256:1\n", ":1: options are not supported"),
        ("./local\n", ":1: './local' is not a requirement"),
        ("-r requirements.txt\n", "refers to itself"),
        ("-r nowhere.txt\n", "nowhere.txt: cannot be read"),
    ],
)
def test_requirements_that_are_not_understood_are_errors(tmp_path: Path, text: str, said: str) -> None:
    """Nothing in a requirements file is passed over."""
    (tmp_path / "requirements.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ModuleProjectError) as caught:
        read_module_project(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[project]\nname = \n", "pyproject.toml:2: malformed TOML"),
        (b"\xff", "not UTF-8"),
        (b"[project]\n", "has no 'name'"),
        (b'[project]\nname = "a"\ndependencies = ["b>>1"]\n', "'b>>1' is not a requirement"),
        (b'[project]\nname = "a"\ndependencies = [1]\n', "1 is not a requirement"),
    ],
)
def test_a_broken_project_file_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    """A project file that cannot be understood is an error that starts with the file."""
    (tmp_path / "pyproject.toml").write_bytes(content)
    with pytest.raises(ModuleProjectError) as caught:
        read_module_project(tmp_path)
    assert str(caught.value).startswith(str(tmp_path))
    assert said in str(caught.value)


def test_a_bom_and_crlf_are_fine(tmp_path: Path) -> None:
    """A project file saved by an editor of another system is read all the same."""
    (tmp_path / "pyproject.toml").write_bytes(b'\xef\xbb\xbf[project]\r\nname = "a"\r\nversion = "1"\r\n')
    assert read_module_project(tmp_path).name == "a"


def test_packages_are_found_where_they_are(tmp_path: Path) -> None:
    """The folder itself, `src` or `lib`: the first that holds a package; a bare package is its own folder."""
    assert code_folder(tmp_path) == tmp_path
    for name in ("lib", "src", "."):
        package = tmp_path / name / "amplifier_module_x"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        assert code_folder(tmp_path) == tmp_path / name
    assert code_folder(tmp_path / "src" / "amplifier_module_x") == tmp_path / "src" / "amplifier_module_x"
    assert package_folders(tmp_path) == [tmp_path / "src", tmp_path / "lib"]


def test_a_python_module_has_no_other_transport(tmp_path: Path) -> None:
    """Only transports that are none of ours are left alone; a broken description is an error."""
    assert other_transport(tmp_path) is None
    (tmp_path / "amplifier.toml").write_text('[module]\ntransport = "python"\n', encoding="utf-8")
    assert other_transport(tmp_path) is None
    (tmp_path / "amplifier.toml").write_text("[module\n", encoding="utf-8")
    with pytest.raises(ModuleProjectError, match=r"amplifier\.toml:1"):
        other_transport(tmp_path)
