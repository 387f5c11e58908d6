"""Slots: each has one owner as long as that lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from pytest_cloudbench.twin import regions, slots
from pytest_cloudbench.twin.regions import sweep
from pytest_cloudbench.twin.slots import NoFreeSlot, Slot, numbers_with_records, take_slot, try_lock
from pytest_cloudbench.twin.volumes import volume_process


def test_each_owner_gets_its_own_slot_and_addresses(tmp_path):
    first, second = take_slot(base=tmp_path), take_slot(base=tmp_path)
    try:
        assert (first.number, second.number) == (0, 1)
        assert first.caller_address == "198.18.0.1"
        assert second.caller_address == "198.18.4.1"
        assert str(second.zone_network(2)) == "198.18.6.0/24"
        assert not first.network.overlaps(second.network)
        assert second.directory.is_dir()
    finally:
        first.release()
        second.release()
    first.release()
    assert list(tmp_path.iterdir()) == []


def test_the_last_slot_is_within_the_benchmark_range():
    assert str(Slot(31).network) == "198.18.124.0/22"
    with pytest.raises(ValueError, match="zone index 4"):
        Slot(0).zone_network(4)


def test_no_free_slot_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(slots, "SLOTS", 1)
    slot = take_slot(base=tmp_path)
    with pytest.raises(NoFreeSlot, match="twin down"):
        take_slot(base=tmp_path)
    slot.release()
    take_slot(base=tmp_path).release()


def test_a_killed_owner_leaves_a_free_slot_that_is_swept_first(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from pytest_cloudbench.twin.slots import take_slot;"
        "slot = take_slot(base=Path(sys.argv[1])); (slot.directory / 'old').touch(); print('ready', flush=True);"
        "time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert owner.stdout.readline() == b"ready\n"
        assert try_lock(0, tmp_path) is None
        assert sweep(tmp_path) == []
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()
    assert numbers_with_records(tmp_path) == [0]
    assert sweep(tmp_path) == [0]
    assert os.listdir(tmp_path) == []
    assert sweep(tmp_path) == []


def test_the_sweep_gets_the_number_of_the_slot(tmp_path):
    swept = []
    slot = take_slot(swept.append, base=tmp_path)
    assert swept == [slot.number]
    slot.release()


def test_a_sweep_ends_only_the_processes_recorded_in_a_slot(tmp_path):
    """A stopped process does not notice the end of its region. A process id may have been reused."""
    base = tmp_path / "base"
    slot = take_slot(base=base)
    ours, others = (subprocess.Popen(["sleep", "600"]) for _ in range(2))
    try:
        ours.send_signal(signal.SIGSTOP)
        volume_process._record(slot.directory, ours.pid, 0)
        with open(slot.directory / "volume-processes", "a") as records:
            records.write(f"{others.pid} 1 0\n{2**22 + 1} 5 0\n")
        slot.keep_records()
        slot.release()
        assert slot.directory.is_dir()
        assert sweep(base) == [0]
        assert ours.wait(10) == -signal.SIGKILL
        assert others.poll() is None
        assert not slot.directory.exists()
        assert sweep(base) == []
    finally:
        for process in (ours, others):
            process.kill()
            process.wait()


def test_the_directory_of_all_slots_is_readable_by_every_user(tmp_path):
    before = os.umask(0o077)
    try:
        take_slot(base=tmp_path / "base").release()
    finally:
        os.umask(before)
    assert (tmp_path / "base").stat().st_mode & 0o777 == 0o755


def test_a_sweep_of_other_slots_leaves_the_machines_interfaces_alone(tmp_path, monkeypatch):
    """A lock below another base does not protect the interface of that number."""
    monkeypatch.setattr(Slot, "interface", "lo")
    monkeypatch.setattr(regions.subprocess, "run", lambda command, **_: pytest.fail(f"ran {command}"))
    (tmp_path / "0").mkdir()
    assert sweep(tmp_path) == [0]
