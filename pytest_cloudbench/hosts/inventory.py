"""The hosts of a session: ssh:// URLs, and Ansible inventories in INI or YAML.

This module reads hosts, groups and the variables that say how to reach a host. Anything else in an inventory is refused
if it could lead to a different host or login, and ignored otherwise.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SSH_PORT = 22

_URL = re.compile(
    r"ssh://(?:(?P<user>[^@/:\s]+)(?P<password>:[^@/\s]*)?@)?"
    r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^@/:\s\[\]]+)(?::(?P<port>\d+))?/?"
)
_NAME = re.compile(r"[^\s=,:@/\[\]{}\"'\\]+")
_SECTION = re.compile(r"\[([^\[\]]+)\]\s*(?:[#;].*)?")

_READ = {
    "ansible_host": "address",
    "ansible_ssh_host": "address",
    "ansible_port": "port",
    "ansible_ssh_port": "port",
    "ansible_user": "user",
    "ansible_ssh_user": "user",
    "ansible_ssh_private_key_file": "private_key_file",
    "ansible_private_key_file": "private_key_file",
    "cloudbench_address": "load_address",
    "cloudbench_devices": "devices",
    "cloudbench_host_key": "host_key",
}
"""The variables of a host that are read, and their fields of `InventoryHost`."""
_REFUSED = {
    "ansible_password": "log in with a key",
    "ansible_ssh_pass": "log in with a key",
    "ansible_ssh_password": "log in with a key",
    "ansible_ssh_common_args": "write them into ~/.ssh/config",
    "ansible_ssh_extra_args": "write them into ~/.ssh/config",
    "ansible_ssh_args": "write them into ~/.ssh/config",
    "ansible_ssh_executable": "leave it out",
}
"""Unsupported variables without which a host may be unreachable, and what to do instead."""
_OURS = "cloudbench_"
"""Prefix of our own variables, which Ansible does not know."""
_ALL = "all"


class BadInventory(ValueError):
    """Hosts that cannot be read; the message states the place, the value and the alternatives."""


@dataclass(frozen=True)
class InventoryHost:
    """One host: where it is, and as whom to log in. A field that is "" is left to SSH's own configuration.

    load_address: where other hosts send load, if that is not `address`. devices: the block devices that its
    owner allows a load to overwrite. host_key: its public key line or fingerprint. groups: those that contain it.
    """

    name: str
    address: str
    port: int | None = None
    user: str = ""
    private_key_file: str = ""
    load_address: str = ""
    devices: tuple[str, ...] = ()
    host_key: str = ""
    groups: tuple[str, ...] = ()


def parse_url(text: str) -> InventoryHost:
    """Return the host of a URL such as "ssh://user@host:22". Its name is the host, with the port if that is not 22.

    Raises BadInventory.
    """
    found = _URL.fullmatch(text)
    if found is None:
        raise BadInventory(f"invalid host {text!r}: write it as ssh://user@host or ssh://user@host:port")
    if found["password"]:
        shown = text.replace(f"{found['password']}@", ":...@")
        raise BadInventory(f"invalid host {shown!r}: passwords are not used, log in with a key")
    port = None if found["port"] is None else _port(found["port"], text)
    address = found["host"].strip("[]")
    name = found["host"] if port in (None, SSH_PORT) else f"{found['host']}:{port}"
    return InventoryHost(name, address, port, found["user"] or "")


def read_inventory(path: Path) -> tuple[InventoryHost, ...]:
    """Return the hosts of an inventory file. Raises BadInventory, OSError, and UnicodeDecodeError if it is not text."""
    text = path.read_text(encoding="utf-8")
    beside = [each for each in ("group_vars", "host_vars") if (path.parent / each).exists()]
    if beside and path.suffix != ".json":  # `ansible-inventory --list` includes them already
        raise BadInventory(
            f"{path}: the variables in {beside[0]} beside it are not read: write what `ansible-inventory --list` "
            "prints to a .json file, and name that"
        )
    return parse_inventory(text, str(path))


def parse_inventory(text: str, place: str) -> tuple[InventoryHost, ...]:
    """Return the hosts of an inventory in their order; `place` is its file name, for messages.

    The extension of the name selects YAML or JSON, else INI. A host may also be an ssh:// URL. Raises BadInventory.
    """
    if text.startswith("#!"):
        raise BadInventory(f"{place} is a program: save its output as a .json file and pass that")
    if text.startswith("$ANSIBLE_VAULT"):
        raise BadInventory(f"{place} is encrypted by ansible-vault: give a plain file")
    read = _read_yaml if place.endswith((".yml", ".yaml", ".json")) else _read_ini
    hosts = read(text, place).hosts(place)
    if not hosts:
        raise BadInventory(f"{place} has no hosts")
    return hosts


def check_names(hosts: Sequence[InventoryHost]) -> None:
    """Raise BadInventory if two hosts have the same name."""
    names = [host.name for host in hosts]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInventory(f"the host {twice} is named twice: name each once")


@dataclass
class _Group:
    hosts: dict[str, dict[str, str]] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)


@dataclass
class _Groups:
    """The groups of an inventory by name, and all hosts in their order, each with its own variables."""

    groups: dict[str, _Group] = field(default_factory=lambda: {_ALL: _Group()})

    def group(self, name: str) -> _Group:
        return self.groups.setdefault(name, _Group())

    def hosts(self, place: str) -> tuple[InventoryHost, ...]:
        """Return the hosts with their variables: a child group overrides its parents, a host its groups."""
        depths = self._depths(place)
        own: dict[str, dict[str, str]] = {}
        for group in self.groups.values():
            for name, variables in group.hosts.items():
                own.setdefault(name, {}).update(variables)
        found = []
        for name, variables in own.items():
            member = {each for each, group in self.groups.items() if name in group.hosts} | {_ALL}
            member |= {each for each in self.groups if any(self._within(inner, each) for inner in member)}
            merged: dict[str, str] = {}
            for each in sorted(member, key=lambda group: (depths[group], group)):
                merged |= self.groups[each].variables
            groups = tuple(each for each in self.groups if each in member and each != _ALL)
            found.append(_host(name, merged | variables, groups, place))
        check_names(found)
        return tuple(found)

    def _depths(self, place: str) -> dict[str, int]:
        """Return how far each group is below "all". Raises BadInventory for a group within itself."""
        depths = {name: 0 if name == _ALL else 1 for name in self.groups}
        for _ in self.groups:
            deeper = {
                child: depths[name] + 1
                for name, group in self.groups.items()
                for child in group.children
                if depths[child] <= depths[name]
            }
            if not deeper:
                return depths
            depths |= deeper
        raise BadInventory(f"{place}: the group {max(depths, key=lambda name: depths[name])} contains itself")

    def _within(self, inner: str, outer: str) -> bool:
        children = self.groups[outer].children
        return inner in children or any(self._within(inner, child) for child in children)


def _host(name: str, variables: Mapping[str, str], groups: tuple[str, ...], place: str) -> InventoryHost:
    where = f"{place}, host {name}"
    connection = variables.get("ansible_connection", "ssh")
    if connection not in ("ssh", "smart", "paramiko", "paramiko_ssh"):
        raise BadInventory(f"{where}: hosts are reached by SSH, not by ansible_connection={connection}")
    for each, instead in _REFUSED.items():
        if each in variables:
            raise BadInventory(f"{where}: {each} is not supported: {instead}")
    ours = [each for each in _READ if each.startswith(_OURS)]
    for each in variables:
        if each.startswith(_OURS) and each not in ours:
            raise BadInventory(f"{where}: unknown variable {each}: use {' or '.join(ours)}")
    given = {kind: variables[each] for each, kind in _READ.items() if each in variables}
    for kind, value in given.items():
        if "{{" in value:
            raise BadInventory(f"{where}: templates such as {value!r} are not supported: write the {kind}")
    if name.startswith("ssh://"):
        by_url = parse_url(name)
        base = {"name": by_url.name, "address": by_url.address, "user": by_url.user, "port": by_url.port}
    else:
        base = {"name": name, "address": name}
    fields: dict[str, Any] = {**base, **given, "groups": groups}
    if "port" in given:
        fields["port"] = _port(given["port"], where)
    fields["devices"] = tuple(re.split(r"[,\s]+", given["devices"].strip())) if given.get("devices") else ()
    for device in fields["devices"]:
        if not device.startswith("/dev/"):
            raise BadInventory(
                f"{where}: cloudbench_devices={device!r} is not a path of a device, such as /dev/sdb"
            )
    return InventoryHost(**fields)


def _port(text: str, where: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65_536:
        raise BadInventory(f"{where}: {text!r} is not a port: use a number from 1 to 65535")
    return int(text)


def _read_ini(text: str, place: str) -> _Groups:
    found = _Groups()
    group, kind = "ungrouped", "hosts"
    for number, line in enumerate(text.splitlines(), 1):
        stripped, where = line.strip(), f"{place}, line {number}"
        if not stripped or stripped.startswith(("#", ";")):
            continue
        if stripped.startswith("["):
            section = _SECTION.fullmatch(stripped)
            if section is None:
                raise BadInventory(f"{where}: invalid section {stripped!r}: write it as [group]")
            group, _, kind = section[1].strip().partition(":")
            kind = kind or "hosts"
            if kind not in ("hosts", "vars", "children"):
                raise BadInventory(
                    f"{where}: unknown section {stripped!r}: use [group], [group:vars] or [group:children]"
                )
            found.group(_checked_name(group, where))
        elif kind == "vars":
            name, value = _assignment(stripped, where)
            found.group(group).variables[name] = _unquoted(value)
        elif kind == "children":
            child = _checked_name(stripped.partition("#")[0].strip(), where)
            found.group(child)
            found.group(group).children.append(child)
        else:
            name, variables = _ini_host(stripped, where)
            found.group(group).hosts.setdefault(name, {}).update(variables)
    return found


def _ini_host(line: str, where: str) -> tuple[str, dict[str, str]]:
    try:
        name, *rest = shlex.split(line, comments=True)
    except ValueError as error:
        raise BadInventory(f"{where}: {line!r} cannot be read: {error}") from None
    if not name.startswith("ssh://"):
        _checked_name(name, where)
    return name, dict(_assignment(word, where) for word in rest)


def _assignment(text: str, where: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise BadInventory(f"{where}: {text!r} is not a variable: write it as name=value")
    return name.strip(), value.strip()


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _checked_name(name: str, where: str) -> str:
    if "[" in name:
        raise BadInventory(f"{where}: ranges such as {name!r} are not supported: write each host")
    if ":" in name:
        raise BadInventory(f"{where}: a name without a colon is expected, not {name!r}: write ansible_port=")
    if not _NAME.fullmatch(name):
        raise BadInventory(f"{where}: {name!r} is not the name of a host or a group")
    return name


def _read_yaml(text: str, place: str) -> _Groups:
    try:
        import yaml
    except ImportError:
        raise BadInventory(f"{place}: reading YAML needs PyYAML: pip install pyyaml") from None
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        words = " ".join(str(error).split())
        raise BadInventory(f"{place} cannot be read as YAML without tags such as !vault: {words}") from None
    if not isinstance(content, Mapping):
        raise BadInventory(f"{place}: groups such as all: are expected, not {str(content)[:60]!r}")
    found = _Groups()
    if "_meta" in content:
        _read_listing(content, found, place)
    else:
        for name, group in content.items():
            _read_group(found, str(name), group, place)
    return found


def _read_group(found: _Groups, name: str, content: Any, place: str) -> None:
    where = f"{place}, group {name}"
    group = found.group(_checked_name(name, where))
    for part, value in _items(content, where):
        if part == "hosts":
            for host, variables in _items(value, where):
                if not host.startswith("ssh://"):
                    _checked_name(host, where)
                group.hosts.setdefault(host, {}).update(_texts(variables, f"{place}, host {host}"))
        elif part == "vars":
            group.variables |= _texts(value, where)
        elif part == "children":
            for child, inner in _items(value, where):
                _read_group(found, child, inner, place)
                group.children.append(child)
        else:
            raise BadInventory(f"{where}: unknown entry {part!r}: use hosts, vars or children")


def _read_listing(content: Mapping[str, Any], found: _Groups, place: str) -> None:
    """Read what `ansible-inventory --list` prints: lists of names, and separately the variables of hosts."""
    of_hosts = dict(_items(dict(_items(content["_meta"], place)).get("hostvars"), place))
    for name, value in _items({key: each for key, each in content.items() if key != "_meta"}, place):
        where = f"{place}, group {name}"
        parts = dict(_items(value, where))
        group = found.group(_checked_name(name, where))
        for host in _names(parts.get("hosts"), where):
            group.hosts[_checked_name(host, where)] = _texts(of_hosts.get(host), f"{place}, host {host}")
        group.variables |= _texts(parts.get("vars"), where)
        for child in _names(parts.get("children"), where):
            found.group(_checked_name(child, where))
            group.children.append(child)


def _items(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a mapping; nothing if it is None."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise BadInventory(f"{where}: a mapping is expected, not {str(value)[:60]!r}")
    yield from ((str(name), each) for name, each in value.items())


def _names(value: Any, where: str) -> Iterable[str]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadInventory(f"{where}: a list of names is expected, not {str(value)[:60]!r}")
    return [str(each) for each in value]


def _texts(value: Any, where: str) -> dict[str, str]:
    """Return variables as texts, lists joined by commas (cloudbench_devices); those without a value are left out."""
    return {
        name: ",".join(map(str, each)) if isinstance(each, list) else str(each)
        for name, each in _items(value, where)
        if each is not None
    }
