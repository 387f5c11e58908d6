"""The instance metadata service of each instance: IMDSv2, and IMDSv1 unless its options require tokens.

The socket is in the network namespace of the instance, so its address leads every instance to its own data. Paths and
status codes are those of the EC2 User Guide, "Access instance metadata", read 2026-11. Credentials of a role are not
offered: ``iam`` is missing, as on an instance without a role.
"""

from __future__ import annotations

import fcntl
import json
import re
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Union
from urllib.parse import unquote, urlsplit

from pytest_cloudbench.twin import linux
from pytest_cloudbench.twin.hosts.boot import METADATA_ADDRESS

if TYPE_CHECKING:
    from pytest_cloudbench.twin.hosts.hosts import HostPlan

    from .region import Region

_IP_FREEBIND = 15
_SIOCGIFHWADDR = 0x8927
_LONGEST_BODY_BYTES = 4096
_LONGEST_TOKEN_S = 21_600
_TOKEN_TTL = "X-aws-ec2-metadata-token-ttl-seconds"  # noqa: S105 - the name of a header
_TOKEN = "X-aws-ec2-metadata-token"  # noqa: S105 - the name of a header
_VERSION = re.compile(r"1\.0|20\d\d-\d\d-\d\d|latest")
_VERSIONS = ("1.0", "2009-04-04", "2016-09-02", "2018-09-24", "2021-03-23", "2022-09-24", "latest")
_IDLE_S = 5.0

Tree = Union[str, bytes, "dict[str, Tree]"]


def serve_metadata(region: Region, plan: HostPlan, pid: int) -> Callable[[], None]:
    """Serve an instance's metadata in the network namespace of process ``pid``; return a function that stops it."""

    def listening() -> socket.socket:
        opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # The instance takes the address while it boots.
            opened.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
            opened.bind((METADATA_ADDRESS, 80))
            opened.listen(128)
        except BaseException:
            opened.close()
            raise
        return opened

    opened = linux.in_network_namespace(f"/proc/{pid}/ns/net", listening)
    service = _Service(region, plan, opened)
    server = ThreadingHTTPServer(
        (METADATA_ADDRESS, 80), lambda *given: _Handler(service, *given), bind_and_activate=False
    )
    server.socket.close()
    server.socket = opened
    server.daemon_threads = True
    name = f"metadata of {plan.instance_id}"
    threading.Thread(target=server.serve_forever, args=(0.1,), name=name, daemon=True).start()

    def end() -> None:
        server.shutdown()
        server.server_close()

    return end


class _Service:
    """What one instance may read. Its methods may be called from any thread."""

    def __init__(self, region: Region, plan: HostPlan, opened: socket.socket) -> None:
        self._region = region
        self._plan = plan
        self._opened = opened
        self._tokens: dict[str, float] = {}
        self._lock = threading.Lock()

    def new_token(self, lifetime_s: int) -> str:
        now, token = time.monotonic(), secrets.token_urlsafe(40)
        with self._lock:
            self._tokens = {known: until for known, until in self._tokens.items() if until > now}
            self._tokens[token] = now + lifetime_s
        return token

    def knows_token(self, token: str) -> bool:
        with self._lock:
            return self._tokens.get(token, 0.0) > time.monotonic()

    def options(self) -> Any:
        with self._region.lock:
            return self._instance().metadata_options

    def _instance(self) -> Any:
        found = (each for each in self._region.instances() if each.id == self._plan.instance_id)
        return next(found)

    def tree(self) -> dict[str, Tree]:
        """Return all data of the instance: a directory is a dict; missing values are left out."""
        with self._region.lock:
            instance = self._instance()
            tree: dict[str, Any] = {
                "dynamic": {"instance-identity": {"document": self._document(instance)}},
                "meta-data": self._meta_data(instance),
                "user-data": self._plan.user_data or None,
            }
        _remove_missing(tree)
        return tree

    def _mac(self) -> str:
        """Return the MAC address of the interface from the kernel: the instance may have replaced its files."""
        answer = fcntl.ioctl(self._opened, _SIOCGIFHWADDR, struct.pack("256s", b"eth0"))
        return answer[18:24].hex(":")  # netdevice(7): after the name and the family

    def _document(self, instance: Any) -> str:
        region = self._region.backend.region_name
        fields = {
            "accountId": instance.owner_id,
            "architecture": instance.architecture,
            "availabilityZone": instance.availability_zone,
            "imageId": instance.image_id,
            "instanceId": instance.id,
            "instanceType": instance.instance_type,
            "pendingTime": f"{instance.launch_time:%Y-%m-%dT%H:%M:%SZ}",
            "privateIp": self._plan.private_ip,
            "region": region,
            "version": "2017-09-30",
        }
        return json.dumps(fields, indent=2)

    def _meta_data(self, instance: Any) -> dict[str, Any]:
        plan, backend = self._plan, self._region.backend
        tags = {
            key: value
            for key, value in backend.tags.get(instance.id, {}).items()
            if not key.startswith("aws:")
        }
        groups = "\n".join(sorted(group.name for group in instance.nics[0].group_set))
        mac = self._mac()
        public = instance.public_ip or None
        name = f"{plan.hostname}.ec2.internal"
        reservation = next(
            number for number, each in backend.reservations.items() if instance in each.instances
        )
        return {
            "ami-id": instance.image_id,
            "ami-launch-index": f"{instance.ami_launch_index}",
            "block-device-mapping": self._devices(instance),
            "hostname": name,
            "instance-action": "none",
            "instance-id": instance.id,
            "instance-life-cycle": "spot" if instance.lifecycle == "spot" else "on-demand",
            "instance-type": instance.instance_type,
            "local-hostname": name,
            "local-ipv4": plan.private_ip,
            "mac": mac,
            "network": {
                "interfaces": {
                    "macs": {
                        mac: {
                            "device-number": "0",
                            "interface-id": instance.nics[0].id,
                            "local-hostname": name,
                            "local-ipv4s": plan.private_ip,
                            "mac": mac,
                            "owner-id": instance.owner_id,
                            "public-ipv4s": public,
                            "security-groups": groups,
                            "subnet-id": instance.subnet_id,
                            "subnet-ipv4-cidr-block": instance.nics[0].subnet.cidr_block,
                            "vpc-id": instance.vpc_id,
                        }
                    }
                }
            },
            "placement": {
                "availability-zone": instance.availability_zone,
                "group-name": plan.placement_group,
                "region": backend.region_name,
            },
            "public-ipv4": public,
            "public-keys": self._keys(instance),
            "reservation-id": reservation,
            "security-groups": groups,
            "services": {"domain": "amazonaws.com", "partition": "aws"},
            "tags": {"instance": tags or None}
            if instance.metadata_options.instance_metadata_tags == "enabled"
            else None,
        }

    def _keys(self, instance: Any) -> dict[str, Any] | None:
        if not self._plan.authorized_keys:
            return None
        return {"0": _Named(instance.key_name or "", {"openssh-key": self._plan.authorized_keys[0].strip()})}

    @staticmethod
    def _devices(instance: Any) -> dict[str, Any]:
        root = instance.root_device_name or "/dev/xvda"
        others = sorted(name for name in instance.block_device_mapping if name != root)
        volumes = {f"ebs{number}": name.removeprefix("/dev/") for number, name in enumerate(others, start=1)}
        return {"ami": root.removeprefix("/dev/"), **volumes, "root": root}


