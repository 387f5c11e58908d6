"""Pseudonyms for what evidence says about an account: its id, ARNs and public addresses.

A pseudonym has the form of what it replaces, so that code which reads it still works: an account id of 12 digits that
begins with 0000, an address in 240.0.0.0/4 (reserved, RFC 1112) or 2001:db8::/32 (documentation, RFC 3849). It is a
keyed hash: the same value always gets the same pseudonym, and without the key nobody can test a guessed value.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import os
import re
import secrets
from pathlib import Path

from pytest_cloudbench.evidence.folder import EvidenceError

_START = r"(?:(?<![\w.:])|(?<=\\[nrt]))"
_ARN = re.compile(
    r"(arn:aws[a-z-]*:[a-z0-9-]*:[a-z0-9-]*:)([0-9]{12}|[a-z]*):([^\s\"'\\<>,;()\[\]{}]*[^\s\"'\\<>,;()\[\]{}.:])"
)
_IPV4 = re.compile(_START + r"([0-9]{1,3}(?:\.[0-9]{1,3}){3})(?:/([0-9]{1,2}))?(?![\w]|\.[0-9])")
_IPV4_IN_NAME = re.compile(r"\b(ec2-)([0-9]{1,3}(?:-[0-9]{1,3}){3})\b")
_IPV6 = re.compile(_START + r"((?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4})(?:/([0-9]{1,3}))?(?![\w:])")
_ACCOUNT = re.compile(r"[0-9]{12}")
_PSEUDONYMOUS = "0000"
_REDACTED = "redacted-"

PSEUDONYM = (
    rf"arn:aws[a-z-]*:[a-z0-9-]*:[a-z0-9-]*:(?:{_PSEUDONYMOUS}[0-9]{{8}}|[a-z]*):{_REDACTED}[0-9a-f]{{12}}"
    r"|ec2-2[45][0-9](?:-[0-9]{1,3}){3}|2[45][0-9](?:\.[0-9]{1,3}){3}|2001:db8:[0-9a-f:]+"
    rf"|(?<![0-9]){_PSEUDONYMOUS}[0-9]{{8}}(?![0-9])"
)
"""A regular expression for every pseudonym; a replay lets it stand for any text."""
_NAMES = frozenset({"account", "accountid", "ownerid", "userid", "requesterid", "imageownerid"})


class Pseudonyms:
    """Replaces account ids, ARNs and public addresses in texts. Replacing twice gives the same text."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._accounts: dict[str, str] = {}

    def learn(self, account: str) -> bool:
        """Replace this account id from now on, also outside ARNs; return False if it is not an account id, or known."""
        if not _ACCOUNT.fullmatch(account) or account.startswith(_PSEUDONYMOUS) or account in self._accounts:
            return False
        self._accounts = {**self._accounts, account: self._account(account)}
        return True

    def is_account(self, name: str) -> bool:
        """Return True if fields of this name, such as "OwnerId", hold account ids."""
        return name.lower().replace("_", "") in _NAMES

    def text(self, text: str) -> str:
        """Return the text with pseudonyms."""
        if "arn:aws" in text:
            text = _ARN.sub(self._arn, text)
        for account, pseudonym in self._accounts.items():
            if account in text:
                text = re.sub(rf"(?<![0-9]){account}(?![0-9])", pseudonym, text)
        if text.count(".") >= 3:
            text = _IPV4.sub(self._address, text)
        if "ec2-" in text:
            text = _IPV4_IN_NAME.sub(
                lambda match: match[1] + self._network(match[2].replace("-", ".")).replace(".", "-"), text
            )
        return _IPV6.sub(self._address, text) if text.count(":") >= 2 else text

    def _sum(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    def _account(self, account: str) -> str:
        return f"{_PSEUDONYMOUS}{int(self._sum(account), 16) % 10**8:08d}"

    def _arn(self, match: re.Match[str]) -> str:
        head, account, resource = match.groups()
        if resource.startswith(_REDACTED):
            return match[0]
        owner = self._account(account) if account.isdigit() else account
        return f"{head}{owner}:{_REDACTED}{self._sum(match[0])[:12]}"

    def _address(self, match: re.Match[str]) -> str:
        return self._network(match[1], match[2])

    def _network(self, address: str, prefix: str | None = None) -> str:
        """Return the pseudonym of a public address or network; anything else as it is."""
        whole = address if prefix is None else f"{address}/{prefix}"
        try:
            found = ipaddress.ip_address(address)
            if not found.is_global:
                return whole
            number = int(self._sum(str(found)), 16)
            begin, free_bits = (15 << 28, 28) if found.version == 4 else (0x20010DB8 << 96, 96)
            other = ipaddress.ip_address(begin | number % (1 << free_bits))
            if prefix is None:
                return str(other)
            return str(ipaddress.ip_network((other, int(prefix)), strict=False))
        except ValueError:
            return whole


def local_key() -> bytes:
    """Return this user's key for pseudonyms, made at the first call: $XDG_STATE_HOME/cloudbench/redaction-key.

    So all runs and all processes of a run on this machine use the same pseudonyms. Raises EvidenceError if it can be
    neither read nor written.
    """
    state = os.environ.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    path = Path(state) / "cloudbench" / "redaction-key"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            own = path.with_name(f"{path.name}.{os.getpid()}")
            own.touch(mode=0o600)
            own.write_text(secrets.token_hex(32), encoding="ascii")
            with contextlib.suppress(FileExistsError):  # another process of this run was first
                os.link(own, path)
            own.unlink()
        key = bytes.fromhex(path.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise EvidenceError(
            f"the key for pseudonyms {path} cannot be used ({error}): set XDG_STATE_HOME to a writable folder, or "
            "leave out --cloudbench-redact"
        ) from None
    if len(key) < 16:
        raise EvidenceError(
            f"the key for pseudonyms {path} is too short: remove the file, and a new one is made"
        )
    return key
