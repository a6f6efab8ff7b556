"""Addresses of repositories are compared in one spelling."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin.services.git_address import GitAddress

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,12}", fullmatch=True)


@given(host=NAMES, names=st.lists(NAMES, min_size=1, max_size=4))
def test_spellings_meet(host: str, names: list[str]) -> None:
    """Case, `.git`, slashes, user and way of access make no difference."""
    path = "/".join(names)
    spellings = {
        f"https://{host}/{path}",
        f"https://{host}:443/{path}.git",
        f"git+https://token:x@{host.upper()}/{path}/",
        f"ssh://git@{host}/{path}.git",
        f"git@{host}:{path.upper()}",
    }
    assert {GitAddress.parse(spelling) for spelling in spellings} == {GitAddress(host.lower(), path.lower())}


@given(first=NAMES, second=NAMES)
def test_different_names_never_meet(first: str, second: str) -> None:
    """Two repositories are the same only when their names are, but for case."""
    same = GitAddress.of("h", f"org/{first}") == GitAddress.of("h", f"org/{second}")
    assert same == (first.lower() == second.lower())


@given(st.text(max_size=40))
def test_no_text_makes_it_fail(text: str) -> None:
    """Whatever a client sends, the answer is an address without odd parts, or none."""
    found = GitAddress.of("h", text)
    assert found is None or not {"", ".", ".."} & set(found.path.split("/"))
    GitAddress.parse(text)
