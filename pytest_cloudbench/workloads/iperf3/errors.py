"""What can go wrong between asking iperf3 for a measurement and having one. None of it is a violation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cloudbench.workloads.errors import WorkloadFailed, WorkloadRefused

if TYPE_CHECKING:
    from pytest_cloudbench.workloads.network_measurement import NetworkMeasurement


class Iperf3Error(WorkloadFailed):
    """A measurement by iperf3 could not be made."""


class BadIperf3Job(Iperf3Error, WorkloadRefused, ValueError):
    """The job as written cannot be run: nothing was started."""


class Iperf3TooOld(BadIperf3Job):
    """The iperf3 on a host is too old for what the job asks."""


class PortBusy(Iperf3Error):
    """The port that was asked for, or every port that was tried, is taken on the server's host."""


class ServerNotUp(Iperf3Error):
    """The server's iperf3 did not listen within its time."""


class Iperf3Refused(Iperf3Error):
    """iperf3 itself said no, or ended with an error, before anything was measured."""


class Iperf3OutputError(Iperf3Error):
    """iperf3 left output that cannot be read as its JSON."""


class Iperf3TimedOut(Iperf3Error):
    """iperf3 was still running long after its time, with nothing measured; it has been ended."""


class Iperf3Interrupted(Iperf3Error):
    """A run broke off, or nothing flowed for a while: no measurement of what was asked.

    ``measurement`` is what was measured all the same.
    """

    def __init__(self, sentence: str, measurement: NetworkMeasurement) -> None:
        self.measurement = measurement
        super().__init__(sentence)

    def __reduce__(self) -> tuple[type[Iperf3Interrupted], tuple[str, NetworkMeasurement]]:
        return type(self), (str(self), self.measurement)