class _Named(dict[str, Any]):
    """A directory that its parent lists as ``NUMBER=NAME``."""

    def __init__(self, name: str, content: dict[str, Any]) -> None:
        super().__init__(content)
        self.name = name


def _remove_missing(tree: dict[str, Any]) -> None:
    """Remove values that are None, and directories that this leaves empty."""
    for key, value in list(tree.items()):
        if isinstance(value, dict):
            _remove_missing(value)
        if value is None or value == {}:
            del tree[key]


def look_up(tree: dict[str, Tree], path: str) -> bytes | None:
    """Return the value at a path below the version, or the names in a directory; None if there is neither."""
    here: Any = tree
    for part in filter(None, path.split("/")):
        if not isinstance(here, dict) or part not in here:
            return None
        here = here[part]
    if isinstance(here, dict):
        return "\n".join(_listed(name, below) for name, below in here.items()).encode()
    return here if isinstance(here, bytes) else str(here).encode()


def _listed(name: str, below: Any) -> str:
    if isinstance(below, _Named):
        return f"{name}={below.name}"
    return f"{name}/" if isinstance(below, dict) else name


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "EC2ws", ""
    timeout = _IDLE_S

    def __init__(self, service: _Service, *given: Any) -> None:
        self._service = service
        super().__init__(*given)

    def log_message(self, *_: Any) -> None:
        """Log nothing: user data may have a secret."""

    def do_PUT(self) -> None:
        """Answer a request for a token."""
        length, lifetime = self.headers.get("Content-Length") or "0", self.headers.get(_TOKEN_TTL, "")
        if not length.isdecimal() or len(length) > 4 or int(length) > _LONGEST_BODY_BYTES:
            self.close_connection = True
            self._send(HTTPStatus.BAD_REQUEST)
            return
        self.rfile.read(int(length))
        if self._service.options().http_endpoint == "disabled" or "X-Forwarded-For" in self.headers:
            self._send(HTTPStatus.FORBIDDEN)
        elif not _is_version_path(self.path, "api/token"):
            self._send(HTTPStatus.NOT_FOUND)
        elif not lifetime.isdecimal() or not 1 <= int(lifetime) <= _LONGEST_TOKEN_S:
            self._send(HTTPStatus.BAD_REQUEST)
        else:
            token = self._service.new_token(int(lifetime)).encode()
            self._send(HTTPStatus.OK, token, {_TOKEN_TTL: lifetime})

    def do_GET(self) -> None:
        """Answer a request for data."""
        options, token = self._service.options(), self.headers.get(_TOKEN)
        if options.http_endpoint == "disabled":
            self._send(HTTPStatus.FORBIDDEN)
        elif not (options.http_tokens == "optional" if token is None else self._service.knows_token(token)):
            self._send(HTTPStatus.UNAUTHORIZED)
        else:
            found = self._find()
            self._send(HTTPStatus.NOT_FOUND if found is None else HTTPStatus.OK, found)

    do_HEAD = do_GET

    def _find(self) -> bytes | None:
        path = unquote(urlsplit(self.path).path)
        version, _, rest = path.lstrip("/").partition("/")
        if not version:
            return "\n".join(_VERSIONS).encode()
        return look_up(self._service.tree(), rest) if _VERSION.fullmatch(version) else None

    def _send(
        self, status: HTTPStatus, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> None:
        if body is None:
            body = f"{status.value} - {status.phrase}\n".encode()
        self.send_response(status)
        for name, value in {"Content-Type": "text/plain", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _is_version_path(path: str, rest: str) -> bool:
    version, _, below = urlsplit(path).path.lstrip("/").partition("/")
    return _VERSION.fullmatch(version) is not None and below == rest
