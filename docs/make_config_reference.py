"""Write the reference of all config keys of the modules in this repository, from the models that they publish.

python docs/make_config_reference.py            rewrite `docs/config.md`
python docs/make_config_reference.py --check    exit with 1 when the page is out of date
"""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from amplifier_kit.config import ConfigKey, config_keys, config_model

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "config.md"
INTRODUCTION = """\
# Config of the modules

Every key that a module takes under `config:` in a bundle, an agent or the settings. Keys with a dot are inside a
section. An unknown key is an error in a file of yours and a warning in a fetched one, a wrong value is an error; both
name file and line. `amplifier module show ID` prints the same for one module, and with `--json` its JSON schema.
The README of a module says more about what its keys do.

This page is written by `make reference`. Do not edit it.
"""


def page() -> str:
    """Return the whole page."""
    return "\n".join([INTRODUCTION, *(line for module in modules() for line in section(module))])


def modules() -> list[str]:
    """Return the ids of the modules in this repository."""
    return sorted(file.parent.name for file in ROOT.glob("modules/*/pyproject.toml"))


def section(module: str) -> Iterator[str]:
    """Yield the lines about one module."""
    model = config_model(importlib.import_module(f"amplifier_module_{module.replace('-', '_')}"))
    if model is None:
        raise ValueError(f"{module} does not publish its config: set CONFIG in its package")
    yield f"## [{module}](../modules/{module}/README.md)\n"
    keys = config_keys(model)
    if not keys:
        yield "No keys.\n"
        return
    yield from ("| Key | Accepts | Default | Meaning |", "|---|---|---|---|", *map(row, keys), "")


def row(key: ConfigKey) -> str:
    """Return a key as a row of a table."""
    default = "required" if key.is_required else f"`{json.dumps(key.default, default=plain, ensure_ascii=False)}`"
    cells = (f"`{key.key}`", key.expected, default, key.description)
    return f"| {' | '.join(' '.join(cell.replace('|', chr(92) + '|').split()) for cell in cells)} |"


def plain(value: object) -> object:
    """Return a default that is not JSON in the form that a config has it."""
    return value.model_dump() if isinstance(value, BaseModel) else str(value)


def main() -> int:
    """Write the page, or check it."""
    text = page()
    if "--check" in sys.argv[1:]:
        is_fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print(f"{PAGE.name} is {'up to date' if is_fresh else 'out of date: run `make reference`'}")
        return 0 if is_fresh else 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
