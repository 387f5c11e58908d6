"""An EC2 instance as a test sees it: its limits, and the host it is."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_cloudbench.promises.ceilings import Ceiling, MachineLimits
from pytest_cloudbench.promises.instances import InstanceLimits

if TYPE_CHECKING:
    from pytest_cloudbench.cloud.cloud import Cloud
    from pytest_cloudbench.cloud.resources import LaunchedInstance
    from pytest_cloudbench.hosts.connection import CommandResult, HostConnection
    from pytest_cloudbench.topology.volumes import Volume


class NoPromise(LookupError):
    """A figure was asked for that the provider does not promise for this instance type."""


class Instance:
    """A running EC2 instance.

    ``host`` is the SSH connection, made when first used; ``run`` a command on it. ``volumes`` are the
    volumes attached to it through this object, in the order of attaching.
    """

    def __init__(self, cloud: Cloud, launched: LaunchedInstance, connect_timeout_s: float) -> None:
        self._cloud = cloud
        self._launched = launched
        self._connect_timeout_s = connect_timeout_s
        self._host: HostConnection | None = None
        self.volumes: list[Volume] = []

    @property
    def launched(self) -> LaunchedInstance:
        """The instance as the API last described it."""
        return self._launched

    @property
    def id(self) -> str:
        """Instance id, "i-" and 17 hexadecimal digits."""
        return self._launched.id

    @property
    def type(self) -> str:
        """Instance type, such as "c5.18xlarge"."""
        return self._launched.type

    @property
    def zone(self) -> str:
        """Availability zone."""
        return self._launched.zone

    @property
    def limits(self) -> InstanceLimits:
        """What its type promises, as DescribeInstanceTypes says."""
        return self._launched.limits

    @property
    def ebs_iops(self) -> Ceiling:
        """The most IOPS over all its EBS volumes. Raises NoPromise where AWS states none for the type."""
        return self._ceiling("EBS IOPS")

    @property
    def ebs_throughput(self) -> Ceiling:
        """The most throughput over all its EBS volumes. Raises NoPromise where AWS states none for the type."""
        return self._ceiling("EBS throughput")

    @property
    def host(self) -> HostConnection:
        """The SSH connection to this instance; the host key it must show is pinned."""
        if self._host is None:
            from pytest_cloudbench.hosts.connection import HostConnection

            launched = self._launched
            if launched.address is None:
                raise NoPromise(f"{launched} has no address to reach it by SSH; see --cloudbench-address")
            self._host = HostConnection(
                launched.address,
                user=launched.login_user,
                private_key=launched.private_key,
                host_public_key=launched.host_public_key,
                label=str(launched),
                connect_timeout_s=self._connect_timeout_s,
            )
            self._connect(self._host)
        return self._host

    def _connect(self, host: HostConnection) -> None:
        from pytest_cloudbench.hosts.errors import HostUnreachable

        try:
            host.connect()
        except HostUnreachable as error:
            self._host = None
            console = self._cloud.console_output(self._launched)
            raise HostUnreachable(
                f"{error}; its security group lets SSH in from {self._cloud.ssh_from} only, see "
                f"--cloudbench-ssh-from and --cloudbench-address{f'; {console}' if console else ''}"
            ) from error

    def run(
        self, argv: Sequence[str], *, sudo: bool = False, check: bool = True, timeout_s: float = 60
    ) -> CommandResult:
        """Run one command, given as a list, and return its output; quoting is done here.

        Raises CommandFailed with the command, exit code and what it said, unless ``check=False``.
        """
        return self.host.run(argv, sudo=sudo, check=check, timeout_s=timeout_s)

    def machine_limits(self) -> MachineLimits | None:
        """Ask the API what the machine behind this instance serves; None where the region publishes nothing.

        When the API does not answer, what it said last counts: a measurement already made must not be lost.
        """
        from pytest_cloudbench.cloud.errors import CloudError

        with contextlib.suppress(CloudError):
            self._launched = self._cloud.refresh(self._launched)
        return self._launched.machine_limits

    def close(self) -> None:
        """Close the SSH connection; the instance itself is the control plane's to remove."""
        if self._host is not None:
            self._host.close()
            self._host = None

    def _ceiling(self, quantity: str) -> Ceiling:
        for ceiling in self.limits.ebs_ceilings():
            if ceiling.quantity == quantity:
                return ceiling
        raise NoPromise(f"AWS states no {quantity} for {self.type}: there is no promise to judge by")

    def __repr__(self) -> str:
        return f"<{self._launched} in {self.zone}>"
