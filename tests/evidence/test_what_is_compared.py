"""What a gate compares: which figure of a measurement, and which earlier runs count."""

import dataclasses

import pytest
import recorded_runs

from pytest_cloudbench import Outcome
from pytest_cloudbench.evidence.baseline import Baseline, observed_in
from pytest_cloudbench.evidence.measured import measured_in
from pytest_cloudbench.evidence.reader import Evidence
from pytest_cloudbench.limits.quantities import Iops, Size, Throughput
from pytest_cloudbench.verdicts.not_worse_than import Earlier, EarlierRun, not_worse_than
from pytest_cloudbench.workloads.create_files.creation import DeviceWrites
from pytest_cloudbench.workloads.create_files.series import DeviceSeries


def files_created(writes, elapsed_s=1.25):
    """The same files, whose data reached the device in so many writes and seconds."""
    made = recorded_runs.files_created()
    return dataclasses.replace(
        made,
        on_device_s=elapsed_s,
        device_writes=DeviceWrites(writes, made.data),
        block_size=Size(made.data.bytes // writes),
    )


def test_created_files_are_compared_by_their_bytes_however_their_writes_merged():
    before, same, slower = files_created(1_000), files_created(730), files_created(1_400, elapsed_s=2.0)
    assert same.not_worse_than(before, by="20%").outcome is Outcome.HELD
    verdict = slower.not_worse_than(before, by="20%")
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.measured == slower.throughput
    assert verdict.details["difference"] == pytest.approx(1.25 / 2.0 - 1)
    then = Earlier((EarlierRun("one", observed_in(before)),))
    assert not_worse_than(observed_in(same), then, by="20%").outcome is Outcome.HELD


def test_created_files_are_not_compared_with_io_of_a_block_size():
    volume = recorded_runs.measured(1_000.0)
    verdict = files_created(1_000).not_worse_than(volume)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "a rate of I/Os, this one bytes" in verdict.sentence


def test_created_files_are_steady_if_their_bytes_are_however_their_writes_merged():
    made = files_created(3_000, elapsed_s=20.0)
    rates = [Throughput(made.data.bytes / 20.0)] * 20
    merged = [Iops(100.0 if second % 2 else 200.0) for second in range(20)]
    device = DeviceSeries(tuple(float(second) for second in range(1, 21)), tuple(merged), tuple(rates))
    steady = dataclasses.replace(made, series=dataclasses.replace(made.series, device=device)).steady()
    assert steady.outcome is Outcome.HELD
    assert steady.measured == made.throughput


def test_created_files_are_told_apart_by_their_bytes_and_not_by_their_blocks():
    one, other = (files_created(writes, elapsed_s=20.0) for writes in (1_000, 400))
    for verdict in (one.outperforms(other), other.resembles(one)):
        assert verdict.measured == one.throughput
        assert "blocks of" not in verdict.sentence
    assert isinstance(one.outperforms(recorded_runs.measured()).measured, Throughput)
    assert isinstance(recorded_runs.measured().outperforms(one).measured, Throughput)


TEST = """
def test_it(volume, fio):
    rates[:] = [{rate}]
    fio(volume, rw="randread", iodepth=16, runtime=300)
"""
GATE = ("--cloudbench-baseline=runs", "--cloudbench-regression=5%")


@pytest.fixture
def measure(session):
    """Run a session whose volume serves this rate; it leaves its evidence in runs/NAME."""

    def run(name, rate, *options):
        return session(TEST.format(rate=rate), f"--cloudbench-evidence=runs/{name}", *options)

    return run


@pytest.fixture
def found(pytester):
    """Return the earlier runs of the test in the folders runs/NAME."""

    def earlier(*names, nth=0):
        folders = [pytester.path / "runs" / name for name in names]
        (first, *_) = measured_in(Evidence(folders[0]))
        return Baseline(folders, {}).earlier(first.test.nodeid, first.asked, {}, nth)[""]

    return earlier


def test_repeats_that_together_were_a_regression_are_no_baseline(measure, found):
    for name in ("one", "two", "three"):
        measure(name, 3_000.0).assert_outcomes(passed=1)
    measure("worse", 2_000.0, *GATE, "--cloudbench-repeats=6").assert_outcomes(passed=6, failed=1)
    assert found("worse").runs == ()
    assert "[all 6 repeats] violated a promise" in found("worse").missing
    assert len(found("one", "two", "three", "worse").runs) == 3
    measure("as good", 3_000.0, *GATE, "--cloudbench-repeats=6").assert_outcomes(passed=7)
    assert len(found("as good").runs) == 6


def test_a_run_knows_whether_its_own_comparison_was_inconclusive(measure, found):
    policy = "--cloudbench-inconclusive=fail"
    for name in ("one", "two", "three"):
        measure(name, 3_000.0, policy).assert_outcomes(passed=1)
    measure("close", 2_800.0, *GATE, policy).assert_outcomes(failed=1)
    measure("better", 3_100.0, *GATE, policy).assert_outcomes(passed=1)
    measure("repeated", 2_860.0, *GATE, policy, "--cloudbench-repeats=6").assert_outcomes(passed=6, failed=1)
    names = ("one", "close", "better", "repeated")
    assert [each.undecided for each in found(*names).runs] == [False, True, False, *[True] * 6]


def test_a_job_that_keeps_its_own_rate_each_time_is_not_compared(session):
    policy = "--cloudbench-inconclusive=fail"
    for name in ("one", "two", "three"):
        session(recorded_runs.OWN_RATE.format(rate=1_000.0), policy, f"--cloudbench-evidence=runs/{name}")
    same = session(recorded_runs.OWN_RATE.format(rate=999.0), policy, *GATE, "--cloudbench-evidence=off")
    same.assert_outcomes(passed=1)
    same.stdout.fnmatch_lines(["*not compared*1,000 IOPS, which the job set itself*latency.at_most*"])
    same.stdout.no_fnmatch_line("*held: *")
    slower = session(recorded_runs.OWN_RATE.format(rate=700.0), policy, *GATE, "--cloudbench-evidence=off")
    slower.assert_outcomes(failed=1)
    slower.stdout.fnmatch_lines(["*700 IOPS against 1,000 IOPS in 3 earlier runs*"])


def test_a_job_that_keeps_its_own_rate_is_violated_by_a_latency_far_above_that_of_before(session):
    own = recorded_runs.OWN_RATE.format(rate=999.0)
    fast = own.replace("rate_asked=", "latency=recorded_runs.measured(4_000.0).latency, rate_asked=")
    for name in ("one", "two", "three"):
        session(fast, f"--cloudbench-evidence=runs/{name}").assert_outcomes(passed=1)
    same = session(fast, *GATE, "--cloudbench-evidence=off")
    same.assert_outcomes(passed=1)
    same.stdout.fnmatch_lines(["*not compared*mean latency 4 ms against 4 ms in 3 earlier runs*"])
    slower = session(own, *GATE, "--cloudbench-evidence=off")
    slower.assert_outcomes(failed=1)
    slower.stdout.fnmatch_lines(["*violated: mean latency 16 ms against 4 ms in 3 earlier runs (300*"])
    repeated = session(own, *GATE, "--cloudbench-evidence=off", "--cloudbench-repeats=2")
    repeated.assert_outcomes(passed=2, skipped=1)  # nothing for the item that judges all
    repeated.stdout.fnmatch_lines(["*not compared*repeats of a job that sets its own rate*latency.at_most*"])


FAILS = """
import pytest

def test_it(volume, fio):
    for rate in {rates}:
        rates[:] = [rate]
        if rate == 0:
            with pytest.raises(ZeroDivisionError):
                fio(volume, rw="randread", iodepth=16)
        else:
            fio(volume, rw="randread", iodepth=16)
"""


def test_a_workload_that_failed_does_not_count_as_one_of_the_calls(session, found):
    for name, rates in (("one", [3_000.0, 0.0, 2_000.0]), ("two", [0.0, 3_000.0, 2_000.0])):
        session(FAILS.format(rates=rates), f"--cloudbench-evidence=runs/{name}").assert_outcomes(passed=1)
    for nth, rate in enumerate((3_000.0, 2_000.0)):
        assert [each.run.iops for each in found("one", "two", nth=nth).runs] == [rate, rate]
    assert "fewer than 3 times" in found("one", nth=2).missing
