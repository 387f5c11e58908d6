"""An interrupted network run: its measurement so far is recorded and replayed."""

from pytest_cloudbench.evidence.reader import Evidence
from pytest_cloudbench.evidence.restorable import measurement_from

BODY = """
import dataclasses

import pytest
import recorded_runs
from workload_stand_ins import stand_in
from pytest_cloudbench.workloads.iperf3.errors import Iperf3Interrupted


@dataclasses.dataclass(frozen=True)
class Path:
    label: str = "m5.2xlarge i-0a -> m5.2xlarge i-0b"


def breaks_off(path, job, *, pace, on_progress):
    run = dataclasses.replace(recorded_runs.both_ways(), raw={"server.json": b'{"intervals": []}' * 40})
    raise Iperf3Interrupted("the server ended after 12 s; what was measured until then is kept", run)


def test_it(iperf3, monkeypatch):
    stand_in(monkeypatch, "iperf3", breaks_off)
    with pytest.raises(Iperf3Interrupted, match="the server ended after 12 s") as broken:
        iperf3(Path(), streams=2, duration=60)
    kept = broken.value.measurement
    assert kept.raw["server.json"].startswith(b"{")
    assert kept.forward.reaches("1 Gbit/s") is not None
"""


def test_what_was_measured_is_recorded_and_replayed(session, pytester):
    session(BODY, "--cloudbench-evidence=kept").assert_outcomes(passed=1)
    (test,) = Evidence(pytester.path / "kept").tests
    (workload,) = test.of_kind("workload")
    assert workload["outcome"] == "failed"
    record = test.measurement(workload["file"])
    assert record["figures"]["workload"].startswith("iperf3"), "the figures are beside the error"
    error = measurement_from(record, test.read)
    assert error.measurement.raw["server.json"].startswith(b"{")
    (verdict,) = test.of_kind("verdict")
    assert verdict["of"] == workload["file"]

    replayed = BODY.replace("    raise Iperf3Interrupted(", "    raise AssertionError(")
    session(replayed, "--cloudbench-replay=kept").assert_outcomes(passed=1)
