"""Secrets in the short options of programs, and options that look the same and hold none."""

from __future__ import annotations

import pytest

from amplifier_kit.guard.redaction.labels import announces_secret, mask_labelled
from amplifier_kit.guard.redaction.prefilter import MASK, Glance
from amplifier_kit.guard.redaction.redactor import Redactor

#: The text, with braces where the mask must be, and the secret in it.
ANNOUNCED = [
    ("mysql -u root -p{} app", "swordfish"),
    ("mysql -uroot -p'{}' app", "two words"),
    ("mysqldump --single-transaction -h db -u root -p{} app > dump.sql", "swordfish"),
    ("/usr/bin/mariadb -p{}", "swordfish"),
    ('["mysqladmin", "-uroot", "-p{}", "ping"]', "swordfish"),
    ('bash -c "mysql -p\\"{}\\" app"', "swordfish"),
    ("cd /srv && mysql -e 'select 1; select 2' -p{}", "swordfish"),
    ("sshpass -p {} ssh me@host", "swordfish"),
    ("sshpass -p'{}' ssh -p 22 me@host", "swordfish"),
    ('["sshpass", "-p", "{}", "ssh", "host"]', "swordfish"),
    ("docker login -u me -p {} ghcr.io", "swordfish"),
    ("helm registry login -u me -p {} ghcr.io", "swordfish"),
    ("mongosh -u me -p {} db", "swordfish"),
    ("redis-cli -h cache -a {} ping", "swordfish"),
    ("ldapsearch -x -D cn=admin -w {} -b dc=x", "swordfish"),
    ("unzip -P {} archive.zip", "swordfish"),
    ("7z x -p{} archive.7z", "swordfish"),
    ("sqlcmd -S db -U sa -P {} -Q 'select 1'", "swordfish"),
    ("openssl rsa -in key.pem -passin pass:{}", "swordfish"),
    ("curl -u me:{} https://host", "swordfish"),
    ("curl --proxy-user me:{} https://host", "swordfish"),
    ("deploy --password={}", "swordfish"),
    ("deploy --token {}", "abc123def4"),
]

ORDINARY = [
    "docker run -p 8080:80 -p 443:443 nginx",
    "docker compose -p project up",
    "docker login -u me --password-stdin ghcr.io",
    "gcc -pthread -pipe -o main main.c",
    "find . -path './node_modules' -prune -o -print",
    "mkdir -p dir/sub && cp -p a b",
    "ssh -p 22 me@host; scp -P 2222 a me@host:",
    "python -c 'print(1)' -p x",
    "tar -pxf a.tar; tar -cpf b.tar .",
    "pytest -p no:cacheprovider -pxdist",
    "mysql -u root -p app",
    "mysql -P 3306 -h db -u root -p",
    "mysql -p$DB_PASSWORD app; mysql -p${DB_PASSWORD} app; sshpass -p $PASS ssh me@host",
    "sshpass -e ssh -p 22 me@host",
    "mysql --port=3306 --protocol=tcp",
    "the mysql client asks for it with -p",
    "Usage: mysql [OPTIONS] [database]\n  -p, --password[=name] Password to use\n  -P, --port=# Port number",
    "redis-cli -a",
    "zip -r archive.zip dir; unzip -p archive.zip file",
    "grep -p pattern; ps -p 1234; lsof -p 42; netstat -plant",
    "psql -p 5433 -U me app",
    "npm install -P left-pad; make -pn",
    "kill -p 1 | mysql app",
]


@pytest.mark.parametrize(("text", "secret"), ANNOUNCED, ids=[text for text, _ in ANNOUNCED])
def test_secrets_in_options_are_masked(text: str, secret: str) -> None:
    """The value of an option that is a password in this program is masked, and the command stays readable."""
    assert mask_labelled(text.format(secret)) == (text.format(MASK), 1)
    assert announces_secret(Glance(text.format(secret)))


@pytest.mark.parametrize(("text", "secret"), ANNOUNCED, ids=[text for text, _ in ANNOUNCED])
def test_a_masked_secret_is_left_alone(text: str, secret: str) -> None:
    """What is masked is not masked again."""
    assert mask_labelled(text.format(MASK)) == (text.format(MASK), 0)


@pytest.mark.parametrize("text", ORDINARY)
def test_other_options_stay(text: str) -> None:
    """The same letters mean ports, paths, projects and threads elsewhere."""
    assert Redactor(rules=["secrets"]).scrub_text(text) == text


@pytest.mark.parametrize("part", ["mysql ", "mysql -", "mysql ' ", 'mysql "', " -p", "sshpass -p ", "docker login "])
def test_hostile_text_is_finished(part: str) -> None:
    """A text of a hundred thousand characters that is made of beginnings is scrubbed, and once for all."""
    redactor = Redactor()
    clean = redactor.scrub_text(part * (100_000 // len(part)) + " -pabcdef")
    assert redactor.scrub_text(clean) == clean
