"""What this machine serves and carries when nothing limits it, measured when it is first asked for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_cloudbench.limits.ceilings import MachineLimits
from pytest_cloudbench.twin.network.cables import Network
from pytest_cloudbench.twin.network.probe import probe_network
from pytest_cloudbench.twin.probe import MachineRecord, probe_machine
from pytest_cloudbench.twin.volumes.disks import Store
from pytest_cloudbench.twin.workshop import Workshop

if TYPE_CHECKING:
    from pytest_cloudbench.limits.quantities import Throughput


class MachineProbes:
    """Fills the machine's record by probes, one at a time; none once it is closed."""

    def __init__(
        self, record: MachineRecord, *, store: Store, workshop: Workshop, network: Network, label: str
    ) -> None:
        self._record = record
        self._store = store
        self._workshop = workshop
        self._network = network
        self._label = label
        self._probing = threading.Lock()
        self._closed = False

    def limits(self) -> MachineLimits | None:
        """What the disks serve; measured once per boot (about a second). None where it cannot be (no fio)."""
        with self._probing:
            if self._record.limits() is None and not self._closed:
                measured = probe_machine(self._store, self._workshop, self._label)
                if measured is not None:
                    self._record.saw(*measured, probed=True)
        return self._record.limits()

    def network(self) -> Throughput | None:
        """What is carried between two instances; measured once per boot (about two seconds).

        None where it cannot be measured (no iperf3).
        """
        with self._probing:
            if self._record.network() is None and not self._closed:
                measured = probe_network(self._network)
                if measured is not None:
                    self._record.saw_network(measured, probed=True)
        return self._record.network()

    def close(self) -> None:
        """Let a probe that runs end, since it uses what is removed next, and begin no other."""
        self._closed = True
        with self._probing:
            pass
