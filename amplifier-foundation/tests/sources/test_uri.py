"""How sources are written."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.sources.fetched import SourceError
from amplifier_foundation.sources.uri import SourceUri, parse_source, without_secrets

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "kind", "url", "path", "ref", "subdirectory"),
    [
        ("git+https://h.example/o/r@v1#subdirectory=a/b", "git", "https://h.example/o/r", "", "v1", "a/b"),
        ("git+https://h.example/o/r", "git", "https://h.example/o/r", "", "main", ""),
        ("git+https://h.example/o/r.git@feature/x", "git", "https://h.example/o/r.git", "", "feature/x", ""),
        ("git+https://u:p@h.example:8443/o/r@x", "git", "https://u:p@h.example:8443/o/r", "", "x", ""),
        ("git+ssh://git@h.example/o/r", "git", "ssh://git@h.example/o/r", "", "main", ""),
        ("git+ssh://git@h.example/o/r@dev", "git", "ssh://git@h.example/o/r", "", "dev", ""),
        (f"git+file:///srv/r@{COMMIT}", "git", "file:///srv/r", "", COMMIT, ""),
        ("file:///p#subdirectory=q", "file", "", "/p", "", "q"),
        ("file://localhost/p", "file", "", "/p", "", ""),
        ("/p#subdirectory=q", "file", "", "/p#subdirectory=q", "", ""),
        ("./a b/ü", "file", "", "./a b/ü", "", ""),
        ("../x", "file", "", "../x", "", ""),
        (".", "file", "", ".", "", ""),
        ("~/x", "file", "", "~/x", "", ""),
        ("https://h.example/b.md?token=1", "http", "https://h.example/b.md?token=1", "", "", ""),
        ("http://h.example/b.yaml", "http", "http://h.example/b.yaml", "", "", ""),
        ("zip+https://h.example/a.zip#subdirectory=x", "zip", "https://h.example/a.zip", "", "", "x"),
        ("zip+file:///srv/a.zip", "zip", "file:///srv/a.zip", "", "", ""),
        ("name", "package", "", "name", "", ""),
        ("name/sub/path", "package", "", "name", "", "sub/path"),
    ],
)
def test_every_form(text: str, kind: str, url: str, path: str, ref: str, subdirectory: str) -> None:
    """Each form of a source has the parts that its row in the format's table says."""
    source = parse_source(text)

    assert (kind, url, path, ref, subdirectory) == (
        source.kind,
        source.url,
        source.path,
        source.ref,
        source.subdirectory,
    )
    assert text == source.text


@pytest.mark.parametrize("text", ["C:\\x", "c:/x", "\\\\server\\share", "file:///C:/x", "file:///c%3A/x"])
def test_a_path_of_windows_is_refused_with_an_explanation(text: str) -> None:
    """A path shaped for another system is not taken for a name or a file."""
    with pytest.raises(SourceError, match="path of Windows"):
        parse_source(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        (" ./x", "blanks"),
        ("./x\n", "blanks"),
        ("./a\0b", "control"),
        ("git+https://h.example/o/r@-u", "cannot be the name"),
        ("git+https://h.example/o/r@--upload-pack=x", "cannot be the name"),
        ("git+https://h.example/o/r@a b", "cannot be the name"),
        ("git+https://h.example/o/r@a..b", "cannot be the name"),
        ("git+https://h.example/o/r@", "cannot be the name"),
        ("git+ssh://-oProxyCommand=x/o/r", "does not start with '-'"),
        ("git+ssh://git@-oProxyCommand=x/o/r", "does not start with '-'"),
        ("git+https://h.example", "names no repository"),
        ("git+https:///o/r", "names no repository"),
        ("git+https://h.example/o/r#egg=x", "only `subdirectory=path`"),
        ("git+https://h.example/o/r#subdirectory=../x", "must be relative"),
        ("git+https://h.example/o/r#subdirectory=/x", "must be relative"),
        ("git+https://h.example/o/r#subdirectory=a\\b", "must be relative"),
        ("git+https://h.example/o/r#subdirectory=a&egg=b", "only `subdirectory=path`"),
        ("git@h.example:o/r", "write git\\+ssh://git@h.example/o/r"),
        ("git+ext://sh -c x", "is not a source"),
        ("ftp://h.example/x", "is not a source"),
        ("foundation:behaviors/x", "understood in includes"),
        ("-x", "is not a source"),
        ("https://h.example/a.md#subdirectory=x", "has no subdirectory"),
        ("https://h.example", "names no file"),
        ("zip+https://h.example", "names no file"),
        ("file://server/share", "three slashes"),
    ],
)
def test_what_is_no_source_says_why(text: str, message: str) -> None:
    """A text that cannot be a source is refused with the reason; nothing of it reaches a program."""
    with pytest.raises(SourceError, match=message):
        parse_source(text)


