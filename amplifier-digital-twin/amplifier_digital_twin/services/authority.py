"""The certificate authority of one universe: it lives in memory and vouches for the hosts it was made for alone."""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from amplifier_digital_twin.services.endpoints import is_address

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_LIFETIME: Final = timedelta(days=365)
#: Clocks inside and outside are the same; those of a suspended machine may not be.
_EARLIER: Final = timedelta(days=1)


class _Root(NamedTuple):
    """What an authority signs with."""

    key: EllipticCurvePrivateKey
    certificate: x509.Certificate
    leaf_key: EllipticCurvePrivateKey


class Authority:
    """Signs a certificate for each host that a profile answers for; made by `create`."""

    def __init__(self, hosts: frozenset[str]) -> None:
        self._hosts = hosts
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._made: _Root | None = None

    @classmethod
    def create(cls, hosts: Iterable[str]) -> Authority:
        """Make the authority for these hosts (in their one form): clients hold it to them by its name constraints.

        Its keys are made when they are needed first: an authority that answers for nobody never has any.
        """
        return cls(frozenset(hosts))

    @property
    def _root(self) -> _Root:
        if self._made is None:
            from cryptography.hazmat.primitives.asymmetric import ec

            key = ec.generate_private_key(ec.SECP256R1())
            self._made = _Root(key, _root(key, self._hosts), ec.generate_private_key(ec.SECP256R1()))
        return self._made

    @property
    def certificate_pem(self) -> bytes:
        """Return what programs inside must trust."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self._root.certificate.public_bytes(Encoding.PEM)

    def context_for(self, host: str) -> ssl.SSLContext:
        """Return what a server of this host needs; raise KeyError for a host the authority was not made for."""
        if host not in self._hosts:
            raise KeyError(host)
        if host not in self._contexts:
            self._contexts[host] = self._context(host)
        return self._contexts[host]

    def _context(self, host: str) -> ssl.SSLContext:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        root = self._root
        leaf = _leaf(host, root.leaf_key, root.certificate, root.key)
        private = root.leaf_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        context = server_context()
        with _passing_file(private + leaf.public_bytes(Encoding.PEM) + self.certificate_pem) as file:
            context.load_cert_chain(file)
        return context


def server_context() -> ssl.SSLContext:
    """Return a server's context without a certificate: HTTP/1.1 over TLS 1.2 or newer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


@contextmanager
def _passing_file(content: bytes) -> Iterator[str]:
    """Lend content to a library that reads nothing but files, without a file that others could open or that stays."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile() as file:  # made 0600
        file.write(content)
        file.flush()
        yield file.name


def _root(key: EllipticCurvePrivateKey, hosts: frozenset[str]) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    # A name of its own per universe: clients look certificates up by name, and two of one name confuse them.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Amplifier digital twin {secrets.token_hex(8)}")])
    builder = _dated(x509.CertificateBuilder()).subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(is_authority=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    if hosts:
        builder = builder.add_extension(_constraints(hosts), critical=True)
    return builder.sign(key, hashes.SHA256())


def _constraints(hosts: frozenset[str]) -> x509.NameConstraints:
    import ipaddress

    from cryptography import x509

    permitted: list[x509.GeneralName] = []
    for host in sorted(hosts):
        if is_address(host):
            permitted.append(x509.IPAddress(ipaddress.ip_network(host)))
        else:
            permitted.append(x509.DNSName(host))
    return x509.NameConstraints(permitted_subtrees=permitted, excluded_subtrees=None)


def _leaf(
    host: str, key: EllipticCurvePrivateKey, issuer: x509.Certificate, issuer_key: EllipticCurvePrivateKey
) -> x509.Certificate:
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    name = x509.IPAddress(ipaddress.ip_address(host)) if is_address(host) else x509.DNSName(host)
    issuer_id = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = _dated(x509.CertificateBuilder()).issuer_name(issuer.subject).public_key(key.public_key())
    # Without a subject the alternative name is the only one, and must be critical.
    builder = builder.subject_name(x509.Name([])).add_extension(x509.SubjectAlternativeName([name]), critical=True)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(is_authority=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id), critical=False
    )
    return builder.sign(issuer_key, hashes.SHA256())


def _dated(builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _EARLIER).not_valid_after(now + _LIFETIME)


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
