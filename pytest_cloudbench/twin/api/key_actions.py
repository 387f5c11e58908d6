"""The API's actions on key pairs."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from cryptography.hazmat.primitives import serialization
from moto.core.responses import ActionResult
from moto.ec2.models.key_pairs import KeyPair
from moto.ec2.utils import public_key_parse

from .action_base import RegionActions
from .refusal import Refusal, invalid_value, unsupported, well_formed_id

KEY_TYPES = ("rsa", "ed25519")


class KeyActions(RegionActions):
    """CreateKeyPair, ImportKeyPair, DescribeKeyPairs, DeleteKeyPair."""

    def create_key_pair(self) -> Any:
        params = self.params
        kind = params.setdefault("KeyType", "rsa")
        if kind not in KEY_TYPES:
            raise invalid_value(f"Invalid value '{kind}' for keyType. Valid types: {', '.join(KEY_TYPES)}.")
        if params.get("KeyFormat", "pem") != "pem":
            raise unsupported("This region returns private keys only in PEM format.")
        made: KeyPair = super().create_key_pair().result
        made.key_fingerprint = fingerprint(made)
        return ActionResult(made)

    def import_key_pair(self) -> Any:
        made: KeyPair = super().import_key_pair().result
        if not made.material_public.startswith(b"ssh-"):  # RFC 4716, which the hosts' sshd does not read
            made.material_public = _public_line(made)
        made.key_fingerprint = fingerprint(made)
        return ActionResult(made)

    def describe_key_pairs(self) -> Any:
        known: dict[str, KeyPair] = self.home.backend.key_pairs
        names, ids = self.params.get("KeyNames") or [], self.params.get("KeyPairIds") or []
        by_id = {pair.id: pair for pair in known.values()}
        for name in names:
            if name not in known:
                raise Refusal("InvalidKeyPair.NotFound", f"The key pair '{name}' does not exist")
        for key_id in ids:
            if well_formed_id("key", key_id) not in by_id:
                raise Refusal("InvalidKeyPair.NotFound", f"The key pair '{key_id}' does not exist")
        found = [known[name] for name in names] + [by_id[key_id] for key_id in ids]
        shown = list(dict.fromkeys(found)) if names or ids else list(known.values())
        return ActionResult({"KeyPairs": [_described(pair, self.params) for pair in shown]})

    def delete_key_pair(self) -> Any:
        if key_id := self.params.get("KeyPairId"):
            names = [pair.key_name for pair in self.home.backend.key_pairs.values() if pair.id == key_id]
            if not names:
                raise Refusal("InvalidKeyPair.NotFound", f"The key pair '{key_id}' does not exist")
            self.params["KeyName"] = names[0]
        elif not self.params.get("KeyName"):
            raise Refusal("MissingParameter", "The request must contain the parameter KeyName or KeyPairId.")
        return super().delete_key_pair()


def _described(pair: KeyPair, params: dict[str, Any]) -> dict[str, Any]:
    return {
        "KeyPairId": pair.id,
        "KeyName": pair.key_name,
        "KeyType": pair.key_type,
        "KeyFingerprint": pair.key_fingerprint,
        "CreateTime": pair.create_time,
        "Tags": pair.get_tags() or None,
        "PublicKey": pair.public_key if params.get("IncludePublicKey") else None,
    }


def _public_line(pair: KeyPair) -> bytes:
    """Return the public key as in an authorized_keys file."""
    line: bytes = public_key_parse(pair.material_public).public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return line


def fingerprint(pair: KeyPair) -> str:
    """Return the fingerprint that EC2 shows.

    botocore's service model (1.44.8), KeyFingerprint of CreateKeyPair and ImportKeyPair: for ED25519 keys the SHA-256
    digest of the public key in base64, as OpenSSH shows it; for RSA keys the SHA-1 digest of the private key that EC2
    made, or the MD5 digest of the public key that was imported, both of the DER form and in hexadecimal pairs.
    """
    if pair.key_type == "ed25519":
        blob = base64.b64decode(_public_line(pair).split()[1])
        return base64.b64encode(hashlib.sha256(blob).digest()).decode()
    if pair.material:
        private = serialization.load_pem_private_key(pair.material, None).private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        digest = hashlib.sha1(private, usedforsecurity=False).digest()
    else:
        public = public_key_parse(pair.material_public).public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        digest = hashlib.md5(public, usedforsecurity=False).digest()
    return digest.hex(":")
