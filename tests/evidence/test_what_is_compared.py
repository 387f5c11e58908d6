"""What a gate compares: which figure of a measurement, and which earlier runs count."""

import dataclasses

import pytest
import recorded_runs

from pytest_cloudbench import Outcome
from pytest_cloudbench.evidence.baseline import observed_in
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.verdicts.not_worse_than import Earlier, EarlierRun, not_worse_than
from pytest_cloudbench.workloads.create_files.creation import DeviceWrites


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
