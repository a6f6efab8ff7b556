"""What `--verbose` says of a run: the files it was made of, its modules, and what took how long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplifier_app_cli.run.tally import Tally
from amplifier_core.plan import plan_modules

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_foundation.plan.prepared import Prepared


def file_details(app: App, prepared: Prepared) -> Iterator[str]:
    """Yield the files of settings and bundle that were read, and every module with where it comes from."""
    documents = () if app.is_safe else app.settings.documents
    for scope, document in documents:
        yield f"settings: {document.path} ({scope})"
    if not documents:
        yield "settings: none"
    composed = prepared.composed
    origin = ", as recorded with the session" if prepared.is_recorded else ""
    yield f"bundle: {' '.join(filter(None, (composed.name, composed.version)))} from {composed.uri}{origin}"
    of_settings = {document.path for _, document in documents}
    for layer in () if prepared.is_recorded else prepared.layers:
        if layer.document.path in of_settings:
            continue  # told above
        yield f"bundle file: {layer.document.path} ({layer.owner})"
    yield f"home: {prepared.home.path}"
    for planned in plan_modules(composed.plan):
        module, entry = planned.module_id, planned.entry
        section = planned.kind if planned.section == "session" else planned.section
        folder = prepared.modules.get(module)
        place = str(folder) if folder is not None else "installed with the program"
        source = f", source {entry['source']}" if entry.get("source") else ""
        yield f"module: {section} {entry.get('id') or module} ({place}{source})"


def timing_details(prepared_after: int | None, tally: Tally) -> Iterator[str]:
    """Yield what took how long, in milliseconds since the command began its work."""
    if prepared_after is not None:
        yield f"time: prepared after {prepared_after} ms"
    if tally.first_words is not None:
        yield f"time: first words of the model after {tally.first_words} ms"
    yield f"time: done after {tally.milliseconds} ms"
