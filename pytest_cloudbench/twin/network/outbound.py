"""The only way out of a region: an HTTP proxy for package managers, on this machine's end of the region's switch.

It passes requests to named hosts and refuses all others with the reason. A user-space proxy needs no sysctl, forwarding
or firewall rule, so it changes nothing on this machine, and it ends with the region's process, even after kill -9. It
listens on the region's interface only, so no other machine can use it.
"""

from __future__ import annotations

import base64
import configparser
import contextlib
import logging
import os
import selectors
import shutil
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

_POLL_S = 0.1  # within which the server notices that it must end
_CONNECT_S = 20.0
_IDLE_S = 120.0
_APT_S = 120.0  # within the time that a region may take to start
_MAX_HEAD_BYTES = 64 * 1024
_PIECE_BYTES = 256 * 1024
_NOT_PASSED_ON = (b"connection:", b"proxy-connection:", b"keep-alive:", b"proxy-authorization:", b"host:")
_SETTINGS = ("baseurl", "mirrorlist", "metalink")

log = logging.getLogger(__name__)


class _Refused(Exception):
    """A request that is not passed on, with the status and the reason of its answer."""


def package_hosts(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> set[str]:
    """Return the hosts that this machine's own apt, dnf and pip install from, by their configuration.

    Raises RuntimeError if apt does not answer.
    """
    return {*_apt_hosts(), *_dnf_hosts(root), *_pip_hosts(root, environment)}


def _hosts(urls: Iterable[str]) -> set[str]:
    return {host for url in urls if (host := urlsplit(url).hostname)}


def _apt_hosts() -> set[str]:
    if shutil.which("apt-get") is None:
        return set()
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_APT_S, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(
            f"apt-get indextargets did not list the mirrors of this machine within {_APT_S:.0f} s"
        ) from None
    return _hosts(done.stdout.split())


def _dnf_hosts(root: Path) -> set[str]:
    found: set[str] = set()
    for path in (root / "etc/yum.repos.d").glob("*.repo"):
        repositories = configparser.ConfigParser(interpolation=None, strict=False)
        with contextlib.suppress(configparser.Error, OSError):
            repositories.read(path, encoding="utf-8")
        for name in repositories.sections():
            if repositories.get(name, "enabled", fallback="1") != "0":
                for setting in _SETTINGS:
                    found |= _hosts(repositories.get(name, setting, fallback="").replace(",", " ").split())
    return found


def _pip_hosts(root: Path, environment: Mapping[str, str]) -> set[str]:
    urls = [environment.get("PIP_INDEX_URL", ""), environment.get("PIP_EXTRA_INDEX_URL", "")]
    settings = configparser.ConfigParser(interpolation=None, strict=False)
    with contextlib.suppress(configparser.Error, OSError):
        settings.read([root / "etc/pip.conf", root / "etc/xdg/pip/pip.conf"], encoding="utf-8")
    for name in settings.sections():
        urls += [settings.get(name, key, fallback="") for key in ("index-url", "extra-index-url")]
    return _hosts(" ".join(urls).split())


class Outbound:
    """The proxy of one region at ``url``, serving until `close`. Without ``hosts`` it refuses everything.

    ``device`` is the interface whose traffic it accepts. Requests are passed on through this machine's own
    proxies if its environment names them.
    """

    def __init__(self, address: str, device: str | None, hosts: Iterable[str]) -> None:
        allowed = frozenset(host.strip().lower() for host in hosts if host.strip())
        proxies = getproxies()

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

            def server_bind(self) -> None:
                if device is not None:
                    self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
                super().server_bind()

            def handle_error(self, request: object, client_address: object) -> None:
                log.debug("a request of %s for the proxy", client_address, exc_info=True)

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                _serve(self.request, allowed, proxies)

        self.allows_some = bool(allowed)
        self._server = Server((address, 0), Handler)
        self.url = f"http://{address}:{self._server.server_address[1]}"
        threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="outbound", daemon=True
        ).start()

    def close(self) -> None:
        """Stop listening. A second call does nothing."""
        self._server.shutdown()
        self._server.server_close()


