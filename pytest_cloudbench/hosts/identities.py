"""The user's own keys: those of the SSH agent and unencrypted key files. They are never stored."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cloudbench.hosts.login import EncryptedKey, read_private_key

if TYPE_CHECKING:
    from paramiko import PKey, Transport
    from paramiko.agent import AgentSSH

DEFAULT_FILES = ("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")
AGENT = "SSH_AUTH_SOCK"
_AGENT_S = 10.0
_OPENSSH = "OPENSSH PRIVATE KEY"
_MAGIC = b"openssh-key-v1\0"


@dataclass(frozen=True)
class OwnIdentities:
    """The keys with which the user logs in, as ssh tries them: the agent's, then those in files.

    files: key files; those that do not exist are left out. only: leave out the agent's keys that belong to none
    of these files. agent: path of the agent's socket, a variable such as "$SSH_AUTH_SOCK", or "none".
    """

    user: str
    files: tuple[str, ...] = DEFAULT_FILES
    only: bool = False
    agent: str = AGENT

    def authenticate(self, transport: Transport) -> None:
        """Log in with the first key that the server accepts. Raises AuthenticationException with what was tried."""
        from paramiko import AuthenticationException, BadAuthenticationType, SSHException

        tried: list[str] = []
        problems: list[str] = []
        with self._agent() as agent:
            for name, key in self._keys(agent, problems):
                try:
                    missing = transport.auth_publickey(self.user, key)
                except BadAuthenticationType as error:
                    accepted = ", ".join(error.allowed_types)
                    raise AuthenticationException(f"it accepts no keys, but {accepted}") from None
                except AuthenticationException:
                    tried.append(name)
                    continue
                except (SSHException, EOFError):
                    if tried and not transport.is_active():
                        raise AuthenticationException(
                            f"it closed the connection after {len(tried) + 1} keys: name the right one by IdentityFile "
                            "and IdentitiesOnly in ~/.ssh/config"
                        ) from None
                    raise
                if missing:
                    raise AuthenticationException(f"it accepts {name}, and asks for {', '.join(missing)} too")
                return
        said = (
            f"it accepts none of your keys ({', '.join(tried)})"
            if tried
            else "you have no key to log in with"
        )
        hint = "" if tried or problems else f": add one to the SSH agent, or as {' or '.join(self.files)}"
        raise AuthenticationException("; ".join([said + hint, *problems]))

    def _keys(self, agent: AgentSSH | None, problems: list[str]) -> Iterator[tuple[str, PKey]]:
        files = [path for path in (Path(each).expanduser() for each in self.files) if path.is_file()]
        public = {path: _public_half(path) for path in files}
        held = {key.asbytes(): key for key in agent.get_keys()} if agent is not None else {}
        if self.only:
            held = {blob: key for blob, key in held.items() if blob in public.values()}
        # Configured keys come first: a server limits the number of attempts.
        for blob in sorted(held, key=lambda each: each not in public.values()):
            yield f"{held[blob].comment or 'a key'} of the SSH agent", held[blob]
        for path in files:
            if public[path] in held:
                continue
            certificate = Path(f"{path}-cert.pub")
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
                key, certified = read_private_key(text), read_private_key(text)
            except EncryptedKey:
                problems.append(f"{path} is encrypted: add it to the SSH agent by `ssh-add {path}`")
            except (OSError, ValueError) as error:
                problems.append(f"{path}: {error}")
            else:
                if certificate.is_file():
                    try:
                        certified.load_certificate(str(certificate))
                    except (OSError, ValueError):
                        problems.append(f"{certificate} is not a certificate of {path}")
                    else:
                        yield str(certificate), certified
                yield str(path), key

    @contextlib.contextmanager
    def _agent(self) -> Iterator[AgentSSH | None]:
        """Yield the user's SSH agent with its keys; None if there is none."""
        from paramiko import SSHException
        from paramiko.agent import AgentSSH

        named = self.agent.removeprefix("$") if self.agent.startswith("$") else self.agent
        path = os.environ.get(named, "") if named == AGENT or self.agent.startswith("$") else named
        if not path or named == "none":
            yield None
            return
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_AGENT_S)
            agent = AgentSSH()
            try:
                connection.connect(os.path.expanduser(path))
                agent._connect(connection)
            except (OSError, SSHException):
                agent = None  # as in ssh, an agent that has ended counts as none
            yield agent


def _public_half(path: Path) -> bytes | None:
    """Return the public key of a key file, from its .pub file or from the file itself; None if neither has it."""
    for each in (Path(f"{path}.pub"), path):
        with contextlib.suppress(OSError, UnicodeDecodeError, IndexError, binascii.Error):
            text = each.read_text(encoding="ascii")
            if _OPENSSH not in text:
                return base64.b64decode(text.split()[1], validate=True)
            return _first_public(base64.b64decode(text.split("-----")[2]))
    return None


def _first_public(private: bytes) -> bytes | None:
    """Return the public key in an OpenSSH private key, which is readable even if the private key is encrypted."""
    from paramiko.message import Message

    message = Message(private.removeprefix(_MAGIC))
    for _ in ("cipher", "key derivation", "its options"):
        message.get_string()
    return message.get_string() if message.get_int() == 1 else None
