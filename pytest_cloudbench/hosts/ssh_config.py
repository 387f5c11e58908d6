"""The settings of a host in ~/.ssh/config and /etc/ssh/ssh_config, as ssh reads them. The files are never changed."""

from __future__ import annotations

import getpass
import glob
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_cloudbench.hosts.errors import HostError
from pytest_cloudbench.hosts.host_keys import KNOWN_HOSTS, TrustedKeys, find_known
from pytest_cloudbench.hosts.identities import AGENT, DEFAULT_FILES, OwnIdentities

if TYPE_CHECKING:
    from paramiko import SSHConfig

SSH_PORT = 22
_FILES = ("~/.ssh/config", "/etc/ssh/ssh_config")
_INCLUDE = re.compile(r"\s*include(?:\s*=\s*|\s+)(.+)", re.IGNORECASE)
_BLOCK = re.compile(r"\s*(?:host|match)\b", re.IGNORECASE)
_DEEPEST_INCLUDE = 16
# Characters that a shell would interpret, if a proxy command uses one.
_UNSAFE = re.compile(r"""[\s'"`$;&<>|(){}*?\[\]!#]|\A-""")


@dataclass(frozen=True)
class OwnServer:
    """A server to which the user logs in as with ``ssh``. `jump` and `proxy_command` are "" if there is none."""

    host: str
    port: int
    user: str
    identities: OwnIdentities
    trusted: TrustedKeys
    jump: str = ""
    proxy_command: str = ""


def find_own_server(
    address: str, *, user: str = "", port: int | None = None, identity_file: str = ""
) -> OwnServer:
    """Return how ``ssh`` would log in to `address`, which may be a name in ~/.ssh/config.

    user, port, identity_file: they take precedence over the configuration. Raises ValueError for a host or user
    name with unsafe characters, HostError if a file of the configuration cannot be read.
    """
    for word in (address, user):
        check_word(word)
    from paramiko import SSHConfig

    config = SSHConfig()
    stated = {"User": user, "Port": port, "IdentityFile": identity_file}
    # The first value that is found applies.
    config.parse(["Host *", *(f"{key} {value}" for key, value in stated.items() if value)])
    for name in _FILES:
        _parse(config, Path(name).expanduser())
    try:
        found: dict[str, Any] = config.lookup(address)
    except Exception as error:
        raise _unreadable(Path(_FILES[0]).expanduser(), error) from None
    host, port = str(found["hostname"]), _port(found.get("port", SSH_PORT))
    plain = found.get("hostkeyalias") or host
    named_port = port != SSH_PORT and not found.get("hostkeyalias")
    files = [
        *shlex.split(found.get("userknownhostsfile", " ".join(KNOWN_HOSTS[:2]))),
        *shlex.split(found.get("globalknownhostsfile", " ".join(KNOWN_HOSTS[2:]))),
    ]
    own_user = found.get("user") or getpass.getuser()
    return OwnServer(
        host,
        port,
        own_user,
        OwnIdentities(
            own_user,
            tuple(found.get("identityfile", DEFAULT_FILES)),
            only=found.get("identitiesonly", "no").lower() == "yes",
            agent=found.get("identityagent", AGENT),
        ),
        find_known(f"[{plain}]:{port}" if named_port else plain, plain, files),
        jump=_unless_none(found.get("proxyjump")),
        proxy_command=_unless_none(found.get("proxycommand")),
    )


def check_word(word: str) -> None:
    """Raise ValueError for a host or user with characters that a shell would interpret."""
    if (unsafe := _UNSAFE.search(word)) is not None:
        raise ValueError(f"{word!r} is not a name of a host or user: it contains {unsafe.group()!r}")


def _parse(config: SSHConfig, path: Path) -> None:
    try:
        config.parse(list(_lines(path, path.parent)))
    except FileNotFoundError:
        return
    except Exception as error:  # the errors of paramiko have no common class
        raise _unreadable(path, error) from None


def _lines(path: Path, folder: Path, depth: int = 0) -> Iterator[str]:
    """Yield the lines of a file and of those that it includes: paramiko does not support Include."""
    block = "Host *"
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if _BLOCK.match(line):
            block = line
        if (include := _INCLUDE.match(line)) is None:
            yield line
            continue
        if depth >= _DEEPEST_INCLUDE:
            raise ValueError(f"{path} includes itself")
        for pattern in shlex.split(include.group(1), comments=True):
            for name in sorted(glob.glob(str(folder / Path(pattern).expanduser()))):
                included = list(_lines(Path(name), folder, depth + 1))
                if block != "Host *" and any(map(_BLOCK.match, included)):
                    raise ValueError(f"{name} with its own Host lines is included below `{block.strip()}`")
                yield from included
        yield block


def _unreadable(path: Path, error: Exception) -> HostError:
    return HostError(f"{path} cannot be read: {str(error).strip() or type(error).__name__}")


def _port(text: Any) -> int:
    if not str(text).isdecimal() or not 0 < int(text) < 65_536:
        raise HostError(f"~/.ssh/config: invalid port {text!r}: use a number from 1 to 65535")
    return int(text)


def _unless_none(value: str | None) -> str:
    return "" if value is None or value.lower() == "none" else value
