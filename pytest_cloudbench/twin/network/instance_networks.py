"""What instances may send and receive: brings their plans, the shaping of their cables and their credits together."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from pytest_cloudbench.limits.network_credits import ShapedRates
from pytest_cloudbench.twin.hosts.host_plan import HostPlan
from pytest_cloudbench.twin.network.allowance_page import AllowancePage
from pytest_cloudbench.twin.network.cables import Network, NetworkFailed
from pytest_cloudbench.twin.network.governor import NetworkGovernor, NetworkState
from pytest_cloudbench.twin.network.shaping import Shape
from pytest_cloudbench.twin.workshop import Workshop

_INTERFACE = "eth0"
_log = logging.getLogger(__name__)


class InstanceNetworks:
    """The shaped networks of a region's instances. Those whose plan has no network figures are left alone.

    ``on_carried`` is told what an instance sent over a second, in bytes per second on the wire.
    """

    def __init__(
        self,
        network: Network,
        workshop: Workshop,
        *,
        time_compression: float,
        on_carried: Callable[[float], None] | None = None,
    ) -> None:
        self._network = network
        self._workshop = workshop
        self._governor = NetworkGovernor(
            network.open_counters(), time_compression=time_compression, on_carried=on_carried
        )
        self._pages: dict[str, Path] = {}

    def add(self, plan: HostPlan, pages: Path) -> None:
        """Take an instance in, with full credits; ``pages`` is the directory in which it finds its counters."""
        if plan.network is None:
            return
        self._govern(plan, plan.network, pages)
        self._pages[plan.instance_id] = pages

    def _govern(self, plan: HostPlan, rates: ShapedRates, pages: Path) -> None:
        def make() -> AllowancePage:
            pages.mkdir(parents=True, exist_ok=True)
            return AllowancePage(pages / _INTERFACE)

        page = self._workshop.run(make)
        self._governor.add(plan.instance_id, rates, plan.network_credits, page)

    def plugged(self, plan: HostPlan, pid: int) -> None:
        """Shape the cable that an instance was just given; its eth0 is in the namespace of process ``pid``.

        Where that fails the instance has an unlimited network until it is given another cable.
        """
        rates = plan.network
        if rates is None or plan.instance_id not in self._pages:
            return
        try:
            if self._governor.rate(plan.instance_id) is None:  # it could not be shaped the last time
                self._govern(plan, rates, self._pages[plan.instance_id])
            self._shape(plan, rates, pid)
        except (NetworkFailed, OSError, ValueError) as error:
            # Its disks are worth having all the same; `state` tells that there is no limit on its network.
            _log.error("%s runs with an unlimited network: %s", plan.instance_id, error)
            self._give_up(plan.instance_id)

    def _shape(self, plan: HostPlan, rates: ShapedRates, pid: int) -> None:
        rate = self._governor.rate(plan.instance_id) or rates.peak
        shape = Shape(rate, rates.peak, in_cluster=plan.placement_group is not None)
        ends = self._network.shape(pid, plan.private_ip, shape, plan.placement_group)
        try:
            self._governor.connect(plan.instance_id, ends)
        except BaseException:
            self._network.unshape(pid, plan.private_ip)
            raise

    def unplugging(self, instance_id: str) -> None:
        """Let go of an instance's cable; its credits stay as they are."""
        self._governor.disconnect(instance_id)

    def refill(self, instance_id: str) -> None:
        """Give an instance that was stopped full credits and counters at zero."""
        self._governor.refill(instance_id)

    def remove(self, instance_id: str) -> None:
        """Forget an instance. Unknown ones are ignored."""
        self._give_up(instance_id)
        self._pages.pop(instance_id, None)

    def _give_up(self, instance_id: str) -> None:
        page = self._governor.remove(instance_id)
        if page is not None:
            self._workshop.run(lambda: page.unlink(missing_ok=True))

    def state(self, instance_id: str) -> NetworkState | None:
        """How an instance's network stands; None where it is not shaped."""
        return self._governor.state(instance_id)

    @property
    def governor_cpu_s(self) -> float:
        """CPU seconds that the governor has used."""
        return self._governor.cpu_s

    def close(self) -> None:
        """End the governor."""
        self._governor.close()
