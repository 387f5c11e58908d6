"""Sign the manifest with the user's SSH key, and check signatures, with OpenSSH's ssh-keygen."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pytest_cloudbench.evidence.folder import MANIFEST, SIGNATURE, EvidenceError, read_regular

NAMESPACE = "cloudbench-evidence"
"""Purpose of the signature: one that was made for another purpose is refused."""
_LIMIT_S = 30.0
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


@dataclass(frozen=True)
class Signed:
    """A valid signature: the key, and the signer if the key is known, else ""."""

    fingerprint: str
    identity: str = ""


def fingerprint_of(key_file: Path) -> str:
    """Return the fingerprint of a key file. Raises EvidenceError if it is not a key."""
    said = _ssh_keygen("-l", "-f", str(key_file))
    found = _FINGERPRINT.search(said.stdout)
    if said.returncode or found is None:
        raise EvidenceError(f"{key_file} is not an SSH key: {_complaint(said)}")
    return found[0]


def check_can_sign(key_file: Path) -> None:
    """Sign something small, before anything is measured. Raises EvidenceError with the words of ssh-keygen."""
    signature_of(b"probe\n", key_file)


def signature_of(manifest: bytes, key_file: Path) -> bytes:
    """Return the signature of a manifest. Raises EvidenceError if the key cannot sign."""
    said = _ssh_keygen("-Y", "sign", "-f", str(key_file), "-n", NAMESPACE, stdin=manifest)
    if said.returncode:
        raise EvidenceError(
            f"{key_file} cannot sign the evidence: {_complaint(said)} (load a key with a "
            "passphrase into an ssh-agent, and give its public key)"
        )
    return said.stdout.encode()


def check_signature(
    root: Path, signers: Path | None = None, *, manifest: str = MANIFEST, signature: str = SIGNATURE
) -> Signed:
    """Check a signature; ``manifest`` and ``signature`` are file names. Raises EvidenceError if it is not valid.

    ``signers`` is a public key, or a file in ssh-keygen's ALLOWED SIGNERS format. Without it the signature is checked
    against the key that it contains: that proves that nothing was altered, but not whose key it is.
    """
    signed = read_regular(root / manifest, root=root)
    read_regular(root / signature, root=root, most_bytes=1 << 20)  # refuse pipes: ssh-keygen would wait
    how = ["-n", NAMESPACE, "-s", str(root / signature)]
    if signers is None:
        said = _ssh_keygen("-Y", "check-novalidate", *how, stdin=signed)
        return _signed(said)
    with tempfile.TemporaryDirectory() as name:
        allowed = Path(name) / "signers"
        allowed.write_text(_allowed_signers(signers))
        found = _ssh_keygen("-Y", "find-principals", "-f", str(allowed), "-s", str(root / signature))
        identity = found.stdout.split("\n")[0].strip()
        if found.returncode or not identity:
            raise EvidenceError(f"it is not by a key of {signers}")
        said = _ssh_keygen("-Y", "verify", "-f", str(allowed), "-I", identity, *how, stdin=signed)
        return _signed(said, identity)


def _allowed_signers(signers: Path) -> str:
    """Return an ALLOWED SIGNERS file: the given one, or for a public key one that allows it."""
    try:
        text = signers.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise EvidenceError(f"{signers} cannot be read: {error}") from error
    if "PRIVATE KEY" in text:
        raise EvidenceError(f"{signers} is a private key: give the public one, or a file of allowed signers")
    first = text.lstrip().split(maxsplit=1)[0] if text.strip() else ""
    if first.startswith(("ssh-", "ecdsa-", "sk-")):
        return f"signer {text.strip()}\n"
    return text


def _signed(said: subprocess.CompletedProcess[str], identity: str = "") -> Signed:
    found = _FINGERPRINT.search(said.stdout)
    if said.returncode or found is None:
        raise EvidenceError(_complaint(said))
    return Signed(found[0], identity)


def _ssh_keygen(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    # Without a terminal or window to ask in, a missing passphrase is an error instead of a hanging run.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("DISPLAY", "SSH_ASKPASS")
    }
    try:
        said = subprocess.run(
            ["ssh-keygen", *words],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=_LIMIT_S,
            start_new_session=True,
            env={**environment, "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise EvidenceError(
            "signatures need ssh-keygen, which is not installed: install openssh-client"
        ) from None
    except subprocess.TimeoutExpired:
        raise EvidenceError(f"ssh-keygen did not answer within {_LIMIT_S:g} s") from None
    return subprocess.CompletedProcess(
        said.args, said.returncode, said.stdout.decode(errors="replace"), said.stderr.decode(errors="replace")
    )


def _complaint(said: subprocess.CompletedProcess[str]) -> str:
    words = " ".join(f"{said.stderr} {said.stdout}".split())
    return words or f"ssh-keygen ended with exit code {said.returncode}"
