"""Errors of iperf3 measurements. None of them is a violated promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cloudbench.workloads.errors import WorkloadFailed, WorkloadRefused

if TYPE_CHECKING:
    from pytest_cloudbench.workloads.network_measurement import NetworkMeasurement


class Iperf3Error(WorkloadFailed):
    """iperf3 could not make a measurement."""


class BadIperf3Job(Iperf3Error, WorkloadRefused, ValueError):
    """The job cannot run as written; nothing was started."""


class Iperf3TooOld(BadIperf3Job):
    """The iperf3 on a host is too old for the job."""


class PortBusy(Iperf3Error):
    """The requested port, or every port tried, is in use on the server's host."""


class ServerNotUp(Iperf3Error):
    """The server's iperf3 did not start to listen in time."""


class Iperf3Refused(Iperf3Error):
    """iperf3 refused to run or failed before anything was measured."""


class Iperf3OutputError(Iperf3Error):
    """iperf3's output is not the JSON that it documents."""


class Iperf3TimedOut(Iperf3Error):
    """iperf3 was ended long after its time, with nothing measured."""


class Iperf3Interrupted(Iperf3Error):
    """A run ended early, or no data flowed for a while.

    ``measurement`` holds the part that was measured.
    """

    def __init__(self, sentence: str, measurement: NetworkMeasurement) -> None:
        self.measurement = measurement
        super().__init__(sentence)

    def __reduce__(self) -> tuple[type[Iperf3Interrupted], tuple[str, NetworkMeasurement]]:
        return type(self), (str(self), self.measurement)
