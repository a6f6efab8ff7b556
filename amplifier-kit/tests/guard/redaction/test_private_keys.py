"""Private keys, whole and in parts. The examples are made at run time, so that no file holds anything like a key."""

from __future__ import annotations

import json
from base64 import b64encode
from random import Random

import pytest

from amplifier_kit.guard.redaction.formats import mask_tokens, may_hold_token
from amplifier_kit.guard.redaction.prefilter import MASK, Glance
from amplifier_kit.guard.redaction.redactor import Redactor

CHANCE = Random(18)


def rsa(first: str = "308204a40201000282010100") -> str:
    """Return bytes that begin as the private key of RSA does, in base64."""
    return b64encode(bytes.fromhex(first) + CHANCE.randbytes(1180)).decode()


#: How the bytes of a key begin, by its kind.
BEGINNINGS = {
    "RSA": "308204a40201000282010100",
    "RSA, 4096 bits": "308209280201000282020100",
    "RSA in PKCS #8": "308204bd020100300d06092a864886f70d0101010500",
    "encrypted": "3082051c304e06092a864886f70d01050d3041",
    "encrypted, new": "308205" + "1c305706092a864886f70d01050d304a",
    "DSA": "308201bb02010002818100",
    "P-256": "30770201010420",
    "P-384": "3081a40201010430",
    "P-521": "3081dc0201010442",
    "P-256 in PKCS #8": "308187020100301306072a8648ce3d020106082a8648ce3d030107",
    "P-384 in PKCS #8": "3081b6020100301006072a8648ce3d020106052b81040022",
    "Ed25519": "302e020100300506032b657004220420",
    "OpenSSH": b"openssh-key-v1\0".hex(),
}


def lines(text: str, columns: int = 64, line_break: str = "\n") -> str:
    return line_break.join(text[at : at + columns] for at in range(0, len(text), columns))


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\\n", "\\r\\n", "\\\\n"])
@pytest.mark.parametrize("columns", [64, 70, 76, 10_000])
def test_a_key_without_its_first_line(columns: int, line_break: str) -> None:
    """The lines before the last one of a private key are masked with it, and what stands before them stays."""
    body = lines(b64encode(CHANCE.randbytes(700)).decode(), columns, line_break)
    end = "-----END RSA PRIVATE" + " KEY-----"
    text = f"of the key:{line_break}{body}{line_break}{end}{line_break}is all"
    assert mask_tokens(text) == (f"of the key:{line_break}{MASK}{line_break}is all", 1)
    assert may_hold_token(Glance(text))


def test_an_end_without_a_key() -> None:
    """Prose about the last line of a key is no key."""
    for text in ("it ends with -----END PRIVATE" + " KEY-----", "a line of prose\n-----END PRIVATE" + " KEY-----\n"):
        assert mask_tokens(text) == (text, 0)


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_a_key_without_any_mark(kind: str) -> None:
    """Lines in base64 that decode to the beginning of a private key are masked, and the prose around them stays."""
    body = b64encode(bytes.fromhex(BEGINNINGS[kind]) + CHANCE.randbytes(333)).decode()
    for columns in (64, 70, 10_000):
        for text in ("{}", "here it is:\n{}\n\nand so on", '{{"data": "{}"}}', "key={}\n", "  {}\n  end."):
            given = text.format(lines(body, columns))
            assert mask_tokens(given) == (text.format(MASK), 1)
            assert may_hold_token(Glance(given))


def test_other_structures_stay() -> None:
    """Certificates, requests, public keys and other data in base64 are no private keys."""
    for first in (
        "308203a33082028ba00302010202",
        "308202e3308201cb0201003081",
        "30820122300d06092a864886f70d01010105000382010f00",
        "3059301306072a8648ce3d020106082a8648ce3d030107034200",
        "89504e470d0a1a0a0000000d49484452",
        "504b0304140000000800",
        "1f8b0800000000000003",
    ):
        text = lines(b64encode(bytes.fromhex(first) + CHANCE.randbytes(900)).decode())
        assert mask_tokens(text) == (text, 0)


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\\n"])
def test_a_key_of_putty(line_break: str) -> None:
    """Of a key file of PuTTY the private lines and their check are masked; the public ones and the comment stay."""
    public, private = rsa("00000007"), b64encode(CHANCE.randbytes(300)).decode()
    before = [
        "PuTTY-User-Key-" + "File-3: ssh-rsa",
        "Encryption: none",
        "Comment: me",
        "Public-Lines: 4",
        lines(public, 64, line_break),
    ]
    file = line_break.join(
        [*before, "Private-" + "Lines: 7", lines(private, 64, line_break), "Private-" + "MAC: " + "0a1b2c3d" * 8, "end"]
    )
    clean = line_break.join([*before, "Private-Lines: 7", MASK, f"Private-MAC: {MASK}", "end"])
    assert mask_tokens(file) == (clean, 2)


def test_a_key_in_json() -> None:
    """The private numbers of a JSON web key are masked, and its public ones stay, also in a string in a string."""
    key = {"kty": "RSA", "n": "n" * 43, "e": "AQAB", "d": "D7" * 20, "p": "P3" * 20, "kid": "2026-11"}
    clean = {**key, "d": MASK, "p": MASK}
    for text, expected in ((json.dumps(key), json.dumps(clean)), (json.dumps({"a": json.dumps(key)}), None)):
        masked, found = mask_tokens(text)
        assert found == 2
        assert masked == (expected or json.dumps({"a": json.dumps(clean)}))


def test_a_key_file_in_base64() -> None:
    """A key file that was encoded as a whole, as in the config of Kubernetes, is masked; a certificate is not."""
    for kind in ("RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY"):
        encoded = b64encode(f"-----BEGIN {kind}-----\n{lines(rsa())}\n".encode()).decode()
        assert mask_tokens(f"client-key-data: {encoded}\n") == (f"client-key-data: {MASK}\n", 1)
    certificate = b64encode(f"-----BEGIN CERTIFICATE-----\n{lines(rsa('308203a3'))}\n".encode()).decode()
    text = f"certificate-authority-data: {certificate}\n"
    assert mask_tokens(text) == (text, 0)


def test_a_key_of_ssh_com() -> None:
    """The marks of a key may have four hyphens and spaces."""
    key = f"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{lines(rsa())}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----"
    assert mask_tokens(f"a\n{key}\nb") == (f"a\n{MASK}\nb", 1)


@pytest.mark.parametrize(
    "part",
    ["-----END PRIVATE" + " KEY-----", "-----END PRIVATE" + " KEY-----\n", "MIIEpAIBAA", "MIIEpAIBAA\n", "LS0tL"],
)
def test_hostile_text_is_finished(part: str) -> None:
    """A text of a hundred thousand characters that is made of the parts of keys is scrubbed, and once for all."""
    redactor = Redactor()
    clean = redactor.scrub_text(part * (100_000 // len(part)))
    assert redactor.scrub_text(clean) == clean
