"""Secrets in the notations of config files, and lines that only look like them."""

from __future__ import annotations

from base64 import b64encode

import pytest

from amplifier_kit.guard.redaction.labels import announces_secret, mask_labelled
from amplifier_kit.guard.redaction.prefilter import MASK, Glance
from amplifier_kit.guard.redaction.redactor import Redactor

LOGIN = b64encode(b"me:swordfish").decode()

#: The text, with braces where the mask must be, and the secret in it.
ANNOUNCED = [
    ("<password>{}</password>", "swordfish"),
    ("<server><username>me</username><password>{}</password></server>", "hunter2"),
    ("<password>\n    {}\n  </password>", "two words"),
    ('<ns:Password xml:space="preserve">{}</ns:Password>', "swordfish"),
    ("<password><![CDATA[{}]]></password>", "swordfish"),
    ("<clientSecret>{}</clientSecret>", "swordfish"),
    ("<apiKey>{}</apiKey>", "swordfish"),
    ("<authToken>{}</authToken>", "abc123def456"),
    ('<user name="me" password="{}"/>', "swordfish"),
    ('<property name="password" value="{}"/>', "swordfish"),
    ('<property name="javax.persistence.jdbc.password" value="{}"/>', "swordfish"),
    ('<add key="ApiKey" value="{}" />', "swordfish"),
    ('<input type="hidden" name="auth_token" value="{}">', "swordfish"),
    ("<key>password</key>\n  <string>{}</string>", "swordfish"),
    ('{{"name": "DB_PASSWORD", "value": "{}"}}', "swordfish"),
    ('{{\\"name\\": \\"DB_PASSWORD\\", \\"value\\": \\"{}\\"}}', "swordfish"),
    ("- name: DB_PASSWORD\n  value: {}\n", "swordfish"),
    ("Server=db;Database=app;User Id=sa;Password={};Encrypt=True", "swordfish"),
    ('"Data Source=db; Initial Catalog=app; Uid=sa; Pwd={};"', "swordfish"),
    ("host=db user=app password={} dbname=app", "swordfish"),
    ("host=db port=5432 dbname=app user=app password={}", "swordfish"),
    ("machine example.com login me password {}", "swordfish"),
    ("machine example.com\n  login me\n  password {}\n", "swordfish"),
    ("machine example.com\\n  login me\\n  password {}\\n", "swordfish"),
    ("machine example.com login me account us password {}\nmachine b login c", "swordfish"),
    ("login me\npassword {}\n", "swordfish"),
    ("default login anonymous password {}", "me-myself"),
    ("db.example.com:5432:app:me:{}", "swordfish"),
    ("# all\n*:*:*:me:{}\n", "swordfish"),
    ("localhost:5432:*:me:{}\n", "with\\:colon"),
    ("password: {}", "correct horse battery staple"),
    ("  Password = {}\n  user = me", "correct horse battery staple"),
    ("WiFi passphrase: {}.", "tulip ladder seven"),
    ("password: {}\\nuser: me", "correct horse battery staple"),
    ("mnemonic: {}", "legal winner thank year wave sausage worth useful legal winner thank yellow"),
    ("seed phrase: {}", "legal winner thank year wave sausage worth useful legal winner thank yellow"),
    ('{{"auths": {{"ghcr.io": {{"auth": "{}"}}}}}}', LOGIN),
    ("//packages.example.com/:_auth={}", LOGIN),
    ("//packages.example.com/:_authToken={}", "0a1b2c3d-4e5f-6789-abcd-ef0123456789"),
    ("[pypi]\nusername = __token__\npassword = {}", "abc123def456"),
    ("PrivateKey = {}", "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="),
    ("PresharedKey = {}", "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="),
    ("X-Api-Key: {}", "abc123def456"),
    ("x-functions-key: {}", "abc123def456"),
    ("ALGOLIA_ADMIN_KEY={}", "0123456789abcdef0123456789abcdef"),
    ("DD_APP_KEY={}", "0123456789abcdef0123456789abcdef01234567"),
    ("MISTRAL_API_KEY={}", "abcdefghABCDEFGH01234567"),
    ("export CLOUDFLARE_API_TOKEN={}", "abcd1234EFGH5678"),
    ("aws_secret_access_key = {}", "aB3dE5fG7/" * 3 + "+sKey"),
    ("aws_session_token={}", "IQoJb3JpZ2x1234567890"),
    ("redis://:{}@cache:6379/0", "swordfish"),
    ("amqps://me:{}@mq/vhost", "swordfish"),
    ("mongodb+srv://me:{}@cluster0.example.net/app", "swordfish"),
]

