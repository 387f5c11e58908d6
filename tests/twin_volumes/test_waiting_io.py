"""I/O that waits: for a process that paces volumes and was stopped, and for the rate of a volume that is modified."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from paced_instance import finished, wait_until

from pytest_cloudbench.limits.quantities import GIB
from pytest_cloudbench.limits.volumes import io2

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.skipif(
        os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="needs root and /dev/fuse"
    ),
]

STOPPED_S = 3.0


def test_io_waits_for_a_stopped_process_and_counts_as_late(instance):
    volume_id, device = instance.volume(io2(size_gib=4, iops=400))
    options = "--rw=randwrite --bsrange=4k-16k --size=8m --iodepth=32 --verify=crc32c"
    load = instance.fio(device, options)
    wait_until(lambda: instance.figures(volume_id).done.write_ops > 100, "a load")
    os.kill(instance.server.pid, signal.SIGSTOP)
    before = instance.figures(volume_id).done
    time.sleep(STOPPED_S)
    assert load.poll() is None
    assert instance.figures(volume_id).done == before
    os.kill(instance.server.pid, signal.SIGCONT)
    (job,) = json.loads(finished(load, seconds=30))["jobs"]
    assert job["error"] == 0
    assert job["read"]["total_ios"] == job["write"]["total_ios"] > 500  # all of it was read back
    wait_until(lambda: instance.figures(volume_id).done.queue_length == 0, "the last counts")
    done = instance.figures(volume_id).done
    # 32 I/Os were in flight. An I/O that came meanwhile is seen only afterwards.
    assert done.late_s - before.late_s > 20 * STOPPED_S


def test_a_modification_takes_effect_while_io_runs(instance):
    volume_id, device = instance.volume(io2(size_gib=4, iops=1_000))
    load = instance.fio(device, "--rw=randread --bs=4k --size=64m --iodepth=32 --time_based --runtime=9")

    def rate():
        time.sleep(0.2)  # what was let through before is answered
        counted, began = instance.figures(volume_id).done.read_ops, time.monotonic()
        time.sleep(2)
        return (instance.figures(volume_id).done.read_ops - counted) / (time.monotonic() - began)

    wait_until(lambda: instance.figures(volume_id).done.read_ops > 0, "a load")
    assert rate() == pytest.approx(1_000, rel=0.05)
    instance.plane.volumes.modify(volume_id, io2(size_gib=6, iops=3_000))
    assert rate() == pytest.approx(3_000, rel=0.05)
    assert instance.run(f"blockdev --getsize64 {device}") == f"{6 * GIB}\n"
    instance.run(f"dd if=/dev/zero of={device} bs=1M count=1 seek={5 * 1024} oflag=direct")
    instance.plane.volumes.modify(volume_id, io2(size_gib=6, iops=500))
    assert rate() == pytest.approx(500, rel=0.05)
    assert load.poll() is None
    (job,) = json.loads(finished(load))["jobs"]
    assert job["error"] == 0
