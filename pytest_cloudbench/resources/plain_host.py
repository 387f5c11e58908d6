"""A Linux machine that exists already, without a cloud's API: its directories and devices, and pairs of machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pytest_cloudbench.hosts.content import refuse_data
from pytest_cloudbench.hosts.device_facts import DeviceFacts
from pytest_cloudbench.hosts.errors import NotOurs
from pytest_cloudbench.hosts.given_devices import identity_of, prove_given_device
from pytest_cloudbench.hosts.paths import check_path
from pytest_cloudbench.limits.ceilings import INSTANCE, Ceiling, MachineLimits
from pytest_cloudbench.limits.network import BASELINE, CLIENT_END, PEAK, SERVER_END, NetworkEnvelope
from pytest_cloudbench.limits.quantities import Bandwidth, Rate, Size
from pytest_cloudbench.limits.recorded_limits import RecordedLimits
from pytest_cloudbench.resources.directory import StatedStorage
from pytest_cloudbench.resources.facts import ALLOWED_DEVICES_TAG, LaunchedInstance
from pytest_cloudbench.resources.instance import Instance, NoPromise
from pytest_cloudbench.resources.pair import Pair
from pytest_cloudbench.resources.provider import Provider

CONNECT_TIMEOUT_S = 10.0
"""The seconds within which a host that exists already must answer."""


class PlainHost(Instance):
    """A host of the session's ``--cloudbench-hosts``.

    It has no limits but those that the test states: ``iops``, ``throughput`` and ``network_peak`` raise NoPromise
    without them, and measurements are judged by figures of the test and by earlier runs.
    """

    def __init__(
        self, provider: Provider, launched: LaunchedInstance, limits: RecordedLimits | None = None
    ) -> None:
        super().__init__(provider, launched, CONNECT_TIMEOUT_S)
        self._recorded = limits

    @property
    def iops(self) -> Ceiling:
        """The IOPS that the test states for its storage. Raises NoPromise."""
        return self._promised(self._storage("IOPS"), "IOPS")

    @property
    def throughput(self) -> Ceiling:
        """The throughput that the test states for its storage. Raises NoPromise."""
        return self._promised(self._storage("throughput"), "throughput")

    @property
    def storage_ceilings(self) -> tuple[Ceiling, ...]:
        """What the test states for its storage."""
        return tuple(each for name in ("IOPS", "throughput") if (each := self._storage(name)) is not None)

    @property
    def network_peak(self) -> Ceiling:
        """The bandwidth that the test states for each direction. Raises NoPromise."""
        return self._promised(self.network_ceiling, "network bandwidth")

    @property
    def network_baseline(self) -> Ceiling:
        """The baseline bandwidth that the test states; the peak itself if it states none. Raises NoPromise."""
        limits = self._recorded
        rate = (limits.network_baseline or limits.network) if limits is not None else None
        return self._promised(
            self._stated(BASELINE, Bandwidth.of(rate) if rate else None), "network bandwidth"
        )

    @property
    def network_ceiling(self) -> Ceiling | None:
        """The bandwidth that the test states for each direction; None if it states none."""
        limits = self._recorded
        if limits is None or limits.network is None:
            return None
        base = Bandwidth.of(limits.network_baseline) if limits.network_baseline else None
        return self._stated(PEAK, Bandwidth.of(limits.network), base)

    def machine_limits(self) -> MachineLimits | None:
        """Return None: no region is behind it."""
        return None

    def device(self, path: str, *, destructive: bool = False) -> HostDevice:
        """Return a block device as a target. Loads only read it, unless it is ``destructive``.

        ``destructive=True`` also needs the consent of the host's owner: ``--cloudbench-allow-device``, or
        ``cloudbench_devices`` in the inventory. A mounted device, or one in use otherwise, is always refused; for
        writing also one with partitions or any content that blkid recognises.
        """
        return HostDevice(self, path, destructive=destructive)

    def _storage(self, quantity: str) -> Ceiling | None:
        limits = self._recorded
        if limits is None:
            return None
        if quantity == "IOPS":
            return self._stated(quantity, limits.iops, limits.iops_baseline)
        return self._stated(quantity, limits.throughput, limits.throughput_baseline)

    def _stated(self, quantity: str, rate: Rate | None, base: Rate | None = None) -> Ceiling | None:
        if rate is None or self._recorded is None:
            return None
        owner, stated = str(self.launched), self._recorded
        return Ceiling(owner, quantity, INSTANCE, rate, stated.source, stated.date, base)

    def _promised(self, ceiling: Ceiling | None, quantity: str) -> Ceiling:
        if ceiling is None:
            raise NoPromise(
                f"the test states no {quantity} of {self.launched}: compare with a figure of your own, or state one by "
                "limits=recorded_limits(...) in the marker"
            )
        return ceiling

    def __repr__(self) -> str:
        return f"<{self.launched}>"


class HostDevice(StatedStorage):
    """A raw block device of a host."""

    kind: Literal["block"] = "block"
    instance: PlainHost

    def __init__(self, host: PlainHost, asked: str, *, destructive: bool) -> None:
        check_path("path", asked)
        super().__init__(host)
        self.asked = asked
        self.destructive = destructive
        self._identity: str | None = None
        self._facts = self._prove(write=destructive)
        self._identity = identity_of(self._facts)

    @property
    def path(self) -> str:
        """The path of the device, with links resolved."""
        return self._facts.path

    @property
    def label(self) -> str:
        return f"{self.asked} on {self.instance.launched}"

    @property
    def size(self) -> Size:
        return Size(self._facts.size_bytes)

    def prove_readable(self) -> None:
        """Raise NotOurs if the device is in use, or is not the device of the first check."""
        self._facts = self._prove(write=False)

    def prove_writable(self) -> None:
        """Raise NotOurs unless the test and the host's owner allow overwriting it, and it is idle and empty."""
        if not self.destructive:
            raise NotOurs(
                f"this load would overwrite {self.label}: write host.device({self.asked!r}, destructive=True) if that "
                "is meant"
            )
        self._facts = self._prove(write=True)

    def check_content(self, *, overwrite: bool) -> None:
        """Raise WouldDestroy if it has data that this process did not write, unless ``overwrite`` is True."""
        name = f"{self.instance.host.label} {self._identity or self.asked}"
        refuse_data(self.instance.host, {self.path: name}, overwrite=overwrite)

    def _prove(self, *, write: bool) -> DeviceFacts:
        named = self.instance.launched.tags.get(ALLOWED_DEVICES_TAG, "")
        allowed = named.split() if write else None
        return prove_given_device(self.instance.host, self.asked, allowed=allowed, identity=self._identity)


class HostPair(Pair):
    """Two hosts and the network between them; only the limits that the test states are known."""

    client: PlainHost
    server: PlainHost

    def __init__(self, client: PlainHost, server: PlainHost) -> None:
        super().__init__(client, server)

    def ena_express(self, *, udp: bool = False) -> bool:
        """Return False: ENA Express exists only on EC2."""
        return False

    def envelope(self, *, streams: int, reverse: bool = False, udp: bool = False) -> NetworkEnvelope:
        """Return the ceilings that the test states for the ends, in either direction."""
        ends = ((self.client, CLIENT_END), (self.server, SERVER_END))
        known = [(host.network_ceiling, end) for host, end in ends]
        ceilings = [replace(ceiling, detail=end) for ceiling, end in known if ceiling is not None]
        return NetworkEnvelope(tuple(ceilings), streams=streams)

    def counters(self) -> None:
        """Return None: only EC2's network interfaces have allowance counters."""
