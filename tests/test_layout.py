"""The repository is built as it says: rings, one version, exact pins, a small and quiet kernel."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest
import yaml

import amplifier_core

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
KERNEL = ROOT / "amplifier-core" / "amplifier_core"
END_TO_END = ROOT / "amplifier-digital-twin" / "amplifier_digital_twin" / "profiles" / "e2e-event-logging.yaml"


def _project(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


WORKSPACE = _project(ROOT / "pyproject.toml")
MEMBERS = [
    folder
    for member in WORKSPACE["tool"]["uv"]["workspace"]["members"]
    for folder in sorted(ROOT.glob(member))
    if folder.is_dir() and folder.name != "__pycache__"
]
MODULES = [member for member in MEMBERS if member.parent.name == "modules"]
VERSION = WORKSPACE["project"]["version"]


def _tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def _constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return dict(line.split("==", 1) for line in lines)


def _requirement_name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()


# Rings


def _lint_imports(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / "lint-imports"), "--no-cache"],
        cwd=folder,
        env={"PATH": str(BIN), **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_imports_point_inward() -> None:
    """No package imports one of an outer ring."""
    done = _lint_imports(ROOT)
    assert done.returncode == 0, done.stdout


def test_an_outward_import_is_noticed(tmp_path: Path) -> None:
    """The same contract fails on a kernel that imports the foundation, so the test above can fail."""
    for package in WORKSPACE["tool"]["importlinter"]["root_packages"]:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("", encoding="utf-8")
    for contract in WORKSPACE["tool"]["importlinter"]["contracts"]:
        for container in contract.get("containers", ()):
            for room in (name.strip() for layer in contract["layers"] for name in re.split(r"[|:]", layer)):
                (tmp_path / container / f"{room}.py").write_text("", encoding="utf-8")
    for room in ("chat", "children", "commands", "providers", "run", "session_app", "ui"):
        (tmp_path / "amplifier_app_cli" / f"{room}.py").write_text("", encoding="utf-8")
    (tmp_path / "amplifier_core" / "__init__.py").write_text("import amplifier_foundation\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    done = _lint_imports(tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode != 0
    assert "amplifier_core -> amplifier_foundation" in done.stdout


def _lists_of_modules(workspace: dict[str, Any]) -> list[tuple[str, set[str], str]]:
    """Return the lists of modules in `pyproject.toml` and a profile: the place, the entries, how it names modules."""
    linter = workspace["tool"]["importlinter"]
    contracts = {contract["id"]: contract for contract in linter["contracts"]}
    package, project = "amplifier_module_{package}", "amplifier-module-{id}"
    sources = {f"{name} = {{ workspace = true }}" for name in workspace["tool"]["uv"]["sources"]}
    wheels = {entry["name"] for entry in yaml.safe_load(END_TO_END.read_text(encoding="utf-8"))["packages"]}
    return [
        (f"packages of the profile {END_TO_END.name}", wheels, project),
        ("[project] dependencies", set(workspace["project"]["dependencies"]), f"{project}=={VERSION}"),
        ("[tool.uv.sources]", sources, f"{project} = {{{{ workspace = true }}}}"),
        ("[tool.mypy] packages", set(workspace["tool"]["mypy"]["packages"]), package),
        ("[tool.importlinter] root_packages", set(linter["root_packages"]), package),
        ("the import contract 'modules', modules", set(contracts["modules"]["modules"]), package),
        ("the import contract 'drivers', source_modules", set(contracts["drivers"]["source_modules"]), package),
    ]


def _mistakes(workspace: dict[str, Any], ids: list[str]) -> list[str]:
    """Return what to add to the lists and what to remove, for the modules with these ids."""
    found = []
    for where, has, pattern in _lists_of_modules(workspace):
        expected = {pattern.format(id=each, package=each.replace("-", "_")) for each in ids}
        ours = {entry for entry in has if re.match(r"amplifier[-_]module[-_]", entry)}
        found += [f"add to {where}: {entry}" for entry in sorted(expected - ours)]
        found += [f"remove from {where}: {entry}, which has no folder" for entry in sorted(ours - expected)]
    return found


def test_every_module_is_in_every_list() -> None:
    """A module in `modules/` is installed, type-checked and kept from importing others; a message says what to add."""
    mistakes = _mistakes(WORKSPACE, [member.name for member in MODULES])
    assert not mistakes, "these lists do not fit the folder modules/:\n" + "\n".join(mistakes)


def test_a_new_module_is_missing_from_seven_lists() -> None:
    """A folder alone is not enough: each list is named, with the line that it lacks."""
    mistakes = _mistakes(WORKSPACE, [*(member.name for member in MODULES), "tool-new"])
    assert len(mistakes) == 7
    assert f"add to [project] dependencies: amplifier-module-tool-new=={VERSION}" in mistakes
    assert "add to [tool.mypy] packages: amplifier_module_tool_new" in mistakes


def test_every_package_is_in_a_ring() -> None:
    """The ring contract names every package of the workspace that is no module."""
    rings = {member.name.replace("-", "_") for member in MEMBERS if member.parent == ROOT}
    configured = WORKSPACE["tool"]["importlinter"]
    contracts = {contract["id"]: contract for contract in configured["contracts"]}
    assert {name for name in configured["root_packages"] if not name.startswith("amplifier_module_")} == rings
    assert {name.strip() for layer in contracts["rings"]["layers"] for name in layer.split("|")} == rings


def test_every_package_is_type_checked() -> None:
    """mypy strict looks at every package of the workspace."""
    assert set(WORKSPACE["tool"]["mypy"]["packages"]) == set(WORKSPACE["tool"]["importlinter"]["root_packages"])


def test_modules_are_laid_out_as_the_seeds_say() -> None:
    """A module is a folder of its id with pyproject.toml, README.md, tests and one package with the entry point."""
    assert MODULES
    for member in MODULES:
        package = f"amplifier_module_{member.name.replace('-', '_')}"
        project = _project(member / "pyproject.toml")["project"]
        assert project["name"] == f"amplifier-module-{member.name}"
        assert project["entry-points"]["amplifier.modules"] == {member.name: f"{package}:mount"}
        assert (member / package / "__init__.py").is_file()
        assert (member / package / "py.typed").is_file()
        assert (member / "README.md").is_file()
        assert list((member / "tests").glob("test_*.py")), member.name


# Versions and pins


def test_one_version_everywhere() -> None:
    """Every package, the kernel's own word and the changelog give the same number."""
    assert {_project(member / "pyproject.toml")["project"]["version"] for member in MEMBERS} == {VERSION}
    assert amplifier_core.__version__ == VERSION
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(\d+\.\d+\.\d+)\]", changelog, flags=re.MULTILINE)
    assert newest is not None
    assert newest[1] == VERSION


