"""Ways to the SSH port of a host: direct, through bastions, or through a proxy command; and the login at its end."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pytest_cloudbench.hosts.errors import HostError, HostUnreachable, LoginRefused
from pytest_cloudbench.hosts.host_keys import KNOWN_HOSTS, TrustedKeys, find_known, parse_host_keys
from pytest_cloudbench.hosts.identities import OwnIdentities
from pytest_cloudbench.hosts.login import HostLogin, read_private_key
from pytest_cloudbench.hosts.proxy_command import ThroughCommand, proxy_failure, proxy_words
from pytest_cloudbench.hosts.ssh_config import SSH_PORT, OwnServer, check_word, find_own_server

if TYPE_CHECKING:
    from fabric import Connection
    from paramiko import PKey, Transport

LOG = "pytest_cloudbench.ssh"
"""paramiko's own log. It is not shown: a booting host fills it with meaningless tracebacks."""

CHANNEL_OPEN_S = 20.0
_TCP_CONNECT_S = 3.0
_KEEPALIVE_S = 15
_MOST_BASTIONS = 8
_HOP = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@]+)@)?"
    r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*|[^:@/\[\]]+)(?::(?P<port>\d+))?/?"
)


class Way(Protocol):
    """How a socket reaches a server's port."""

    @property
    def through(self) -> str:
        """The way as text for messages, such as " through bastion ec2-user@10.0.0.5:22"; "" if it is direct."""
        ...

    def open(self, host: str, port: int, timeout_s: float) -> Any:
        """Return a socket or a socket-like object. Raises OSError if a retry may succeed, else HostError."""
        ...

    def close(self) -> None:
        """Close the connection that carries the sockets."""
        ...


@dataclass(frozen=True)
class Server:
    """An SSH server and how to log in to it."""

    host: str
    port: int
    user: str
    key: PKey | OwnIdentities
    trusted: TrustedKeys
    way: Way

    def __str__(self) -> str:
        return f"{self.host}:{self.port}{self.way.through}"


def find_server(login: HostLogin) -> Server:
    """Return the server of this login.

    Raises ValueError for bad keys, bastions and proxy commands, HostError if ~/.ssh/config cannot be read.
    """
    if login.jump and login.proxy_command:
        raise ValueError("a host is reached through a bastion or by a proxy command: give one of them")
    own: OwnServer | None = None
    if login.private_key:
        key: PKey | OwnIdentities = read_private_key(login.private_key)
        host, port, user = login.address, login.port or SSH_PORT, login.user
    else:
        own = find_own_server(
            login.address, user=login.user, port=login.port, identity_file=login.identity_file
        )
        key, host, port, user = own.identities, own.host, own.port, own.user
    if login.host_public_key:
        trusted = TrustedKeys(parse_host_keys(login.host_public_key))
    elif own is not None:
        trusted = own.trusted
    else:
        trusted = find_known(host if port == SSH_PORT else f"[{host}]:{port}", host, KNOWN_HOSTS)
    if login.jump:
        way: Way = bastions(login.jump)
    elif login.proxy_command:
        words = proxy_words(login.proxy_command, host=host, port=port, user=user, instance=login.instance_id)
        way = ThroughCommand(words)
    else:
        way = own_way(own) if own is not None else Direct()
    return Server(host, port, user, key, trusted, way)


def own_way(own: OwnServer, depth: int = 0) -> Way:
    """Return the way that ~/.ssh/config names for a server."""
    if own.jump:
        return bastions(own.jump, behind=own, depth=depth)
    if own.proxy_command:
        # ssh runs it in a shell too; the names in it were checked.
        return ThroughCommand(("sh", "-c", f"exec {own.proxy_command}"))
    return Direct()


def bastions(jump: str, *, behind: OwnServer | None = None, depth: int = 0) -> Way:
    """Return the way through a chain of bastions, each with the user's own login.

    behind: the server to reach, which is skipped if a pattern of ~/.ssh/config makes it its own bastion.
    Raises ValueError for a chain that cannot be read, HostError if ~/.ssh/config is unreadable or
    names too many bastions.
    """
    if depth >= _MOST_BASTIONS:
        raise HostError(f"~/.ssh/config leads through more than {_MOST_BASTIONS} bastions: one names itself")
    way: Way | None = None
    for user, host, port in parse_jump(jump):
        own = find_own_server(host, user=user, port=port)
        if behind is not None and (behind.host, behind.port) == (own.host, own.port):
            continue
        way = way or own_way(own, depth + 1)
        way = ThroughBastion(Server(own.host, own.port, own.user, own.identities, own.trusted, way))
    return way or Direct()


def parse_jump(text: str) -> list[tuple[str, str, int | None]]:
    """Return user, host and port of each bastion in "user@bastion[:port],...", as in ssh -J.

    A missing user is "", a missing port None. Raises ValueError for anything else.
    """
    hops = []
    for each in text.split(","):
        found = _HOP.fullmatch(each.strip())
        port = int(found["port"]) if found is not None and found["port"] else None
        if found is None or not (port is None or 0 < port < 65_536):
            raise ValueError(
                f"invalid bastion {each!r}: use user@host or user@host:port, several separated by commas"
            )
        host = found["host"].strip("[]")
        for word in (host, found["user"] or ""):
            check_word(word)
        hops.append((found["user"] or "", host, port))
    return hops


