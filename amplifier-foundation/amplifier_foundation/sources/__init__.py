"""Sources: where bundles and modules are loaded from."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

#: What published apps import from here, and the module that defines it; no run needs it.
_PUBLISHED: Final = {
    "SimpleSourceResolver": "resolver",
    "SourceHandlerProtocol": "protocol",
    "SourceHandlerWithStatusProtocol": "protocol",
    "SourceResolverProtocol": "protocol",
    "SourceStatus": "protocol",
    "GitSourceHandler": "git",
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLISHED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PUBLISHED[name]}"), name)
