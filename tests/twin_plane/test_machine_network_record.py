"""The machine's network figure: it only rises, is kept for the next region, and is published only after a probe."""

from __future__ import annotations

from pytest_cloudbench.limits.quantities import Throughput
from pytest_cloudbench.twin.machine import MachineRecord


def test_it_only_rises_and_is_kept_for_the_next_region(tmp_path):
    record = MachineRecord(tmp_path)
    assert record.network() is None
    record.update_network(3e9)  # the governor may see something before the probe
    assert record.network() is None
    assert not (tmp_path / "machine.json").exists()
    record.update_network(4e9, probed=True)
    record.update_network(2e9)
    assert MachineRecord(tmp_path).network() == Throughput(4e9)
    record.update_network(5e9)
    assert MachineRecord(tmp_path).network() == Throughput(5e9)


def test_a_rate_seen_before_a_lower_probe_is_kept(tmp_path):
    record = MachineRecord(tmp_path)
    record.update_network(4e9)
    record.update_network(3e9, probed=True)
    assert record.network() == Throughput(4e9)
    assert MachineRecord(tmp_path).network() == Throughput(4e9)


def test_disks_and_network_are_recorded_separately(tmp_path):
    MachineRecord(tmp_path).update_network(4e9, probed=True)
    record = MachineRecord(tmp_path)
    assert record.disks() is None
    record.set_disks(50_000, 1e9)
    again = MachineRecord(tmp_path)
    assert again.disks().iops.per_second == 50_000
    assert again.network() == Throughput(4e9)
    (tmp_path / "machine.json").write_text(
        '{"boot_id": "another", "iops": 1, "bytes_per_second": 1, "network_bytes_per_second": 9}'
    )
    assert MachineRecord(tmp_path).network() is None