class Direct:
    """A TCP connection from this machine."""

    through = ""

    def open(self, host: str, port: int, timeout_s: float) -> socket.socket:
        # A new attempt reaches a host that has just booted sooner than the TCP retransmissions of an old one.
        try:
            opened = socket.create_connection((host, port), timeout=min(timeout_s, _TCP_CONNECT_S))
        except socket.gaierror as error:
            if error.errno == socket.EAI_NONAME:
                raise HostUnreachable(f"there is no host {host!r}: {error.strerror}") from None
            raise
        # Small packets go back and forth: waiting to fill them costs 40 ms a command.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            opened.settimeout(timeout_s)
            # A booting host closes connections. paramiko would find that out in a thread that formats a traceback.
            if not opened.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError("the server closed the connection before its banner")
        except BaseException:
            opened.close()
            raise
        return opened

    def close(self) -> None:
        return


class ThroughBastion:
    """Channels of one connection to a bastion, which is opened when needed, and reopened if it dropped."""

    def __init__(self, bastion: Server) -> None:
        self.bastion = bastion
        self._name = f"bastion {bastion.user}@{bastion.host}:{bastion.port}"
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    @property
    def through(self) -> str:
        return f" through {self._name}{self.bastion.way.through}"

    def open(self, host: str, port: int, timeout_s: float) -> Any:
        from paramiko import ChannelException, SSHException

        transport = self._transport(timeout_s)
        try:
            return transport.open_channel(
                "direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=min(timeout_s, _TCP_CONNECT_S)
            )
        except ChannelException as error:
            if error.code == 1:
                raise HostUnreachable(
                    f"{self._name} does not forward connections to {host}:{port}: allow it by AllowTcpForwarding and "
                    "PermitOpen in its sshd_config"
                ) from None
            raise ConnectionError(f"{self._name} does not reach {host}:{port}: {error.text}") from None
        except (EOFError, SSHException) as error:
            raise ConnectionError(f"{self._name} opens no channel: {error_text(error)}") from None

    def _transport(self, timeout_s: float) -> Transport:
        from paramiko import AuthenticationException, SSHException

        with self._lock:
            if self._connection is not None and is_alive(self._connection):
                return self._connection.transport
            if self._connection is not None:
                close_quietly(self._connection)
                self._connection = None
            try:
                self._connection = open_connection(self.bastion, timeout_s, place=self._name)
            except AuthenticationException as error:
                raise LoginRefused(f"{self._name} refuses the login: {error_text(error)}") from None
            except (OSError, EOFError, SSHException) as error:
                raise ConnectionError(f"{self._name} did not answer: {error_text(error)}") from None
            return self._connection.transport

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            close_quietly(connection)
        self.bastion.way.close()


def open_connection(server: Server, timeout_s: float, *, place: str) -> Connection:
    """Return a connection that is logged in. `place` names the server in messages.

    Raises a HostError if another attempt would not help, such as HostKeyMismatch; else the error of paramiko,
    such as AuthenticationException for a refused login.
    """
    from fabric import Config, Connection
    from paramiko import AuthenticationException, SSHException

    opened = server.way.open(server.host, server.port, timeout_s)
    connection: Connection | None = None
    try:
        if isinstance(server.key, OwnIdentities):
            login: dict[str, Any] = {"auth_strategy": server.key}
        else:
            login = {"pkey": server.key, "allow_agent": False, "look_for_keys": False}
        connection = Connection(
            server.host,
            user=server.user,
            port=server.port,
            config=Config(lazy=True, overrides={"load_ssh_configs": False}),
            connect_kwargs={
                **login,
                "sock": opened,
                "transport_factory": partial(_transport, server.trusted),
                "timeout": timeout_s,
                "banner_timeout": timeout_s,
                "auth_timeout": timeout_s,
                "channel_timeout": CHANNEL_OPEN_S,
            },
        )
        connection.client.set_missing_host_key_policy(_HostKeyCheck(server.trusted, place))
        connection.client.set_log_channel(LOG)
        connection.open()
        connection.transport.set_keepalive(_KEEPALIVE_S)
    except BaseException as error:
        if connection is not None:
            close_quietly(connection.client)
        opened.close()
        retried = isinstance(error, (OSError, EOFError, SSHException))
        if retried and not isinstance(error, AuthenticationException) and (why := proxy_failure(opened)):
            raise ConnectionError(f"{error_text(error)}; {why}") from error
        raise
    return connection


class _HostKeyCheck:
    """The policy of paramiko's client for every host key: the client's own lists are empty."""

    def __init__(self, trusted: TrustedKeys, place: str) -> None:
        self._trusted = trusted
        self._place = place

    def missing_host_key(self, client: Any, hostname: str, key: PKey) -> None:
        self._trusted.check(key, self._place)


def _transport(trusted: TrustedKeys, opened: Any, **options: Any) -> Transport:
    from paramiko import Transport

    transport = Transport(opened, **options)
    security = transport.get_security_options()
    security.key_types = trusted.order(security.key_types)
    return transport


def is_alive(connection: Connection) -> bool:
    """Return True if the connection may be used."""
    transport = connection.transport
    return transport is not None and transport.is_active() and transport.is_authenticated()


def close_quietly(connection: Any) -> None:
    """Close a connection that may be broken."""
    with contextlib.suppress(Exception):
        connection.close()


def error_text(error: BaseException) -> str:
    """Return an error's text, or its name if it has none."""
    return str(error).strip() or type(error).__name__
