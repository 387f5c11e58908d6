from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.run import NetworkProgress, ProgressReader

_SAMPLES = "100.00 1000 5000\n101.00 2000 125005000\n102.50 3000 125005000\n"


@pytest.mark.parametrize(
    ("job", "mbit"),
    [
        (Iperf3Job.of(), (1000, 0)),
        (Iperf3Job.of(reverse=True), (0.008, 0.00533)),
        (Iperf3Job.of(bidirectional=True), (1000.008, 0.00533)),
    ],
)
def test_the_interfaces_counters_give_the_rate(job: Iperf3Job, mbit: tuple[float, float]) -> None:
    found = ProgressReader(job, 10).feed(_SAMPLES)
    assert [each.percent for each in found] == [10, 25]
    assert [each.eta_s for each in found] == [9, 7.5]
    for each, expected in zip(found, mbit, strict=True):
        assert each.throughput is not None
        assert each.throughput.mbit == pytest.approx(expected, rel=0.01)


def test_partial_lines_are_joined() -> None:
    reader = ProgressReader(Iperf3Job.of(), 10)
    found = [progress for char in _SAMPLES for progress in reader.feed(char)]
    assert found == ProgressReader(Iperf3Job.of(), 10).feed(_SAMPLES)
    assert len(found) == 2


def test_progress_without_an_interface_has_the_time() -> None:
    (found,) = ProgressReader(Iperf3Job.of(), 10).feed("100.00\n101.00\n")
    assert (found.percent, found.throughput, found.eta_s) == (10, None, 9)


def test_progress_as_text() -> None:
    assert str(NetworkProgress(42.4, Bandwidth.from_gbit(9.412), 17.3)) == "42 % 9.41 Gbit/s, 17 s left"
    assert str(NetworkProgress(0.0, None, 6.0)) == "0 %, 6 s left"


def test_progress_never_exceeds_the_end() -> None:
    found = ProgressReader(Iperf3Job.of(), 2).feed("0.00 0 0\n1.00 0 0\n9.00 0 0\n")
    assert (found[-1].percent, found[-1].eta_s) == (100, 0)


@given(st.text(alphabet="0123456789. \n-einfxa", max_size=300))
def test_the_reader_never_raises(text: str) -> None:
    for progress in ProgressReader(Iperf3Job.of(), 10).feed(text):
        assert 0 <= progress.percent <= 100
        str(progress)
