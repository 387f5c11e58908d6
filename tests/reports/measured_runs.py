"""Sessions of pytest whose fio does not run: a test gives it the measurement that it returns."""

from pathlib import Path

CONFTEST = f"""
import sys

sys.path.append({str(Path(__file__).parent.parent)!r})
"""
CONFTEST += '''
import pytest
from workload_stand_ins import stand_in

from pytest_cloudbench.limits.quantities import Iops, Size, Throughput
from pytest_cloudbench.workloads.measurement import Measurement, Series


def measured(*rates, workload="fio randread 4k", raw=None, conditions=()):
    """What fio would have measured had it seen these IOPS second by second."""
    mean = sum(rates) / len(rates)
    return Measurement(
        workload=workload,
        iops=mean,
        throughput_mib=mean * 4096 / 2**20,
        read=None,
        write=None,
        latency=None,
        series=Series(
            seconds=tuple(float(second + 1) for second in range(len(rates))),
            iops=tuple(Iops(float(rate)) for rate in rates),
            throughput=tuple(Throughput(rate * 4096.0) for rate in rates),
            latency_s=(None,) * len(rates),
        ),
        block_size=Size(4096),
        sequential=False,
        outstanding_asked=64,
        runtime_s=float(len(rates)),
        command="fio --rw=randread",
        tool_version="fio-3.33",
        host="c5.18xlarge i-0abc",
        target="io2 vol-0abc",
        started_at="2026-11-20T10:00:00Z",
        raw={"result.json": b"{}"} if raw is None else raw,
        conditions=conditions,
    )


@pytest.fixture(autouse=True)
def _fio_measures_what_it_is_given(monkeypatch):
    stand_in(monkeypatch, "fio", lambda target, job, **_: target)
'''

NO_EVIDENCE = ("--cloudbench-evidence=off", "-p", "no:cacheprovider")
