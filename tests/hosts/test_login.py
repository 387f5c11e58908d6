from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pytest_cloudbench.hosts.login import read_private_key

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
