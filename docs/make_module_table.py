"""Write the table of all modules in this repository, from the descriptions in their pyproject.toml.

python docs/make_module_table.py            rewrite `modules/README.md`
python docs/make_module_table.py --check    exit with 1 when the page is out of date
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "modules" / "README.md"
INTRODUCTION = """\
# Modules

Each folder is a package of its own: `pyproject.toml`, `README.md`, `tests/` and one Python package with a `mount`
function, whose folder is named after its id. A module imports the kernel and the kit, and no other module. Its files
are private to it, so their names have no underscore in front; only the package itself is imported from outside.

To add one, add its folder and run `make reference`; `pytest tests/test_layout.py` says what to add to the
`pyproject.toml` of the workspace. What a module of each kind has to do is in
[docs/contracts](../docs/contracts/tool.md), and [docs/config.md](../docs/config.md) lists the config keys of all.

This page is written by `make reference` from the descriptions of the packages. Do not edit it.
"""
KINDS = {
    "loop": "Loops",
    "context": "Context managers",
    "provider": "Providers",
    "tool": "Tools",
    "hook": "Hooks",
}


def page() -> str:
    """Return the whole page."""
    return "\n".join([INTRODUCTION, *(table(kind, title) for kind, title in KINDS.items())])


def table(kind: str, title: str) -> str:
    """Return the section about the modules of one kind."""
    found = descriptions(kind)
    rows = [f"| [{module}]({module}/README.md) | {text} |" for module, text in found.items()]
    return "\n".join([f"## {title}\n", "| Module | What it does |", "|---|---|", *rows, ""])


def descriptions(kind: str) -> dict[str, str]:
    """Return the description of each module whose id begins with a kind."""
    files = {file.parent.name: file for file in sorted(ROOT.glob("modules/*/pyproject.toml"))}
    if unknown := [module for module in files if not any(is_of(module, known) for known in KINDS)]:
        raise ValueError(f"the ids of {', '.join(unknown)} begin with no kind of {', '.join(KINDS)}: add it to KINDS")
    return {
        module: tomllib.loads(file.read_text(encoding="utf-8"))["project"]["description"]
        for module, file in files.items()
        if is_of(module, kind)
    }


def is_of(module: str, kind: str) -> bool:
    """Return whether a module's id begins with a kind, which hooks have in the plural too."""
    return module.partition("-")[0] in (kind, f"{kind}s")


def main(arguments: list[str]) -> int:
    """Write the page, or compare it; return the exit status."""
    written = page()
    if arguments == ["--check"]:
        is_fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == written
        print(f"{PAGE.relative_to(ROOT)} is {'up to date' if is_fresh else 'out of date: run `make reference`'}")
        return int(not is_fresh)
    PAGE.write_text(written, encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
