"""A job whose data does not fit the machine behind its target is refused before it starts, or reads cloned files."""

import pytest

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.space import make_room

MIB = 1 << 20


@pytest.mark.parametrize("room", [None, Size(1000 * MIB)])
def test_nothing_changes_if_there_is_space_or_no_known_limit(directory, room):
    directory.has_room_for = room
    job = FioJob.of("read", "4k", size="100m", numjobs=4, runtime=1)
    assert make_room(directory, job, Size(400 * MIB), directory.room()) == ()
    assert list(directory.host.run(["ls", directory.path]).stdout) == []


def test_a_writing_job_without_space_is_refused(directory):
    directory.has_room_for = Size(100 * MIB)
    job = FioJob.of("write", "4k", size="100m", numjobs=4, runtime=1)
    with pytest.raises(TargetError, match=r"up to 400 MiB of data.*has room for 100 MiB.*twin-backing"):
        make_room(directory, job, Size(400 * MIB), directory.room())


def test_cloned_files_need_a_file_system_with_reflinks(directory):
    if directory.host.run(["stat", "-f", "-c", "%T", directory.path]).stdout.strip() in ("xfs", "btrfs"):
        pytest.skip("the file system of the temporary directory can clone files")
    directory.has_room_for = Size(2 * MIB)
    job = FioJob.of("read", "4k", size="1m", numjobs=4, runtime=1)
    with pytest.raises(TargetError, match=r"share their blocks cannot be made there.*mount it as xfs"):
        make_room(directory, job, Size(4 * MIB), directory.room())


def test_a_device_needs_space_for_what_can_be_written_in_the_time(directory):
    """A device of 1 GiB without known ceilings may be written completely, but not more."""
    directory.kind = "block"
    directory.has_room_for = Size(500 * MIB)
    reads = FioJob.of("randread", "4k", runtime=1)
    assert make_room(directory, reads, Size(0), directory.room()) == ()
    with pytest.raises(TargetError, match="up to 1 GiB of data"):
        make_room(directory, FioJob.of("randwrite", "4k", runtime=1), Size(0), directory.room())
    small = FioJob.of("randwrite", "4k", runtime=1, size="50m", numjobs=4)
    assert make_room(directory, small, Size(0), directory.room()) == ()
