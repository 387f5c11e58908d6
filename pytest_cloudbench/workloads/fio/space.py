"""Checks of a target before fio starts: does the job fit it, and is there space for the job's data?"""

from __future__ import annotations

import dataclasses

from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.fio.errors import BadFioJob
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.space import fits
from pytest_cloudbench.workloads.target import Target, prove_writable

_LOOK = """\
for each; do
    if [ -b "$each" ]; then echo "block device"
    elif [ -d "$each" ]; then echo "directory"
    elif [ -e "$each" ]; then stat -L -c %F -- "$each"
    else echo missing
    fi
done
sed -n 's/^MemAvailable: *\\([0-9]*\\) kB$/\\1/p' /proc/meminfo
"""

_SPACE = """\
df -B1 --output=avail -- "$1" | tail -n 1
find "$1" -maxdepth 1 -type f -name "$2.*" -printf '%b\\n'
find "$1" -maxdepth 1 -type f -name "$2-*.*" -printf '%b\\n'
"""

_LAY_OUT_CLONES = """\
set -e
cd -- "$1"
if [ "$(stat -c %s -- "$2.0.0" 2>/dev/null || echo 0)" != "$3" ]; then
    rm -f -- "$2".*.0
    head -c "$3" /dev/urandom > "$2.0.0"
fi
job=1
while [ "$job" -lt "$4" ]; do
    cp --reflink=always -- "$2.0.0" "$2.$job.0"
    job=$((job + 1))
done
sync -f .
"""

_KINDS = {"block": "block device", "directory": "directory", "file": "regular file"}
_MOST_MEMORY = 0.8
"""The share of the available memory that a load may need: beyond it the host's kernel kills processes."""
_KEPT_FREE = 0.02
"""Share of the free space that file systems need for themselves."""
_SLOWEST = 20 * 1024 * 1024
"""Writing the file that clones share counts as hanging below this rate, in bytes a second."""


def check_is_target(given: object) -> None:
    """Raise BadFioJob for anything but a target. Reject bare paths: a path does not prove ownership."""
    if getattr(given, "kind", None) not in _KINDS:
        raise BadFioJob(
            "fio's target is a volume, several of them (ebs_volumes), a mounted one (ebs_volume.mounted()) or a "
            f"directory of a host (host.directory(path)), not {given!r}"
        )


