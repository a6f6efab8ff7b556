"""Read and write YAML files with JSON values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from amplifier_kit.guard.files.configured_file import ConfiguredFile
from amplifier_kit.guard.redaction.redactor import process_redactor

_OTHER_BREAKS = re.compile("[\r\x85\u2028\u2029\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class YamlError(ValueError):
    """A file cannot be read, or is not valid YAML; the message says why."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the fast one, if available
    """Read dates as text: JSON has no dates, and tools expect text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):
    """Write multi-line texts as blocks, and repeated values in full."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write a value again instead of referring to it."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if _OTHER_BREAKS.search(text):
        style = '"'  # other styles would not read back the same text
    elif "\n" in text:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def read_yaml(path: Path, project: Path | None = None) -> Any:
    """Return the content of a file that a config of `project` names; raise YamlError when it cannot be read."""
    try:
        return yaml.load(ConfiguredFile(path, project).read().decode("utf-8-sig"), Loader=_Loader)
    except OSError as error:
        raise YamlError(f"cannot be read: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise YamlError(f"is not valid YAML: {error}") from error


def write_yaml(path: Path, value: Any, project: Path | None = None) -> None:
    """Replace a file atomically, readable only by its owner. Raises OSError.

    The config of `project` names the file.
    """
    # Values, not the text of the file: `[REDACTED]` in YAML would be a list.
    value = process_redactor().scrub(plain(value)).value
    text = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=120)
    ConfiguredFile(path, project).replace(text.encode())


def plain(value: Any) -> Any:
    """Return a copy that is JSON throughout: keys and foreign objects as text, lone surrogates as U+FFFD."""
    if isinstance(value, dict):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return _SURROGATE.sub("\ufffd", str(value))
