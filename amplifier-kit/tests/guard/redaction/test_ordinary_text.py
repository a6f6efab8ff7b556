"""What is no secret stays: code, hashes, ids, encoded data, lock files, logs and prose, made up and real."""

from __future__ import annotations

import base64
import hashlib
import json
import sysconfig
import uuid
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amplifier_kit
from amplifier_kit.guard.redaction.formats import mask_tokens
from amplifier_kit.guard.redaction.prefilter import MASK
from amplifier_kit.guard.redaction.redactor import Redactor

WORDS = [
    *("path", "package", "patch", "perm", "key", "live", "secret", "token", "api", "sdk", "mob", "pat", "sk", "pk"),
    *("md", "fc", "ak", "as", "re", "st", "pa", "ls", "dp", "glc", "sgp", "npm"),
]


def unchanged(text: str) -> bool:
    return Redactor(rules=["secrets"]).scrub_text(text) == text


@given(st.binary(max_size=40), st.sampled_from(["md5", "sha1", "sha256", "sha384", "sha512"]))
def test_digests_and_ids(content: bytes, kind: str) -> None:
    """Digests in hex and base64, commits, UUIDs and the names that contain them stay."""
    digest = hashlib.new(kind, content).digest()
    name = uuid.UUID(bytes=hashlib.md5(content).digest())
    encoded = base64.b64encode(digest).decode()
    for text in (
        f"{kind}:{digest.hex()}",
        f"commit {digest.hex()[:40]}",
        f"{kind}-{encoded}",
        f'"integrity": "{kind}-{encoded}",',
        f"--hash={kind}:{digest.hex()}",
        f"id={name} {name.hex} {str(name).upper()}",
        f"pod/api-{digest.hex()[:10]}-{digest.hex()[10:15]} task-{name} disk-{digest.hex()}",
        f"key_{digest.hex()} lock-{digest.hex()[:32]}.json",
    ):
        assert unchanged(text)


@given(st.binary(min_size=200, max_size=2000), st.booleans())
def test_encoded_data(content: bytes, is_wrapped: bool) -> None:
    """Images and other data in base64 stay, in one line or in many."""
    encoded = base64.encodebytes(content).decode() if is_wrapped else base64.b64encode(content).decode()
    assert unchanged(f"data:image/png;base64,{encoded}")
    assert unchanged(f"sourceMappingURL=data:application/json;base64,{encoded}")


@given(st.lists(st.sampled_from(WORDS), min_size=2, max_size=8), st.sampled_from("-_./"), st.integers(0, 99))
def test_names(words: list[str], sign: str, number: int) -> None:
    """Names, paths and classes that are put together from the words that tokens begin with stay."""
    name = sign.join(words)
    for text in (name, f"{name}{sign}{number}", f"/usr/{name}.py:{number}: error", f"<div class='{name} {name}-lg'>"):
        assert unchanged(text)


@given(st.integers(0, 10**9), st.lists(st.sampled_from(["a", "t", "key", "sk", "n", "p"]), min_size=20, max_size=60))
def test_minified_code(seed: int, names: list[str]) -> None:
    """Code without spaces stays, whatever its variables are called."""
    chance = Random(seed)
    signs = ["=", ".", "(", ")", ",", ";", "?", ":", "[0]", "&&", "+", "-", "/2*"]
    assert unchanged("!function(e){" + "".join(name + chance.choice(signs) for name in names) + "}(this);")


@pytest.mark.parametrize(
    "text",
    [
        "!function(e){t?key=a)a/2*key=n}(this);",
        '"node_modules/left-pad": {"version": "1.3.0", "resolved": "https://packages.example.com/left-pad/-/left-pad-1.3.0.tgz"}',
        "2026-11-15T10:00:00.123Z INFO [req-7f3a9b2c] GET /api/v1/users/42?page=2&sort=name 200 12ms",
        "arn:aws:iam::123456789012:role/deploy-prod-eu-1",
        "registry.example.com/team/app@sha256:" + "0a1b" * 16,
        "eslint-disable-next-line @typescript-eslint/no-explicit-any",
        "usage: tool [-h] [--token TOKEN] [--password PASSWORD] [-p PORT] [--api-key KEY]",
        "  --token TEXT     Token to use; read from TOKEN if unset",
        "token = os.environ['TOKEN']; password = getpass.getpass('password: ')",
        "if token is None: raise ValueError('token: required')",
        "export TOKEN=${TOKEN:-} PASSWORD=<your-password> API_KEY=your-api-key SECRET=xxxx",
        ".btn-primary-token{color:#a1b2c3d4} .password-field--error:focus{outline:0}",
        "https://example.com/reset-password?next=/account#token",
        "Fixes #1234: the token refresh, see https://github.com/org/repo/commit/" + "0a1b2c3d" * 5,
    ],
)
def test_lines_of_a_day(text: str) -> None:
    """Lock files, logs, help, placeholders, styles and addresses without passwords stay."""
    assert unchanged(text)
    assert unchanged(json.dumps({"output": text}))


def test_sources_hold_no_tokens() -> None:
    """No name in this package and in Python's own library is taken for the token of a service or a key."""
    library = Path(sysconfig.get_path("stdlib"))
    own = (path for path in Path(amplifier_kit.__file__).parent.rglob("*.py") if "testing" not in path.parts)
    sources = [*own, *library.glob("*.py"), *library.glob("[a-e]*/*.py")]
    assert len(sources) > 200
    masked = [path.name for path in sources if mask_tokens(path.read_text(encoding="utf-8"))[1]]
    assert masked == []


def test_sources_stay_readable() -> None:
    """Of Python's own library not one line in ten thousand is masked by what it announces."""
    redactor = Redactor(rules=["secrets"])
    texts = [path.read_text(encoding="utf-8") for path in Path(sysconfig.get_path("stdlib")).glob("*.py")]
    lines = sum(text.count("\n") for text in texts)
    masks = sum(redactor.scrub_text(text).count(MASK) for text in texts)
    assert masks * 10_000 < lines
