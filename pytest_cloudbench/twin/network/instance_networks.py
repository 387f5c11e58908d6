"""The networks of instances: the shaping of their cables and their credits, as their plans require."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from pytest_cloudbench.limits.network_credits import ShapedRates
from pytest_cloudbench.twin.hosts.hosts import HostPlan
from pytest_cloudbench.twin.network.cables import Network, NetworkFailed
from pytest_cloudbench.twin.network.governor import AllowancePage, NetworkGovernor
from pytest_cloudbench.twin.network.shaping import Shape
from pytest_cloudbench.twin.workshop import Workshop

_INTERFACE = "eth0"
_log = logging.getLogger(__name__)


class InstanceNetworks:
    """The shaped networks of a region's instances. Instances without network figures in their plan are not shaped.

    ``governor`` keeps their credits. For ``on_carried`` see `NetworkGovernor`.
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
        self.governor = NetworkGovernor(
            network.open_counters(), time_compression=time_compression, on_carried=on_carried
        )
        self._pages: dict[str, Path] = {}

    def add(self, plan: HostPlan, pages: Path) -> None:
        """Add an instance with full credits. Its counters are published in the directory ``pages``."""
        if plan.network is None:
            return
        self._govern(plan, plan.network, pages)
        self._pages[plan.instance_id] = pages

    def _govern(self, plan: HostPlan, rates: ShapedRates, pages: Path) -> None:
        def make() -> AllowancePage:
            pages.mkdir(parents=True, exist_ok=True)
            return AllowancePage(pages / _INTERFACE)

        page = self._workshop.run(make)
        self.governor.add(plan.instance_id, rates, plan.network_credits, page)

    def plugged(self, plan: HostPlan, pid: int) -> None:
        """Shape the new cable of an instance, whose eth0 is in the network namespace of process ``pid``.

        If that fails, the instance has an unlimited network until its next boot.
        """
        rates = plan.network
        if rates is None or plan.instance_id not in self._pages:
            return
        try:
            if self.governor.rate(plan.instance_id) is None:  # it could not be shaped the last time
                self._govern(plan, rates, self._pages[plan.instance_id])
            self._shape(plan, rates, pid)
        except (NetworkFailed, OSError, ValueError) as error:
            # The instance is useful for its disks. The governor's `state` reports that its network is not shaped.
            _log.error("%s runs with an unlimited network: %s", plan.instance_id, error)
            self._remove_page(plan.instance_id)

    def _shape(self, plan: HostPlan, rates: ShapedRates, pid: int) -> None:
        rate = self.governor.rate(plan.instance_id) or rates.peak
        shape = Shape(rate, rates.peak, in_cluster=plan.placement_group is not None)
        ends = self._network.shape(pid, plan.private_ip, shape, plan.placement_group)
        try:
            self.governor.connect(plan.instance_id, ends)
        except BaseException:
            self._network.unshape(pid, plan.private_ip)
            raise

    def remove(self, instance_id: str) -> None:
        """Forget an instance. Unknown ones are ignored."""
        self._remove_page(instance_id)
        self._pages.pop(instance_id, None)

    def _remove_page(self, instance_id: str) -> None:
        page = self.governor.remove(instance_id)
        if page is not None:
            self._workshop.run(lambda: page.unlink(missing_ok=True))
