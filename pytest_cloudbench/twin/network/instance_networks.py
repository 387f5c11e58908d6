"""The networks of instances: the shaping of their cables and their credits, as their plans require."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

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

    def plugged(self, plan: HostPlan, pages: Path, pid: int) -> None:
        """Shape the new cable of an instance, whose eth0 is in the network namespace of process ``pid``.

        Its counters are published in the directory ``pages``. Its credits are full at its first cable. If shaping
        fails, the instance has an unlimited network until its next boot.
        """
        rates, instance_id = plan.network, plan.instance_id
        if rates is None:
            return
        try:
            rate = self.governor.rate(instance_id)
            if rate is None:
                page = self._workshop.run(lambda: AllowancePage(pages / _INTERFACE))
                self.governor.add(instance_id, rates, plan.network_credits, page)
                rate = rates.peak
            shape = Shape(rate, rates.peak, in_cluster=plan.placement_group is not None)
            ends = self._network.shape(pid, plan.private_ip, shape, plan.placement_group)
            try:
                self.governor.connect(instance_id, ends)
            except BaseException:
                self._network.unshape(pid, plan.private_ip)
                raise
        except (NetworkFailed, OSError, ValueError) as error:
            # The instance is useful for its disks. The governor's `rate` reports that its network is not shaped.
            _log.error("%s runs with an unlimited network: %s", instance_id, error)
            self.remove(instance_id)

    def remove(self, instance_id: str) -> None:
        """Forget an instance and remove its counters. Unknown ones are ignored."""
        page = self.governor.remove(instance_id)
        if page is not None:
            self._workshop.run(lambda: page.unlink(missing_ok=True))
