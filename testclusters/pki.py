"""A certificate authority for one test cluster, and kubeconfigs with its certificates."""

import base64
import datetime
import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE = datetime.timedelta(days=7)


class Authority:
    """Signs certificates that are valid for a week. `certificate` is the authority's, a PEM file in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / "ca.crt"
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lode-tests")])
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = self._builder(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate.write_bytes(own.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(
        self, file: str, user: str, groups: Sequence[str] = (), addresses: Sequence[str] = ()
    ) -> tuple[Path, Path]:
        """Issue a certificate and return the paths of certificate and key, `file`.crt and `file`.key.

        They are valid for a client `user` in `groups`, and for a server at `addresses` (IP addresses and names).
        """
        key = ec.generate_private_key(ec.SECP256R1())
        organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        builder = self._builder(subject, key.public_key()).add_extension(usage, critical=False)
        if addresses:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(text) for text in addresses]), critical=False
            )
        certificate = self._folder / f"{file}.crt"
        certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return certificate, write_key(self._folder / f"{file}.key", key)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        return (
            builder.serial_number(x509.random_serial_number())
            .not_valid_before(now - _LIFE)
            .not_valid_after(now + _LIFE)
        )


def service_account_key(folder: Path) -> Path:
    """Write a new private key that signs and verifies service account tokens; returns the file."""
    return write_key(folder / "service-accounts.key", rsa.generate_private_key(public_exponent=65537, key_size=2048))


def write_key(file: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> Path:
    """Write a private key as PEM, readable by its owner only; returns `file`."""
    file.touch(mode=0o600)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(text)
    return file


def kubeconfig(server: str, authority: Path, certificate: Path, key: Path) -> str:
    """The text of a kubeconfig for `server` with a client certificate; it embeds the content of the files."""

    def data(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    name = "lode-tests"
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": data(authority)}}],
            "users": [
                {"name": name, "user": {"client-certificate-data": data(certificate), "client-key-data": data(key)}}
            ],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        },
        indent=1,
    )


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
