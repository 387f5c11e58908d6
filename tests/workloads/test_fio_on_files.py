"""fio in one existing file, and on a directory that stands for a device."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from host_targets import HostTarget

from pytest_cloudbench.hosts.errors import NotOurs
from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.fio.errors import BadFioJob
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.run import run_fio
from pytest_cloudbench.workloads.fio.space import as_on_device

MIB = 1 << 20


class _FileTarget(HostTarget):
    """A target whose size is the file's own."""

    @property
    def size(self) -> Size:
        return Size(os.stat(self.path).st_size)


@pytest.fixture
def file(host: SshHost, tmp_path: Path) -> _FileTarget:
    path = tmp_path / "laid:out"
    path.write_bytes(os.urandom(8 * MIB))
    return _FileTarget(host, "file", (str(path),), conditions=("laid out before",), label="the file")


def test_all_jobs_stay_within_the_one_file(file: _FileTarget) -> None:
    before = Path(file.path).read_bytes()
    run = run_fio(file, FioJob.of("randread", "4k", numjobs=3, runtime=1))
    assert run.kernel == os.uname().release
    assert run.iops > 0
    assert run.outstanding_asked == 3
    assert run.conditions == ("laid out before",)
    assert Path(file.path).read_bytes() == before
    assert run_fio(file, FioJob.of("randwrite", "4k", numjobs=2, size="1m", runtime=1)).write is not None
    after = Path(file.path).read_bytes()
    assert len(after) == 8 * MIB
    assert after[MIB:] == before[MIB:], "size= bounds where it writes"
    assert after[:MIB] != before[:MIB]
    assert [entry.name for entry in Path(file.path).parent.iterdir()] == ["laid:out"]


def test_a_file_must_exist_and_is_neither_created_nor_extended(file: _FileTarget) -> None:
    with pytest.raises(BadFioJob, match="size=9 MiB is more than the file has"):
        run_fio(file, FioJob.of("read", "4k", size="9m", runtime=1))
    file.has_room_for = Size(0)
    assert run_fio(file, FioJob.of("write", "64k", runtime=1)).write is not None, "it takes no more room"
    file.prove = _refuse
    with pytest.raises(NotOurs):
        run_fio(file, FioJob.of("read", "4k", runtime=1))
    file.prove = lambda: None
    file.kind = "block"
    with pytest.raises(TargetError, match="is a regular file, not a block device"):
        run_fio(file, FioJob.of("read", "4k", runtime=1))
    Path(file.path).unlink()
    file.kind = "file"
    with pytest.raises(TargetError, match=r"does not exist .*: a regular file is needed"):
        run_fio(file, FioJob.of("read", "4k", runtime=1))


def _refuse() -> None:
    raise NotOurs("not proven to be ours")


def test_a_directory_in_place_of_a_device_supplies_the_size(directory: HostTarget) -> None:
    directory.data_of_device = Size(12 * MIB)
    run = run_fio(directory, FioJob.of("randread", "4k", numjobs=3, runtime=1))
    assert "no size= was given: 3 files of 4 MiB in place of a device" in run.conditions[0]
    sizes = [entry.stat().st_size for entry in Path(directory.path).glob("cloudbench.*")]
    assert sizes == [4 * MIB] * 3
    asked = run_fio(directory, FioJob.of("randwrite", "4k", size="1m", name="asked", runtime=1, rate_iops=20))
    assert asked.conditions == ()
    content = (Path(directory.path) / "asked.0.0").read_bytes()
    assert all(any(content[at : at + 4096]) for at in range(0, MIB, 4096)), (
        "written over data, not into space"
    )


@pytest.mark.parametrize(("data", "jobs", "size"), [(MIB, 3, 5 * 65536), (MIB, 64, 65536), (0, 1, 65536)])
def test_the_supplied_size_is_at_least_one_whole_block(
    directory: HostTarget, data: int, jobs: int, size: int
) -> None:
    directory.data_of_device = Size(data)
    job, _ = as_on_device(directory, FioJob.of("read", "64k", numjobs=jobs))
    assert job.size == Size(size)
