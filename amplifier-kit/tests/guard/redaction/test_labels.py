"""Secrets that a text announces."""

from __future__ import annotations

import base64

import pytest

from amplifier_kit.guard.redaction.labels import announces_secret, mask_labelled
from amplifier_kit.guard.redaction.prefilter import MASK, Glance

BASIC = base64.b64encode(b"user:hunter2").decode()

#: The text, with braces where the mask must be, and the secret in it.
ANNOUNCED = [
    ("password={}", "hunter2a"),
    ("password: {}", "hunter2"),
    ("the password is {}", "hunter2x"),
    ('{{"password": "{}"}}', "correct horse battery staple"),
    ('{{\\"password\\": \\"{}\\"}}', "correct horse"),
    ("{{'client_secret': '{}'}}", "swordfish"),
    ('api_key = "{}"', "abcd"),
    ('apiKey: "{}"', "it's-mine"),
    ('token: "{}"', "abc123def456"),
    ('secret => "{}"', 'with \\" quote'),
    ("DB_PASSWORD={}", "correcthorse"),
    ("export OPENAI_API_KEY={}", "abcdefgh"),
    ("Server=db;Password={};Encrypt=1", "pa55word!"),
    ("pin password={}", "12345678"),
    ('password: "{}"', "$ecret{1}"),
    ("PASSWORD={}", "$ecret123"),
    ("https://u:{}@host", "{x}y"),
    ("AccountKey={};", "Zm9vYmFyYmF6+/Zm9vYmFyYmF6=="),
    ("https://user:{}@host/path", "p"),
    ("postgres://app:{}@db:5432/x", "p@ss:w0rd"),
    ("https://{}@github.com/org/repo", "0123456789abcdef0123456789abcdef"),
    ("https://host/x?access_token={}&page=2", "short"),
    ("https://host/x?a=1&amp;api_key={}#top", "abcd"),
    ("https://host/x?sig={}", "abcd%2Bef"),
    ("https://maps/api?key={}", "abcdefgh12345678"),
    ("https://host/?next=https://b/?token={}", "abcd"),
    ("Authorization: Bearer {}", "abc123def4"),
    ("'Authorization': 'token {}'", "abcdef0123"),
    ("authorization={}", "abcdefgh1"),
    ("Cookie: {}", "sid=31d4d96e407aad42; theme=dark"),
    ("Set-Cookie: {}", "sid=31d4"),
    ("curl -H 'X: Bearer {}'", "abc123def456"),
    ("sent Basic {}", BASIC),
    ("login --password {} --verbose", "hunter"),
    ("login --api-key={}", "abc123"),
    ("login --foo --client-secret '{}'", "two words"),
    ("curl -u user:{} https://host", "hunter"),
    ("curl --user 'user:{}'", "hunter"),
]

ORDINARY = [
    "token = get_token()",
    "token: str = ''",
    "password: SecretStr",
    "private_key: Ed25519PrivateKey",
    "self.auth = MultiDomainBasicAuth(prompting=True)",
    "SEARCH_API_KEY=a-wrong-key",
    "run `mysql -p…`, `redis-cli -a …`",
    "def login(user, password=None, token=token): ...",
    "connect(password=password, api_key=config.api_key1, auth=self.auth_v2.get)",
    "api_key = os.environ['OPENAI_API_KEY']",
    "tokens[0], max_tokens=4096, token_count: 12345678",
    "secret = secrets[index]",
    "auth: required",
    "auth: oauth2-pkce",
    'auth: "oauth2"',
    '"password": "string", "token": "optional"',
    "password=${DB_PASSWORD} token=$TOKEN api_key=<your key> secret={secret} password=*** token=%s",
    "password: ... and secret: …",
    "secret: /run/secrets/db token=./token.txt token: https://example.com/token2",
    "PWD=/home/somebody/project OLDPWD=/home/somebody",
    "The bearer understands basic authentication; basic understanding helps.",
    "Bearer authentication",
    "Basic py3-none-any",
    "Authorization: deny by default",
    "authorization = base64.decodebytes(header1)",
    "https://host:8080/@scope/package",
    "http://localhost:3000/path?x=1&page=2&sort_key=name",
    "f'postgres://{user}:{password}@{host}/db'",
    "docker run -u 1000:1000 image",
    "git log --author=me --token-file path1 --auth basic",
    "python -u script.py: 3 files",
    "the cookie: a small cake",
    "author: Jane Doe 1234567",
    "keyword=value1234 monkey: banana12 key: value123",
    "input_token: 1234567, auth: 12:30:45",
    "a password is a word, the token is base64-encoded, the password was forgotten",
    "&token",
]


@pytest.mark.parametrize(("text", "secret"), ANNOUNCED, ids=[text for text, _ in ANNOUNCED])
def test_announced_secrets_are_masked(text: str, secret: str) -> None:
    """A secret that a field, header, flag, URL or sentence announces is masked; what announces it stays."""
    assert mask_labelled(text.format(secret)) == (text.format(MASK), 1)


@pytest.mark.parametrize(("text", "secret"), ANNOUNCED, ids=[text for text, _ in ANNOUNCED])
def test_a_masked_secret_is_left_alone(text: str, secret: str) -> None:
    """What is masked is not masked again."""
    assert mask_labelled(text.format(MASK)) == (text.format(MASK), 0)


@pytest.mark.parametrize(("text", "secret"), ANNOUNCED, ids=[text for text, _ in ANNOUNCED])
def test_a_glance_sees_the_announcement(text: str, secret: str) -> None:
    """No announcement is overlooked by the first, quick look."""
    assert announces_secret(Glance(text.format(secret)))


@pytest.mark.parametrize("text", ORDINARY)
def test_code_and_prose_stay(text: str) -> None:
    """Expressions, types, placeholders, paths, numbers and prose about secrets are none."""
    assert mask_labelled(text) == (text, 0)


def test_a_secret_of_any_length_is_masked_whole() -> None:
    """The end of a very long secret does not stay behind."""
    secret = "a1" * 5000
    assert mask_labelled(f"password={secret}; x") == (f"password={MASK}; x", 1)
    assert mask_labelled(f'password="{secret}"; x') == (f'password="{MASK}"; x', 1)


def test_a_quote_that_never_closes() -> None:
    """A value whose closing quote was cut off is masked as far as it goes."""
    assert mask_labelled('{"password": "hunter2abc') == (f'{{"password": "{MASK}', 1)


def test_several_on_one_line() -> None:
    """Each announced secret is masked by itself."""
    text = "password=hunter2a token=abc123def456 user=me secret='x y z'"
    assert mask_labelled(text) == (f"password={MASK} token={MASK} user=me secret='{MASK}'", 3)


def test_letters_that_grow_in_lower_case() -> None:
    """A text whose lower case is longer is masked at the right place."""
    assert mask_labelled("İİİ password=hunter2a İ") == (f"İİİ password={MASK} İ", 1)