ORDINARY = [
    "the password: field is required",
    "password: see the vault",
    "enter your password below",
    "Password: must be at least eight characters",
    "password: not set",
    "password: leave blank",
    "Password: minimum eight characters",
    "passphrase: prompts when missing",
    "password: ask your administrator for it",
    "Invalid password: wrong user or password",
    "password: str",
    "password: str | None = None",
    "token: str | None = None",
    "password: Optional[SecretStr] = Field(default=None)",
    "secret: string;\n  token?: string;",
    "password:\n  minLength: 8\ntoken:\n",
    "<password></password>",
    "<password/>",
    "<password>${env.DB_PASSWORD}</password>",
    "<password>string</password>",
    "<token>a short explanation of tokens</token>",
    "<label for='password'>Password</label><input type='password' name='password' placeholder='your password'>",
    "<h2>Secret formats</h2><p>password: see below</p>",
    '<xs:element name="password" type="xs:string"/>',
    '<add key="Theme" value="dark" /><property name="key" value="x1"/>',
    '{"name": "PATH", "value": "/bin"}',
    "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: db",
    "- name: DB_PASSWORD\n  value: ${DB_PASSWORD}",
    "machine learning needs no password manager",
    "Log in to the machine with your login name and password as usual",
    "the login page asks for a password first",
    "src/main.py:5432:12:error:message",
    "10:54:32 web:5432:7:1:ok",
    "docker run -p 5432:5432 postgres:16",
    "host=db, user=user, password=password)",
    "connect(host=host, user=user, password=pw)",
    "a=1;password=b;c=2",
    '"auth": "required"',
    "auth: bearer",
    "primary_key: id, foreign_key: user_id, sort_key=name1234",
    '"integrity": "sha512-' + "aB3+/" * 17 + 'a=="',
]


@pytest.mark.parametrize(("text", "secret"), ANNOUNCED, ids=[text for text, _ in ANNOUNCED])
def test_secrets_of_config_files_are_masked(text: str, secret: str) -> None:
    """A secret is masked in every notation that config files have for it; what announces it stays."""
    assert mask_labelled(text.format(secret)) == (text.format(MASK), 1)
    assert announces_secret(Glance(text.format(secret)))


@pytest.mark.parametrize(("text", "secret"), ANNOUNCED, ids=[text for text, _ in ANNOUNCED])
def test_a_masked_secret_is_left_alone(text: str, secret: str) -> None:
    """What is masked is not masked again."""
    assert mask_labelled(text.format(MASK)) == (text.format(MASK), 0)


@pytest.mark.parametrize("text", ORDINARY)
def test_prose_types_and_schemas_stay(text: str) -> None:
    """Sentences about passwords, annotations, empty fields, schemas and references hold no secret."""
    redactor = Redactor(rules=["secrets"])
    assert redactor.scrub_text(text) == text


@pytest.mark.parametrize(
    "part",
    [
        "<password>",
        "<password> ",
        "name: password\n",
        'name="password" ',
        "server=a;",
        "host=a ",
        "machine a login b ",
        "login a\n",
        "a:5432:",
        "password: ab ",
        "password: ab-",
        "<key>password</key>",
    ],
)
def test_hostile_text_is_finished(part: str) -> None:
    """A text of a hundred thousand characters that is made of beginnings is scrubbed, and once for all."""
    redactor = Redactor()
    clean = redactor.scrub_text(part * (100_000 // len(part)))
    assert redactor.scrub_text(clean) == clean
