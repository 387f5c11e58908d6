from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pytest_cloudbench.hosts.login import fingerprint, read_host_key, read_private_key

_PLAIN = serialization.NoEncryption()


@pytest.mark.parametrize(
    ("key", "form", "name"),
    [
        (Ed25519PrivateKey.generate(), serialization.PrivateFormat.OpenSSH, "ssh-ed25519"),
        (Ed25519PrivateKey.generate(), serialization.PrivateFormat.PKCS8, "ssh-ed25519"),
        (rsa.generate_private_key(65537, 2048), serialization.PrivateFormat.TraditionalOpenSSL, "ssh-rsa"),
        (rsa.generate_private_key(65537, 2048), serialization.PrivateFormat.PKCS8, "ssh-rsa"),
        (
            ec.generate_private_key(ec.SECP256R1()),
            serialization.PrivateFormat.OpenSSH,
            "ecdsa-sha2-nistp256",
        ),
    ],
)
def test_every_form_of_private_key_is_read(key, form, name) -> None:
    pem = key.private_bytes(serialization.Encoding.PEM, form, _PLAIN).decode()
    read = read_private_key(f"\n{pem}\n")
    assert read.get_name() == name
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert read.asbytes() == base64.b64decode(public.split()[1])


@pytest.mark.parametrize("text", ["", "no key", "-----BEGIN RSA PRIVATE KEY-----\nsecret\n-----END"])
def test_a_damaged_private_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be read") as caught:
        read_private_key(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("line", ["", "ssh-rsa AAAA", "ssh-ed25519", "ssh-ed25519 !!!!", "ssh-ed25519 AAAA"])
def test_a_damaged_host_key_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="host key"):
        read_host_key(line)


def test_the_fingerprint_is_that_of_ssh_keygen() -> None:
    line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGKRH2Gg7Ml9U5ROtSPsKlb0fbjpiX8dqP0KxYyCQq0J test"
    text = fingerprint(read_host_key(line))
    assert text.startswith("SHA256:")
    assert len(text) == len("SHA256:") + 43
