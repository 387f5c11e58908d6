"""A provider for existing hosts without an API: those of ``--cloudbench-hosts``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cloudbench.hosts.inventory import InventoryHost
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.resources.errors import ExistingHardware
from pytest_cloudbench.resources.facts import (
    ALLOWED_DEVICES_TAG,
    ImageFacts,
    Launch,
    LaunchedInstance,
    PlacementGroup,
    Resource,
    TeardownReport,
)
from pytest_cloudbench.resources.provider import Provider

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.host import Host
    from pytest_cloudbench.hosts.ssh_config import OwnServer

HOST_TYPE = "host"
"""Used as the instance type; with the host's name it is the label "host db1"."""


class PlainHosts(Provider):
    """The hosts of an inventory as instances. It creates, changes and removes nothing.

    allowed: the devices that a load may overwrite, by the names of hosts. jump, proxy_command, host_key: as for
    `HostLogin`, for all hosts; a host key in the inventory takes precedence. install_tools: install missing tools.
    """

    label = "hosts"

    def __init__(
        self,
        hosts: Sequence[InventoryHost],
        *,
        allowed: dict[str, tuple[str, ...]] | None = None,
        jump: str = "",
        proxy_command: str = "",
        host_key: str = "",
        install_tools: bool = False,
    ) -> None:
        self._hosts = {host.name: host for host in hosts}
        self._allowed = allowed or {}
        self._jump = jump
        self._proxy_command = proxy_command
        self._host_key = host_key
        self._install_tools = install_tools

    def find_hosts(
        self, names: Sequence[str] = (), *, group: str = "", count: int = 1
    ) -> tuple[LaunchedInstance, ...]:
        known = ", ".join(self._hosts)
        if missing := [name for name in names if name not in self._hosts]:
            raise ExistingHardware(
                f"--cloudbench-hosts has no host {missing[0]!r}: it has {known}", asked=f"host {missing[0]}"
            )
        if names:
            return tuple(self._launched(self._hosts[name]) for name in names)
        found = [host for host in self._hosts.values() if not group or group in host.groups]
        if len(found) < count:
            where = f"in the group {group!r}" if group else "in all"
            raise ExistingHardware(
                f"--cloudbench-hosts has {len(found)} host{'s' * (len(found) != 1)} {where}, and the test needs "
                f"{count}: it has {known}"
            )
        return tuple(self._launched(host) for host in found[:count])

    def limits(self, instance_type: str) -> InstanceLimits:
        """Return limits without any figure: none is promised for these hosts."""
        return InstanceLimits.from_describe({"InstanceType": instance_type}, source="--cloudbench-hosts")

    def launch_many(
        self, launches: Sequence[Launch], *, placement_group: PlacementGroup | str | None = None
    ) -> tuple[LaunchedInstance, ...]:
        """Raise NotOffered: these hosts exist already."""
        raise self._not_offered("launch instances")

    def refresh(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Return the instance unchanged: no API describes it."""
        return instance

    def host(self, instance: LaunchedInstance, *, connect_timeout_s: float) -> Host:
        """Return the host over SSH, as the user's own login: the agent, ~/.ssh/config and known_hosts apply."""
        from pytest_cloudbench.hosts.login import HostLogin, open_host

        host = self._hosts[instance.id]
        key = host.private_key_file
        if key and not Path(key).expanduser().is_file():
            raise ExistingHardware(f"{instance}: there is no private key file {key}")
        login = HostLogin(
            host.address,
            host.user,
            host_public_key=host.host_key or self._host_key,
            label=str(instance),
            port=host.port,
            connect_timeout_s=connect_timeout_s,
            login_grace_s=0.0,
            identity_file=key,
            jump=self._jump,
            proxy_command=self._proxy_command,
            instance_id=host.name,
            installs_tools=self._install_tools,
        )
        try:
            return open_host(login)
        except ValueError as error:
            raise ExistingHardware(f"{instance}: {error}") from None

    def unreachable_hint(self, instance: LaunchedInstance) -> str:
        host = self._hosts[instance.id]
        user = f"{host.user}@" if host.user else ""
        port = f"-p {host.port} " if host.port else ""
        return f"see whether `ssh {port}{user}{host.address}` works from here"

    def release(self, resources: Iterable[Resource]) -> None:
        """Do nothing: nothing was created."""

    def close(self) -> TeardownReport:
        """Return an empty report."""
        return TeardownReport()

    def _launched(self, host: InventoryHost) -> LaunchedInstance:
        allowed = (*host.devices, *self._allowed.get(host.name, ()))
        return LaunchedInstance(
            host.name,
            HOST_TYPE,
            dataclasses.replace(self.limits(HOST_TYPE), name=f"{HOST_TYPE} {host.name}"),
            ImageFacts(login_user=host.user),
            address=host.address,
            private_ip=host.load_address or _own_server(host).host,
            tags={ALLOWED_DEVICES_TAG: " ".join(allowed)} if allowed else {},
            existing=True,
        )


def _own_server(host: InventoryHost) -> OwnServer:
    """Return how `ssh` would log in to a host, which may be a name in ~/.ssh/config. Raises ExistingHardware."""
    from pytest_cloudbench.hosts.ssh_config import find_own_server

    try:
        return find_own_server(host.address, user=host.user, port=host.port)
    except ValueError as error:
        raise ExistingHardware(f"host {host.name}: {error}") from None
