"""The page about providers says what the providers are: its tables are those of their tests, keys and settings."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from amplifier_app_cli.providers.known import KNOWN
from amplifier_kit.llm.config import ProviderConfig

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "providers.md"
MODULES = sorted(path.name for path in ROOT.glob("modules/provider-*"))
#: It asks no service, so that there is nothing to hold it to.
SCRIPTED = "provider-mock"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_make_providers", ROOT / "docs" / "make_providers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


make_providers = _load()


def _text() -> str:
    return PAGE.read_text(encoding="utf-8")


def _rows(heading: str) -> list[list[str]]:
    """Return the cells of the table whose first heading this is."""
    found = re.search(rf"^\| {re.escape(heading)} \|.*\n\|[ -|]+\n((?:\|.*\n)+)", _text(), flags=re.MULTILINE)
    assert found is not None, heading
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found[1].splitlines()]


def test_the_tables_are_what_the_tests_say() -> None:
    """What each provider does is written from its tests; `make reference` writes it anew."""
    assert make_providers.page() == _text()


def test_a_stale_table_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--check` fails on a page that says something else, and writing it makes it right."""
    stale = tmp_path / "providers.md"
    stale.write_text(_text().replace("| yes |", "| perhaps |", 1), encoding="utf-8")
    monkeypatch.setattr(make_providers, "PAGE", stale)
    monkeypatch.setattr(sys, "argv", ["make_providers.py", "--check"])
    assert make_providers.main() == 1
    monkeypatch.setattr(sys, "argv", ["make_providers.py"])
    assert make_providers.main() == 0
    assert stale.read_text(encoding="utf-8") == _text()


def test_every_provider_is_held_to_all_rules() -> None:
    """Each provider module has a column, and there is no rule that one of them is not tested for."""
    tested = {subject.name.partition(" ")[0] for subject in make_providers.subjects()}
    assert {f"provider-{name}" for name in tested} == set(MODULES) - {SCRIPTED}
    assert "not tested" not in make_providers.tables()


def test_every_provider_is_introduced() -> None:
    """Each module and each provider that the program knows has its row, with its variables and its address."""
    rows = {row[0]: " ".join(row) for row in _rows("Provider")}
    assert [re.findall(r"`([^`]+)`", first)[0] for first in rows] == [known.id for known in KNOWN]
    assert sorted(known.module for known in KNOWN) == MODULES
    for known, row in zip(KNOWN, rows.values(), strict=True):
        assert f"../modules/{known.module}/README.md" in row
        named = [*known.variables, *([known.address_variable] if known.address_variable else [])]
        assert [name for name in named if f"`{name}`" not in row] == []
        assert known.address_key == "base_url" or f"`{known.address_key}`" in row


def test_default_models_are_those_of_the_modules() -> None:
    """The model that the page names for a provider is the one that its module's page and code name."""
    for known, row in zip(KNOWN, _rows("Provider"), strict=True):
        model = row[4].strip("`")
        sources = list((ROOT / "modules" / known.module).glob("amplifier_module_*/*.py"))
        sources += list((ROOT / "amplifier-kit" / "amplifier_kit" / "llm" / "chat").glob("*.py"))
        sources.append(ROOT / "amplifier-kit" / "amplifier_kit" / "local_model.py")
        assert any(f'"{model}"' in path.read_text(encoding="utf-8") for path in sources), known.id
        assert f"`{model}`" in (ROOT / "modules" / known.module / "README.md").read_text(encoding="utf-8")


def test_settings_are_those_that_all_providers_have() -> None:
    """Names and defaults in the table of settings are those of the code, and nothing about failures is left out."""
    defaults = {name: field.default for name, field in ProviderConfig.model_fields.items()}
    told: dict[str, str] = {}
    for names, values, _ in _rows("Setting"):
        told.update(zip(re.findall(r"`([a-z_]+)`", names), values.split(", "), strict=True))
    known = {name: f"{value:g}" if isinstance(value, float) else str(value).lower() for name, value in defaults.items()}
    assert told == {name: known[name] for name in told}
    assert set(known) - set(told) == {
        *("default_model", "model", "priority", "use_streaming", "filtered"),
        *("context_window", "max_output_tokens"),
    }
