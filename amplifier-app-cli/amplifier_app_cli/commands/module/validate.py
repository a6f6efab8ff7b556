"""`amplifier module validate`: check that a module keeps the contract of its type."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import click

from amplifier_app_cli import exits
from amplifier_app_cli.commands.module.list import TYPES
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_app_cli.ui.streams import guarded_stdout
from amplifier_core.validation import ValidationResult, validator_for
from amplifier_foundation.errors import FoundationError
from amplifier_kit.guard.processes.launch import open_process

#: Words that names of modules start with, and the type each means.
_WORDS: Final = {**{kind: kind for kind in TYPES}, "hooks": "hook", "loop": "orchestrator"}
_PACKAGE: Final = "amplifier_module_"
_PYTEST_SETTINGS: Final = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
#: Exit codes of pytest: all passed, some failed.
_PASSED, _FAILED = 0, 1


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("-t", "--type", "kind", type=click.Choice(TYPES), help="Its type; by default, what its name says.")
@click.option("-v", "--verbose", "is_verbose", is_flag=True, help="Print the checks that passed, too.")
@click.option(
    "-b", "--behavioral", "is_behavioral", is_flag=True, help="Also run the tests of its type (needs pytest)."
)
@json_option
@report_errors
def validate(path: Path, kind: str | None, as_json: bool, is_verbose: bool, is_behavioral: bool) -> None:
    """Check the module at PATH, its folder, its package or a Python file; exit with 1 when it fails.

    The module is imported and mounted, so its code runs.

    \b
    Examples:
      amplifier module validate ./modules/tool-census
      amplifier module validate ./my_hook.py --type hook --verbose
      amplifier module validate ./modules/tool-census --behavioral
    """
    package = _package_in(path)
    kind = kind or _type_of(package)
    with guarded_stdout():
        result = _checked(kind, package)
        tests = _tested(kind, package) if is_behavioral and result.passed else None
    has_passed = result.passed and tests in (None, _PASSED)
    if as_json:
        print_json(_record(result, has_passed, tests))
    else:
        _print(result, is_verbose, tests)
    sys.exit(exits.OK if has_passed else exits.FAILURE)


def _package_in(path: Path) -> Path:
    """Return the package folder that a path is or holds; raises UsageError when it holds none, or several."""
    if path.is_file() or (path / "__init__.py").is_file():
        return path
    found = [folder for place in (path, path / "src") for folder in sorted(place.glob(f"{_PACKAGE}*"))]
    packages = [folder for folder in found if (folder / "__init__.py").is_file()]
    if len(packages) == 1:
        return packages[0]
    why = f"several packages ({', '.join(folder.name for folder in packages)})" if packages else "no package"
    raise click.UsageError(f"{path} holds {why} called {_PACKAGE}*: give the folder of one")


def _type_of(package: Path) -> str:
    """Return the type that the name of a package, or of the folder above it, says; raises UsageError."""
    for name in (package.stem, package.resolve().parent.name):
        words = name.replace("-", "_").removeprefix(_PACKAGE).split("_")
        for word in words:
            if word in _WORDS:
                return _WORDS[word]
    raise click.UsageError(f"the name {package.name} does not say what type of module it is: give --type")


def _checked(kind: str, package: Path) -> ValidationResult:
    validator = validator_for(kind)
    assert validator is not None
    try:
        return asyncio.run(validator.validate(package))
    except SystemExit as error:
        # Its exit status would look like our verdict.
        raise FoundationError(
            f"{package}: the module called sys.exit({error.code}) instead of being imported and mounted: "
            "remove that call"
        ) from error


def _tested(kind: str, package: Path) -> int:
    """Run the tests that every module of its type must pass; return the exit code of pytest."""
    if importlib.util.find_spec("pytest") is None or importlib.util.find_spec("pytest_asyncio") is None:
        raise click.UsageError("--behavioral needs pytest and pytest-asyncio: install them beside the program")
    suite = f"{kind.title()}BehaviorTests"
    with tempfile.TemporaryDirectory() as folder:
        tests = Path(folder) / "test_module.py"
        tests.write_text(
            f"from amplifier_core.validation.behavioral import {suite}\n\n\nclass TestModule({suite}):\n    pass\n",
            encoding="utf-8",
        )
        # Separate settings and no `conftest.py` from parent folders: pytest would search for both.
        settings = Path(folder) / "pytest.ini"
        settings.write_text(_PYTEST_SETTINGS, encoding="utf-8")
        options = ["-q", "-p", "no:cacheprovider", "-c", str(settings), "--rootdir", folder, "--confcutdir", folder]
        command = [sys.executable, "-P", "-m", "pytest", *options, "--module-path", str(package.resolve()), str(tests)]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        # The descriptor of standard output is standard error here: the output of pytest is not a result.
        with open_process(
            command, environment=environ, cwd=folder, because="it was made for this", stdout=None, stderr=None
        ) as process:
            try:
                return process.wait()
            finally:
                process.kill()


def _record(result: ValidationResult, has_passed: bool, tests: int | None) -> dict[str, Any]:
    return {
        "passed": has_passed,
        "type": result.module_type,
        "path": result.module_path,
        "summary": result.summary(),
        "checks": [vars(check) for check in result.checks],
        "behavioral": None if tests is None else {_PASSED: "passed", _FAILED: "failed"}.get(tests, "did not run"),
    }


def _print(result: ValidationResult, is_verbose: bool, tests: int | None) -> None:
    click.echo(plain(f"{result.module_type} {result.module_path}: {result.summary()}"))
    for check in result.checks:
        if is_verbose or not check.passed:
            click.echo(plain(f"  {'ok' if check.passed else check.severity:<8} {check.name}: {check.message}"))
    if tests is not None:
        said = {_PASSED: "passed", _FAILED: "failed"}.get(tests, f"did not run (pytest ended with {tests})")
        click.echo(f"behavioral tests: {said}")
