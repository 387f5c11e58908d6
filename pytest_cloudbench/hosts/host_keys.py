"""Which host keys are trusted: pinned ones, or those in the user's known_hosts files, which are never changed."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cloudbench.hosts.errors import HostKeyMismatch, UnknownHostKey

if TYPE_CHECKING:
    from paramiko import PKey

KNOWN_HOSTS = (
    "~/.ssh/known_hosts",
    "~/.ssh/known_hosts2",
    "/etc/ssh/ssh_known_hosts",
    "/etc/ssh/ssh_known_hosts2",
)
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?\Z")
_RSA = ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")


@dataclass(frozen=True)
class HostKey:
    """A trusted key by its SHA256 fingerprint in the form of ssh-keygen -l; `type` is "" if it is unknown."""

    fingerprint: str
    type: str = ""

    @classmethod
    def of(cls, blob: bytes) -> HostKey:
        """Return the key of these bytes, which begin with its type. Raises ValueError if they do not."""
        length = int.from_bytes(blob[:4], "big")
        name = blob[4 : 4 + length]
        if not 0 < length <= 64 or len(blob) <= 4 + length or not name.isascii():
            raise ValueError("the bytes are not a public key")
        digest = base64.b64encode(hashlib.sha256(blob).digest()).decode()
        return cls("SHA256:" + digest.rstrip("="), name.decode())

    def __str__(self) -> str:
        return f"{self.fingerprint} ({self.type})" if self.type else self.fingerprint


@dataclass(frozen=True)
class TrustedKeys:
    """The keys that a server may present.

    keys: those for its name. beside: if there are none, those for its name without the port, which may be another
    server's. revoked: those that are never accepted. known_as: its name in the known_hosts `files`; "" for pinned keys.
    """

    keys: tuple[HostKey, ...]
    beside: tuple[HostKey, ...] = ()
    revoked: tuple[HostKey, ...] = ()
    known_as: str = ""
    files: tuple[str, ...] = ()

    def order(self, offered: Sequence[str]) -> list[str]:
        """Return the `offered` host key algorithms, those of trusted keys first: a server may have several keys."""
        known = {
            kind
            for key in (*self.keys, *self.beside)
            for kind in (_RSA if key.type == "ssh-rsa" else (key.type,))
        }
        return sorted(offered, key=lambda kind: kind not in known)

    def check(self, presented: PKey, place: str) -> None:
        """Raise HostKeyMismatch or UnknownHostKey unless the key that the server at `place` presented is trusted."""
        key = HostKey.of(presented.asbytes())
        prints = {each.fingerprint for each in (*self.keys, *self.beside)}
        if key.fingerprint in {each.fingerprint for each in self.revoked}:
            raise HostKeyMismatch(
                f"{place} answered with host key {key}, which {self._where()} marks as revoked"
            )
        if key.fingerprint in prints:
            return
        if self.keys:
            expected = " or ".join(str(each) for each in self.keys)
            of = f" of {self._where()}" if self.known_as else ""
            raise HostKeyMismatch(
                f"{place} answered with host key {key}, expected {expected}{of}: this is another machine or it has a "
                "new key, nothing was sent to it"
            )
        raise UnknownHostKey(
            f"{place} answered with host key {key}, and {self._where()} has no key of {self.known_as}: compare it with "
            f"the machine's own, then log in once by ssh to add it, or give --cloudbench-host-key={key.fingerprint}"
        )

    def _where(self) -> str:
        return ", ".join(self.files) or "known_hosts"


def parse_host_keys(text: str) -> tuple[HostKey, ...]:
    """Return the keys of a text such as "ssh-ed25519 AAAA..." or "SHA256:...", several separated by commas or lines.

    Raises ValueError for anything else, and for a damaged key.
    """
    return tuple(_parse_host_key(each.strip()) for each in re.split(r"[,\n]", text.strip()))


def _parse_host_key(text: str) -> HostKey:
    if _FINGERPRINT.match(text):
        return HostKey(text.rstrip("="))
    words = text.split()
    if len(words) < 2:
        raise ValueError(
            f"the host key must be a line such as 'ssh-ed25519 AAAA...' or a fingerprint such as 'SHA256:...', "
            f"not {text[:60]!r}"
        )
    try:
        key = HostKey.of(base64.b64decode(words[1], validate=True))
    except (binascii.Error, ValueError):
        raise ValueError(f"the host key's base64 part is damaged: {text[:60]!r}") from None
    if key.type != words[0]:
        raise ValueError(f"the host key is of type {key.type!r} and not {words[0]!r}, as its line says")
    return key


def find_known(known_as: str, plain: str, files: Iterable[str]) -> TrustedKeys:
    """Return the keys of a server in the known_hosts `files`; files that cannot be read are skipped.

    known_as: its name, such as "db1" or "[db1]:2222". plain: its name without the port.
    """
    found: dict[str, list[HostKey]] = {"": [], "beside": [], "@revoked": []}
    paths = [str(Path(each).expanduser()) for each in files]
    for path in paths:
        try:
            text = Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for marker, patterns, key in parse_known_hosts(text):
            if marker == "@cert-authority":
                continue
            if matches(known_as, patterns):
                found[marker].append(key)
            elif plain != known_as and matches(plain, patterns):
                found[marker or "beside"].append(key)
    # As in ssh, the name without the port counts only if the full name is unknown.
    beside = () if found[""] else tuple(found["beside"])
    return TrustedKeys(tuple(found[""]), beside, tuple(found["@revoked"]), known_as, tuple(paths))


def parse_known_hosts(text: str) -> Iterator[tuple[str, tuple[str, ...], HostKey]]:
    """Yield marker ("", "@revoked" or "@cert-authority"), names and key of each line; skip lines that are damaged."""
    for line in text.splitlines():
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3 or words[0].startswith("#") or marker not in ("", "@revoked", "@cert-authority"):
            continue
        try:
            yield marker, tuple(words[0].split(",")), HostKey.of(base64.b64decode(words[2], validate=True))
        except (binascii.Error, ValueError):
            continue


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return True if `name` matches a pattern: plain, with * and ?, or hashed; False if it matches one with !."""
    name = name.lower()
    hit = False
    for pattern in patterns:
        if pattern.startswith("|1|"):
            hit = hit or _is_hash_of(name, pattern)
        elif pattern.startswith("!"):
            if _fits(name, pattern[1:]):
                return False
        else:
            hit = hit or _fits(name, pattern)
    return hit


def _fits(name: str, pattern: str) -> bool:
    # In these patterns brackets are part of the name: "[db1]:2222".
    return fnmatch.fnmatchcase(name, pattern.lower().replace("[", "[[]"))


def _is_hash_of(name: str, pattern: str) -> bool:
    parts = pattern.split("|")
    if len(parts) != 4:
        return False
    try:
        salt, digest = (base64.b64decode(each, validate=True) for each in parts[2:])
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)
