"""Real fio on loop devices of this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_targets import HostTarget

from pytest_cloudbench.hosts.errors import NotOurs
from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.run import run_fio

pytestmark = pytest.mark.embedded


@pytest.fixture
def loops(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """Two loop devices over sparse files, removed afterwards."""
    if os.geteuid() != 0:
        pytest.skip("making a loop device needs root")
    made: list[str] = []
    try:
        for number in range(2):
            backing = tmp_path / f"backing{number}"
            backing.touch()
            os.truncate(backing, 64 << 20)
            said = subprocess.run(
                ["losetup", "--find", "--show", str(backing)], capture_output=True, text=True, check=False
            )
            if said.returncode != 0:
                pytest.skip(f"this machine makes no loop device: {said.stderr.strip()}")
            made.append(said.stdout.strip())
        yield tuple(made)
    finally:
        for each in made:
            subprocess.run(["losetup", "--detach", each], check=True)


def _refuse() -> None:
    raise NotOurs("not proven to be ours")


class _OnlyToRead(HostTarget):
    """A device that may be read but not written, such as one with partitions."""

    def prove_readable(self) -> None:
        pass


@pytest.mark.fault("disks", "a device is not proven to be the volume")
def test_a_device_not_proven_ours_is_neither_read_nor_written(
    host: SshHost, loops: tuple[str, ...], tmp_path: Path
) -> None:
    for rw in ("read", "write"):
        with pytest.raises(NotOurs):
            run_fio(HostTarget(host, "block", loops[:1], prove=_refuse), FioJob.of(rw, "64k", runtime=1))
    only_to_read = _OnlyToRead(host, "block", loops[:1], prove=_refuse)
    assert run_fio(only_to_read, FioJob.of("read", "64k", runtime=1)).throughput_mib > 0
    with pytest.raises(NotOurs):
        run_fio(only_to_read, FioJob.of("write", "64k", runtime=1))
    assert not any((tmp_path / "backing0").read_bytes())


def test_several_devices_add_up(host: SshHost, loops: tuple[str, ...], tmp_path: Path) -> None:
    target = HostTarget(host, "block", loops)
    measurement = run_fio(
        target, FioJob.of("randwrite", "4k", numjobs=2, iodepth=2, runtime=2, rate_iops=1001)
    )
    assert measurement.iops == pytest.approx(1001, rel=0.03)
    assert measurement.outstanding_asked == 8
    assert measurement.write is not None
    assert measurement.read is None
    for number in range(2):
        assert any((tmp_path / f"backing{number}").read_bytes())
    written = sum(int(Path(f"/sys/block/{Path(each).name}/stat").read_text().split()[4]) for each in loops)
    assert written > 0