def as_on_device(target: Target, job: FioJob) -> tuple[FioJob, tuple[str, ...]]:
    """Return the job as it runs in a directory that stands for a device, and a sentence about the change.

    The job gets a size if it has none, and it overwrites existing data: space that is only reserved is read without
    touching a disk, and a file written in random order is read in pieces.
    """
    data = target.data_of_device
    if data is None:
        return job, ()
    if job.writes and job.overwrite is None:
        job = dataclasses.replace(job, overwrite=True)
    if job.size is not None:
        return job, ()
    blocks = max(1, data.bytes // job.numjobs // job.bs.bytes)
    size = Size(blocks * job.bs.bytes)
    files = "1 file" if job.numjobs == 1 else f"{job.numjobs} files"
    return dataclasses.replace(job, size=size), (
        f"no size= was given: {files} of {size} in place of a device, which {target.label} is not",
    )


def check_target(target: Target, job: FioJob) -> Size:
    """Check that the target is what it should be and can take the job; return how much data its files still lack.

    Raises BadFioJob if the job does not fit the kind of target, and the target's own errors if it is not proven ours: a
    device that is mounted, part of something else, or the host's own may neither be written nor read. After that check,
    which explains such errors better, raises TargetError if a path is missing, of another kind (as root, fio would
    create a plain file in place of a mistyped device), or has too little space.
    """
    if target.kind == "directory" and job.size is None:
        raise BadFioJob(
            f"size= is needed on a file system: {target.label} has no size of its own (size is per job)"
        )
    if target.kind == "file" and job.size is not None and job.size > target.size:
        raise BadFioJob(f"size={job.size} is more than {target.label} has: leave size= out, or lay out more")
    host = target.host  # raises if the instance is stopped, before anything else is checked
    # A job that only reads still lays out its files in a directory. It reads a device only if nothing else uses it:
    # other I/O would be measured with it.
    if target.kind != "block" or job.writes:
        prove_writable(target, overwrite=bool(job.overwrite))
    else:
        target.prove_readable()
    expected = _KINDS[target.kind]
    listed = host.run(["sh", "-c", _LOOK, "sh", *target.paths], idempotent=True).stdout.splitlines()
    if len(listed) > len(target.paths):
        _check_memory(target, job, Size(int(listed.pop()) * 1024))
    for path, found in zip(target.paths, listed, strict=True):
        if found == "missing":
            raise TargetError(f"{path} does not exist on {host.label}: a {expected} is needed")
        if found != expected:
            raise TargetError(f"{path} on {host.label} is a {found}, not a {expected}")
    if target.kind == "directory" and job.size is not None:
        return _check_file_system(host, target.path, job, job.size)
    return Size(0)


def _check_memory(target: Target, job: FioJob, available: Size) -> None:
    """Raise BadFioJob if the job's I/Os in flight need more than most of the memory that the host has available."""
    devices = len(target.paths) if target.kind == "block" else 1
    needed = job.memory(devices)
    if needed.bytes > available.bytes * _MOST_MEMORY:
        raise BadFioJob(
            f"iodepth={job.iodepth} x numjobs={job.numjobs} of bs={job.bs} on {devices} devices need about {needed} of "
            f"memory on {target.host.label}, which has {available} available: lower iodepth=, numjobs= or bs="
        )


def _check_file_system(host: Host, directory: str, job: FioJob, size: Size) -> Size:
    listed = host.run(["sh", "-c", _SPACE, "sh", directory, job.name], idempotent=True)
    free, *blocks = (int(line) for line in listed.stdout.split())
    existing = sum(blocks) * 512  # laid out by an earlier run of the same name, and reused
    missing = max(0, size.bytes * job.numjobs - existing)
    if missing > free * (1 - _KEPT_FREE):
        raise TargetError(
            f"{job.numjobs} jobs of {size} need {Size(size.bytes * job.numjobs)}, but {directory} on "
            f"{host.label} has {Size(free)} free: lower size= or numjobs="
        )
    return Size(missing)


def make_room(target: Target, job: FioJob, to_lay_out: Size, room: Size | None) -> tuple[str, ...]:
    """Check that the machine behind the target has space for the job's data; return conditions as sentences.

    ``to_lay_out`` is how much data the files still lack, ``room`` the result of ``target.room()``. Files of a job that
    only reads are cloned from one if there is no space for all of them. Raises TargetError for a job that writes too
    much. Only an embedded region has such a limit.
    """
    if room is None:
        return ()
    more = _most_written(target, job, to_lay_out)
    if fits(room, more):
        return ()
    if target.kind == "directory" and job.size is not None and not job.writes:
        return (_lay_out_clones(target, job, job.size),)
    raise TargetError(
        f"this job would add up to {more} of data to {target.label}, and the machine behind it has room for "
        f"{room}: lower size=, use --cloudbench-pace=quick, or give the embedded region a folder with "
        "--cloudbench-twin-backing=DIR"
    )


def _most_written(target: Target, job: FioJob, to_lay_out: Size) -> Size:
    if target.kind == "directory":
        return to_lay_out
    if target.kind == "file" or not job.writes:  # a file already exists in full
        return Size(0)
    reached = target.size
    if job.size is not None:
        reached = min(reached, job.size * job.numjobs * len(target.paths))
    envelope = envelope_of(target, job)
    fastest = envelope.limit_throughput if envelope is not None else None
    if fastest is None:
        return reached
    return min(reached, Size(int(fastest.bytes_per_second * (job.runtime + job.ramp_time))))


def envelope_of(target: Target, job: FioJob) -> Envelope | None:
    """Return every ceiling of this job on this target, for its mix of reads and writes; None if none is known."""
    envelope = target.envelope(job.bs, sequential=job.sequential)
    return None if envelope is None else envelope.of_mix(job.read_share)


def _lay_out_clones(target: Target, job: FioJob, size: Size) -> str:
    """Create the files that the job reads, all clones of the first (reflink, XFS), and return the condition.

    Clones are read from the device like any other file: the cost of a read on a volume does not depend on the data.
    Together they need the space of one file. Raises TargetError if the file system cannot clone files.
    """
    done = target.host.run(
        ["sh", "-c", _LAY_OUT_CLONES, "sh", target.path, job.name, str(size.bytes), str(job.numjobs)],
        check=False,
        timeout_s=60 + size.bytes / _SLOWEST,
    )
    if done.exit_code != 0:
        raise TargetError(
            f"{job.numjobs} files of {size} do not fit the machine behind {target.label}, and files that share "
            f"their blocks cannot be made there ({done.stderr.strip() or 'no reason given'}): mount it as xfs, "
            "lower size= or numjobs=, or use --cloudbench-pace=quick"
        )
    return (
        f"the {job.numjobs} files of {size} share the blocks of one: the machine behind the volume has no room "
        f"for {size * job.numjobs}"
    )