def test_the_distribution_pins_every_part_exactly() -> None:
    """`amplifier` depends on each package of the workspace with `==` (the test kits: an extra), and on nothing else."""
    expected = {f"{_project(member / 'pyproject.toml')['project']['name']}=={VERSION}" for member in MEMBERS}
    testing = WORKSPACE["project"]["optional-dependencies"]["testing"]
    assert testing == [f"amplifier-testing=={VERSION}"]
    assert {*WORKSPACE["project"]["dependencies"], *testing} == expected
    assert not {*WORKSPACE["project"]["dependencies"]} & {*testing}
    sources = WORKSPACE["tool"]["uv"]["sources"]
    assert {f"{name}=={VERSION}" for name, source in sources.items() if source == {"workspace": True}} == expected


def test_parts_pin_each_other_exactly() -> None:
    """A package that depends on another of ours does so with `==`."""
    ours = {_project(member / "pyproject.toml")["project"]["name"] for member in MEMBERS}
    for member in MEMBERS:
        for requirement in _project(member / "pyproject.toml")["project"].get("dependencies", []):
            if _requirement_name(requirement) in ours:
                assert re.sub(r"\[.*?]", "", requirement) == f"{_requirement_name(requirement)}=={VERSION}", member.name


def test_constraints_are_exact() -> None:
    """constraints.txt holds nothing but `name==version` lines, each name once, sorted for reading."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in lines)
    assert len(_constraints()) == len(lines)


def test_everything_we_ask_for_is_constrained() -> None:
    """Every requirement of ours, of our tools and of our builds has its version in constraints.txt."""
    ours = {"amplifier", *(_project(member / "pyproject.toml")["project"]["name"] for member in MEMBERS)}
    asked = {_requirement_name(requirement) for requirement in WORKSPACE["dependency-groups"]["dev"]}
    for project in (WORKSPACE, *(_project(member / "pyproject.toml") for member in MEMBERS)):
        asked.update(map(_requirement_name, project["project"].get("dependencies", [])))
        for extra in project["project"].get("optional-dependencies", {}).values():
            asked.update(map(_requirement_name, extra))
        asked.update(map(_requirement_name, project["build-system"]["requires"]))
    assert asked - ours - _constraints().keys() == set()


def test_the_environment_has_the_constrained_versions() -> None:
    """What is installed here, our own packages apart, is installed in the version that constraints.txt says."""
    constraints = _constraints()
    installed = {
        re.sub(r"[-_.]+", "-", found.name).lower(): found.version for found in importlib.metadata.distributions()
    }
    different = {n: v for n, v in installed.items() if n in constraints and v != constraints[n]}
    assert different == {}


def test_no_lock_file() -> None:
    """No lock file is tracked: such files name an index, and constraints.txt has the versions."""
    assert [path.name for path in _tracked() if path.suffix == ".lock" or path.name.endswith("lock.json")] == []


def test_no_file_names_an_index_or_a_machine() -> None:
    """No tracked file names the host of a package index or a folder of the machine it was written on."""
    hosts = ("pypi" + ".org", "python" + "hosted.org")
    # The superuser's home as such is a fact of every system, and in a universe also what lies in it.
    names = ["wo" + r"rk(?:/|\b)", "tmp/pe" + r"er(?:/|\b)"]
    anywhere, outside = (
        re.compile(r"(?<![\w.~<>}])/(?:" + "|".join(found) + ")") for found in (names, [*names, "ro" + "ot/"])
    )
    for path in _tracked():
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not any(host in text for host in hosts), path
        folders = anywhere if "amplifier-digital-twin" in path.parts else outside
        assert not folders.search(text), f"{path}: {folders.search(text)}"


# The kernel in this environment


def test_amplifier_core_is_ours() -> None:
    """The amplifier_core that is imported and installed here is the one of this repository, in our version."""
    assert amplifier_core.__file__ is not None
    assert Path(amplifier_core.__file__).resolve().parent == KERNEL
    assert amplifier_core.__version__ == VERSION
    assert importlib.metadata.version("amplifier-core") == VERSION
    found = [d for d in importlib.metadata.distributions() if _requirement_name(d.name) == "amplifier-core"]
    assert {d.version for d in found} == {VERSION}


# The kernel is quiet


def _kernel_files() -> list[Path]:
    return sorted(KERNEL.rglob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(KERNEL))


#: Reading and validating modules is the one kind of I/O the kernel does, and these files do it.
READS_MODULES = {"loader.py", "_discovery.py", "utils/discover.py", "cli.py", "pytest_plugin.py"}


def _calls(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of every call in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


@pytest.mark.parametrize("path", _kernel_files(), ids=_name)
def test_the_kernel_does_not_speak(path: Path) -> None:
    """No file of the kernel prints or writes to the standard streams."""
    loud = [(line, name) for line, name in _calls(path) if name == "print" or name.startswith(("sys.std", "os.write"))]
    assert loud == []


WRITING = ("write_text", "write_bytes", "mkdir", "unlink", "rename", "replace_file", "touch", "makedirs", "rmtree")


@pytest.mark.parametrize("path", _kernel_files(), ids=_name)
def test_the_kernel_writes_no_file(path: Path) -> None:
    """No file of the kernel writes to disk, and only those that load modules open anything."""
    reads_modules = _name(path) in READS_MODULES or _name(path).startswith("validation/")
    for line, name in _calls(path):
        last = name.rpartition(".")[2]
        assert last not in WRITING, f"line {line}: {name}"
        if not reads_modules:
            assert last not in {"open", "read_text", "read_bytes"}, f"line {line}: {name}"


@pytest.mark.parametrize("path", _kernel_files(), ids=_name)
def test_the_kernel_has_no_default_path(path: Path) -> None:
    """No file of the kernel knows a home directory, a path of its own or an environment variable but one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            assert not re.match(r"(~|/[a-z]+/|\.amplifier)", node.value), f"line {node.lineno}: {node.value!r}"
        if isinstance(node, ast.Attribute):
            assert node.attr not in {"home", "expanduser", "gettempdir"}, f"line {node.lineno}: {node.attr}"
    source = path.read_text(encoding="utf-8")
    variables = re.findall(r"(?:environ(?:\.get)?|getenv)[\[(]\s*([\w\"']+)", source)
    assert set(variables) <= {'"AMPLIFIER_MODULES"'}, variables