names = st.text(string.ascii_letters + string.digits + "_é", min_size=1, max_size=8)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
parts = st.one_of(st.just(""), paths.map(lambda path: f"#subdirectory={path}"))
refs = st.one_of(st.just(""), paths.map(lambda ref: f"@{ref}"))
gits = st.builds(
    lambda scheme, user, host, path, ref, part: f"git+{scheme}://{user}{host}/{path}{ref}{part}",
    st.sampled_from(["https", "ssh", "http"]),
    st.sampled_from(["", "git@", "user:word@"]),
    names,
    paths,
    refs,
    parts,
)
files = st.builds(lambda path, part: f"file:///{path}{part}", paths, parts)
zips = st.builds(lambda path, part: f"zip+https://host/{path}.zip{part}", paths, parts)
relative = st.builds(lambda up, path: up + path, st.sampled_from(["./", "../", "/", "~/"]), paths)
webs = paths.map(lambda path: f"https://host/{path}.md")
packages = st.from_regex(r"\A[a-z][a-z0-9-]{0,8}(/[a-z]{1,4}){0,2}\Z")


@given(st.one_of(gits, files, zips, relative, webs, packages))
def test_the_canonical_spelling_means_the_same(text: str) -> None:
    """Written out and parsed again, a source has the same parts."""
    source = parse_source(text)
    again = parse_source(source.canonical)

    assert SourceUri(again.kind, text, again.url, again.path, again.ref, again.subdirectory) == source
    assert again.canonical == source.canonical


@given(st.one_of(gits, files, zips), paths)
def test_another_part_of_the_same_source(text: str, part: str) -> None:
    """A source can be asked for another of its parts, and its text says so."""
    other = parse_source(text).of(part)

    assert part == parse_source(other.text).subdirectory
    assert parse_source(text).url == other.url


def test_a_part_of_a_path_that_has_the_fragment_s_sign() -> None:
    """A `#` in a path is encoded where it would begin a fragment."""
    assert parse_source("/a#b").of("c").text == "file:///a%23b#subdirectory=c"


@given(st.text(max_size=30))
def test_any_text_is_a_source_or_a_source_error(text: str) -> None:
    """No text makes the parser fail in any other way; a source keeps its text, and a refusal has a reason."""
    try:
        kept = parse_source(text).text == text
    except SourceError as error:
        kept = bool(str(error))
    assert kept


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git+https://u:secret@h/o/r@x", "git+https://***@h/o/r@x"),
        ("https://secret@h/x", "https://***@h/x"),
        ("https://u:p@secret@h/x", "https://***@h/x"),
        ("fatal: 'ssh://u:secret@h/x' and https://h/o@x", "fatal: 'ssh://***@h/x' and https://h/o@x"),
        ("git+ssh://git@h/o/r@x", "git+ssh://git@h/o/r@x"),
        ("https://h/a@b", "https://h/a@b"),
    ],
)
def test_credentials_are_not_shown(text: str, shown: str) -> None:
    """What a URL has before its host is masked, except a name that says nothing."""
    assert shown == without_secrets(text)


@pytest.mark.parametrize(("ref", "is_commit"), [(COMMIT, True), (COMMIT[:39], False), ("main", False)])
def test_only_a_whole_commit_id_is_a_commit(ref: str, is_commit: bool) -> None:
    """Forty hexadecimal digits are a commit, less are the name of a branch or tag."""
    assert is_commit is parse_source(f"git+https://h/o/r@{ref}").is_commit
