"""The host's Debian mirror, read from its apt sources."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin.apt_sources import (
    AptSource,
    Mirror,
    apt_sources,
    debian_mirror,
    has_credentials,
    without_credentials,
)

_NEW = """Types: deb deb-src
# a comment
URIs: http://mirror.example/debian
Suites: bookworm
 bookworm-updates
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm

Types: deb
URIs: https://safe.example:8443/debian-security
Suites: bookworm-security
"""


def test_both_forms_are_read(tmp_path: Path) -> None:
    """One-line and stanza files count; other files, sources of source code and those switched off do not."""
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_bytes(
        b"\xef\xbb\xbfdeb [arch=amd64 signed-by=/k.gpg] http://one.example/debian trixie main\r\n"
        b"# deb http://no.example x\n"
        b"deb-src http://src.example/debian trixie main\n"
    )
    (parts / "debian.sources").write_text(_NEW, encoding="utf-8")
    (parts / "old.list.save").write_text("deb http://saved.example/debian sid main\n", encoding="utf-8")
    assert apt_sources(tmp_path) == [
        AptSource("http://one.example/debian", ("trixie",)),
        AptSource("http://mirror.example/debian", ("bookworm", "bookworm-updates")),
        AptSource("https://safe.example:8443/debian-security", ("bookworm-security",)),
    ]


def test_a_host_without_apt_has_no_sources(tmp_path: Path) -> None:
    """No files, no sources, no mirror."""
    assert debian_mirror(apt_sources(tmp_path)) == Mirror(None, None)
    assert Mirror(None, None).lines("bookworm", with_credentials=True) == ""


def test_only_debians_own_archive_is_a_mirror() -> None:
    """Other vendors' repositories, other systems and discs are not taken for it."""
    sources = [
        AptSource("https://vendor.example/apt", ("cloud-sdk-bookworm",)),
        AptSource("http://archive.example/ubuntu", ("noble", "noble-security")),
        AptSource("cdrom:[Debian]/", ("bookworm",)),
        AptSource("http://mirror.example/backports", ("bookworm-backports",)),
        AptSource("http://mirror.example/debian", ("bookworm-updates", "bookworm")),
        AptSource("http://safe.example/debian-security", ("bookworm-security",)),
    ]
    mirror = debian_mirror(sources)
    assert mirror == Mirror("http://mirror.example/debian", "http://safe.example/debian-security")
    assert mirror.hosts() == ("mirror.example", "safe.example")
    assert mirror.lines("trixie", with_credentials=False).splitlines() == [
        "deb http://mirror.example/debian trixie main",
        "deb http://mirror.example/debian trixie-updates main",
        "deb http://safe.example/debian-security trixie-security main",
    ]


def test_passwords_are_told_from_addresses() -> None:
    """A mirror's password is in no line that is written for others, nor in its host's name."""
    mirror = Mirror("https://me:s3cret@mirror.example:8443/debian", None)
    assert has_credentials(mirror.archive or "")
    assert "s3cret" in mirror.lines("bookworm", with_credentials=True)
    assert "s3cret" not in mirror.lines("bookworm", with_credentials=False)
    assert mirror.hosts() == ("mirror.example:8443",)


_WORD = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-", min_size=1, max_size=12).filter(lambda word: word[0] != "-")


@given(_WORD, st.lists(_WORD, min_size=1, max_size=3))
def test_what_is_written_is_read_again(host: str, suites: list[str]) -> None:
    """The two forms of one source are the same source."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sources.list.d").mkdir()
        uri = f"http://{host}/debian"
        (folder / "sources.list").write_text("".join(f"deb {uri} {suite} main\n" for suite in suites), encoding="utf-8")
        (folder / "sources.list.d" / "x.sources").write_text(
            f"Types: deb\nURIs: {uri}\nSuites: {' '.join(suites)}\n", encoding="utf-8"
        )
        found = apt_sources(folder)
    assert [suite for source in found[:-1] for suite in source.suites] == list(found[-1].suites) == suites
    assert {source.uri for source in found} == {uri}


def test_an_address_without_a_password_stays() -> None:
    """Nothing is taken from an address that has none."""
    assert without_credentials("http://mirror.example/debian") == "http://mirror.example/debian"
