"""Sweeps on the embedded region: many volumes as one, the machine as the limit, and sweeps that end early."""

import re
import signal
import subprocess
import sys
import time

import pytest
from shown_tests import shown_test

from pytest_cloudbench import Outcome, gp2, gp3, recorded_limits
from pytest_cloudbench.resources.errors import AttachmentLimit
from pytest_cloudbench.workloads.sweep.errors import BadSweep

pytestmark = pytest.mark.embedded

LIMITS = recorded_limits(ebs_iops=64_000, ebs_throughput="1,085 MiB/s", source="a review", date="2018")


def conclusive(verdict):
    """Skip where this machine was too busy to tell; anything else must be the verdict that is expected."""
    if verdict.outcome is Outcome.INCONCLUSIVE:
        pytest.skip(str(verdict))
    return verdict


@pytest.mark.alone
@pytest.mark.ec2_instance("i3.metal", limits=LIMITS)
@pytest.mark.ebs_volumes(gp2(size_gib=1_000), count=30)
def test_thirty_volumes_share_one_limit_of_their_instance(ec2, ec2_instance, ebs_volumes, sweep):
    """3,840 I/Os in flight, and no more volumes than the type takes."""
    with pytest.raises(AttachmentLimit, match=r"i3\.metal .*31.*31.* 1 more make 32"):
        ec2.create_volume(gp2(size_gib=1), ec2_instance)
    curves = []

    def kept_sweep(*target, **options):
        curves.append(sweep(*target, **options))
        return curves[-1]

    shown_test("sweeps", "test_the_peak_is_the_instance_s")(ec2_instance, ebs_volumes, kept_sweep)
    (curve,) = curves
    assert curve.peak.outstanding_asked == 3_840
    assert curve.peak.iops < 64_000 * 1.01
    if curve.peak.iops < 64_000 * 0.99:
        pytest.skip(f"this machine served {curve.peak.iops:,.0f} of 64,000 IOPS")
    assert curve.peak.latency.mean_s == pytest.approx(3_840 / 64_000, rel=0.05)
    assert curve.peak.consistency.consistent
    step = curve.steps[-1]
    assert conclusive(step.reached())
    assert step.measurement.read.ios == pytest.approx(
        step.achieved.per_second * step.measurement.runtime_s, rel=0.01
    )
    assert conclusive(curve.stays_below("1ms", until=60_000))


@pytest.mark.alone
@pytest.mark.ec2_instance("i3.metal")
def test_a_machine_that_cannot_carry_the_rate_is_named(instance_store, sweep):
    enough = 448  # on each of 8 disks: one I/O in flight for each 1,000 a second that are asked for
    curve = sweep(instance_store, mix="4k-random-read", threads=enough, steps=(10,), maximum_time=3)
    if curve.peak.iops > 3_000_000:
        pytest.skip("this machine serves as much as an i3.metal")
    assert any("this machine's own ceiling" in condition for condition in curve.conditions)
    assert {ceiling.quantity for ceiling in curve.envelope.promised.ceilings} == {"NVMe random read IOPS"}
    verdict = curve.peak.reaches(instance_store.read_iops)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited
    assert "the machine under the embedded region was the limit" in str(verdict)


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=1))
def test_a_mix_keeps_its_shares_on_a_throttled_volume(ebs_volume, sweep):
    with pytest.raises(
        BadSweep, match=r"a working set of 12 % on a device of 1 GiB is 122 MiB, too small for 512"
    ):
        sweep(ebs_volume, mix="64k-sequential-read", threads=512)
    curve = sweep(ebs_volume, mix="oltp", threads=32, steps=(50, 130))
    assert conclusive(curve.peak.capped_by(ebs_volume.iops))
    half, over = curve.steps
    assert half.measurement.read.iops / half.achieved.per_second == pytest.approx(0.67, abs=0.03)
    assert conclusive(half.reached())
    assert not conclusive(over.reached())
    assert over.latency.mean_s > half.latency.mean_s


IN_A_SESSION = """
import pytest
from pytest_cloudbench import gp3

VOLUME = pytest.mark.ebs_volume(gp3(size_gib=1))
SHORT = {"threads": 32, "step_time": 2, "maximum_time": 3, "ramp_time": 1}

@pytest.mark.ec2_instance("m5.large")
@VOLUME
def test_ends_past_its_limit(ebs_volume, sweep):
    curve = sweep(ebs_volume, steps=(50, 120, 130), latency_limit="4ms", **SHORT)
    assert [step.percent for step in curve.steps] == [50, 120]
    assert curve.conditions[-1].startswith("stopped after 120 %: mean latency ")
    assert curve.conditions[-1].endswith(" exceeds the limit of 4 ms")

@pytest.mark.ec2_instance("m5.large")
@VOLUME
def test_is_interrupted(ebs_volume, sweep):
    sweep(ebs_volume, steps=(50, 60, 70, 80), **SHORT)
"""
RUNS = 3 + 2
"""Of the first sweep, and of the second one until it is interrupted."""


def test_sweeps_that_end_early_keep_the_steps_done(tmp_path):
    """At full pace, which takes every step that was asked for. Each run is in the evidence as soon as it has ended."""
    (tmp_path / "test_it.py").write_text(IN_A_SESSION)
    evidence = tmp_path / "evidence"
    command = [
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--cloudbench-pace=full",
        f"--cloudbench-evidence={evidence}",
    ]  # fmt: skip
    output = tmp_path / "output"
    with output.open("w") as stream:
        running = subprocess.Popen(command, cwd=tmp_path, stdout=stream, stderr=subprocess.STDOUT)
        try:
            until = time.monotonic() + 120
            while sum(each.read_text().count('"kind":"part"') for each in evidence.rglob("*.jsonl")) < RUNS:
                assert running.poll() is None, output.read_text()
                assert time.monotonic() < until, output.read_text()
                time.sleep(0.1)
            running.send_signal(signal.SIGINT)
            assert running.wait(timeout=60) == pytest.ExitCode.INTERRUPTED, output.read_text()
        finally:
            running.kill()
            running.wait()
    said = output.read_text()
    assert "= 1 passed in " in said, said
    _, interrupted, done = said.partition("the sweep was interrupted after 1 steps:")
    assert interrupted, said
    assert re.search(r"^maximum  .*\n +50 %  ", done, re.MULTILINE), said
