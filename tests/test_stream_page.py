"""The guide and the page about agents name every record of `stream-json`."""

from pathlib import Path

from amplifier_app_cli.children.endings import STARTED
from amplifier_app_cli.run.printers import StreamPrinter

DOCS = Path(__file__).resolve().parent.parent / "docs"


def test_every_event_of_the_stream_is_in_the_pages() -> None:
    """Whoever reads the stream finds each event that it can have, of the session in the guide, of agents in theirs."""
    guide = (DOCS / "guide.md").read_text(encoding="utf-8")
    agents = (DOCS / "delegation.md").read_text(encoding="utf-8")
    of_agents = [event for event in StreamPrinter._EVENTS if event.startswith(("delegate:", "task:"))]
    assert set(StreamPrinter._EVENTS) - set(of_agents) <= _named(guide)
    known = {event for event in of_agents if not event.startswith("task:")}
    assert {*known, *STARTED, "session:end"} <= _named(agents)


def _named(page: str) -> set[str]:
    return {word.strip("`,.|") for word in page.split() if word.startswith("`")}