# Licence and distribution


def test_the_licence_is_mit() -> None:
    """LICENSE is the MIT licence of the Amplifier authors, and every package says MIT."""
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.startswith("MIT License\n")
    assert re.search(r"^Copyright \(c\) \d{4} The Amplifier authors$", text, flags=re.MULTILINE)
    words = " ".join(text.split())
    assert "Permission is hereby granted, free of charge, to any person obtaining a copy" in words
    assert 'THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND' in words
    projects = [WORKSPACE, *(_project(member / "pyproject.toml") for member in MEMBERS)]
    assert {project["project"]["license"] for project in projects} == {"MIT"}


def _wheel_metadata(wheel: Path) -> Any:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_string(archive.read(name).decode())


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build what `make dist` builds, into a folder of our own."""
    folder = tmp_path_factory.mktemp("dist")
    built = subprocess.run(
        [str(BIN / "uv"), "build", "--quiet", *BUILD_FLAGS, "--out-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


BUILD_FLAGS = ["--all-packages", "--build-constraint", "constraints.txt"]


def test_make_dist_builds_with_these_flags() -> None:
    """The tests below build as `make dist` does."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"build --quiet {' '.join(BUILD_FLAGS)} --out-dir dist" in makefile


@pytest.mark.system
def test_the_wheels_are_what_the_pins_ask_for(distributions: Path) -> None:
    """There is a wheel and a source archive of every package, and they satisfy each other's pins."""
    wheels = {_requirement_name(m["Name"]): m for m in map(_wheel_metadata, distributions.glob("*.whl"))}
    names = {"amplifier", *(_project(member / "pyproject.toml")["project"]["name"] for member in MEMBERS)}
    assert wheels.keys() == names
    assert len(list(distributions.glob("*.tar.gz"))) == len(names)
    assert {metadata["Version"] for metadata in wheels.values()} == {VERSION}
    for metadata in wheels.values():
        wanted = [r for r in metadata.get_all("Requires-Dist", []) if _requirement_name(r) in names]
        assert all(re.sub(r" |\[.*?]|;.*", "", r) == f"{_requirement_name(r)}=={VERSION}" for r in wanted), metadata[
            "Name"
        ]
    always = [r for r in wheels["amplifier"].get_all("Requires-Dist") if ";" not in r]
    assert len(always) == len(MEMBERS) - 1, "all but amplifier-testing, which is an extra"


@pytest.mark.system
def test_the_kernel_wheel_is_whole(distributions: Path) -> None:
    """The kernel's wheel has every source file, its type marker, the command and the pytest plugin."""
    with zipfile.ZipFile(next(distributions.glob("amplifier_core-*.whl"))) as archive:
        held = set(archive.namelist())
        [entries] = [n for n in held if n.endswith("entry_points.txt")]
        entry_points = archive.read(entries).decode()
    assert held >= {f"amplifier_core/{_name(path)}" for path in _kernel_files()} | {"amplifier_core/py.typed"}
    assert "amplifier-core = amplifier_core.cli:main" in entry_points
    assert "amplifier_module = amplifier_core.pytest_plugin" in entry_points