def _serve(client: socket.socket, allowed: frozenset[str], proxies: Mapping[str, str]) -> None:
    """Answer one request of a client. The connection ends with the answer: the next request may be for another host."""
    client.settimeout(_IDLE_S)
    try:
        head, rest = _read_head(client)
        method, host, port, path = _destination(head)
        _refuse_other_hosts(host, allowed)
        parent = None if proxy_bypass(host) else _parent(proxies, method)
        with _connected(host, port, parent) as server:
            if parent or method != "CONNECT":
                server.sendall(_passed_on(head, path, parent))
            else:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            server.sendall(rest)
            _relay(client, server)
    except _Refused as refusal:
        _answer(client, *refusal.args)
    except (OSError, ValueError) as error:
        log.info("the proxy: %s", error)


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(8192)
        if not piece or len(data) > _MAX_HEAD_BYTES:
            raise ValueError("a request without an end of its header")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


def _destination(head: bytes) -> tuple[str, str, int, str]:
    """Return the method, host, port and path of a request to a proxy."""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split()
    if len(words) != 3:
        raise _Refused(400, "Not a request")
    method, target, _ = words
    url = urlsplit(f"//{target}" if method == "CONNECT" else target)
    if not url.hostname or (method != "CONNECT" and url.scheme != "http"):
        raise _Refused(400, f"Not a request to a proxy: {target[:200]}")
    path = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
    try:
        return method, url.hostname, url.port or (443 if method == "CONNECT" else 80), path
    except ValueError as error:
        raise _Refused(400, f"{target[:200]}: {error}") from error


def _refuse_other_hosts(host: str, allowed: frozenset[str]) -> None:
    if not allowed:
        raise _Refused(403, "This region has no way out. Start it with: cloudbench twin up --outbound")
    if host not in allowed:
        raise _Refused(
            403,
            f"{host} is not a package mirror of this machine ({', '.join(sorted(allowed))}). "
            f"Start the region with: cloudbench twin up --outbound={host}",
        )


def _parent(proxies: Mapping[str, str], method: str) -> SplitResult | None:
    """Return the URL of this machine's own proxy for a request; None without one."""
    url = proxies.get("https" if method == "CONNECT" else "http")
    return urlsplit(url if "//" in url else f"//{url}") if url else None


def _connected(host: str, port: int, parent: SplitResult | None) -> socket.socket:
    if parent:
        host, port = parent.hostname or host, parent.port or 80
    try:
        return socket.create_connection((host, port), timeout=_CONNECT_S)
    except OSError as error:
        raise _Refused(502, f"{host}:{port} cannot be reached from this machine: {error}") from error


def _passed_on(head: bytes, path: str, parent: SplitResult | None) -> bytes:
    """Return the header for the server, or for this machine's own proxy, for one request only.

    Its Host is that of the URL (RFC 9112, 3.2.2), so that an allowed host leads to no other site.
    """
    first, *lines = head[:-4].split(b"\r\n")
    method, target, version = first.split()
    if not parent:
        first = b" ".join([method, path.encode("latin-1"), version])
    kept = [line for line in lines if not line.lower().startswith(_NOT_PASSED_ON)]
    host = b"Host: " + (target if method == b"CONNECT" else urlsplit(target).netloc.rpartition(b"@")[2])
    if parent and parent.username is not None:
        login = f"{unquote(parent.username)}:{unquote(parent.password or '')}".encode()
        kept.append(b"Proxy-Authorization: Basic " + base64.b64encode(login))
    if method != b"CONNECT":
        kept.append(b"Connection: close")
    return b"\r\n".join([first, host, *kept, b"", b""])


def _relay(client: socket.socket, server: socket.socket) -> None:
    """Pass bytes on in both directions until the server ends. The client may stop sending earlier."""
    with selectors.DefaultSelector() as ready:
        ready.register(client, selectors.EVENT_READ, server)
        ready.register(server, selectors.EVENT_READ, client)
        while events := ready.select(_IDLE_S):
            for key, _ in events:
                source: socket.socket = key.fileobj  # type: ignore[assignment]
                piece = source.recv(_PIECE_BYTES)
                if piece:
                    key.data.sendall(piece)
                elif source is server:
                    return
                else:
                    ready.unregister(client)
                    server.shutdown(socket.SHUT_WR)


def _answer(client: socket.socket, status: int, reason: str) -> None:
    body = f"{reason}\n".encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    with contextlib.suppress(OSError):
        client.sendall(head.encode("latin-1", "replace") + b"Connection: close\r\n\r\n" + body)
        client.shutdown(socket.SHUT_WR)
