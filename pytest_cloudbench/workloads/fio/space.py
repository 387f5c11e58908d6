"""Is the target fit for the job? Asked on the host before fio starts, answered in sentences."""

from __future__ import annotations

import dataclasses

from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.fio.errors import BadFioJob
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.target import Target

_LOOK = """\
for each; do
    if [ -b "$each" ]; then echo "block device"
    elif [ -d "$each" ]; then echo "directory"
    elif [ -e "$each" ]; then stat -L -c %F -- "$each"
    else echo missing
    fi
done
"""

_SPACE = """\
df -B1 --output=avail -- "$1" | tail -n 1
find "$1" -maxdepth 1 -type f -name "$2.*" -printf '%b\\n'
find "$1" -maxdepth 1 -type f -name "$2-*.*" -printf '%b\\n'
"""

_KINDS = {"block": "block device", "directory": "directory", "file": "regular file"}
_KEPT_FREE = 0.02
"""Share of the free space that file systems need for themselves."""


def check_is_target(given: object) -> None:
    """Raise BadFioJob for what is no target at all, such as a path: a path proves nothing about whose it is."""
    if getattr(given, "kind", None) not in _KINDS:
        raise BadFioJob(
            f"fio's target is a volume, several of them (ebs_volumes) or a mounted one (ebs_volume.mounted()), "
            f"not {given!r}"
        )


def as_on_device(target: Target, job: FioJob) -> tuple[FioJob, tuple[str, ...]]:
    """The job as it is run in a directory that stands for a device, and the sentence that says what changed.

    It gets a size where it names none, and writes over data that is there: space that is merely reserved is
    read without touching a disk, and one written here and there is read in pieces.
    """
    data = target.data_of_device
    if data is None:
        return job, ()
    if job.writes:
        job = dataclasses.replace(job, options={"overwrite": True, **job.options})
    if job.size is not None:
        return job, ()
    blocks = max(1, data.bytes // job.numjobs // job.bs.bytes)
    size = Size(blocks * job.bs.bytes)
    files = "1 file" if job.numjobs == 1 else f"{job.numjobs} files"
    return dataclasses.replace(job, size=size), (
        f"no size= was given: {files} of {size} in place of a device, which {target.label} is not",
    )


def check_target(target: Target, job: FioJob) -> Size:
    """Raise unless the target is what it says it is and can take the job; what files miss of their size.

    BadFioJob: the job does not fit the kind of target. TargetError: a path is missing, of another kind
    (fio run as root would make a plain file in place of a mistyped device), or has too little room.
    Whatever the target itself raises when a device is not proven to be ours to write, or to read: what is
    mounted, part of something else or the host's own is no target for either.
    """
    if target.kind == "directory" and job.size is None:
        raise BadFioJob(
            f"size= is needed on a file system: {target.label} has no size of its own (size is per job)"
        )
    if target.kind == "file" and job.size is not None and job.size > target.size:
        raise BadFioJob(f"size={job.size} is more than {target.label} has: leave size= out, or lay out more")
    host = target.host  # an instance that is stopped says so, before anything else of it is asked
    # First of all, what became of it explains what is found in its place. In a directory even a reading job lays
    # out files; a device is read only where nothing else lives on it, which would be measured with it.
    if target.kind != "block" or job.writes:
        target.prove_writable()
    else:
        target.prove_readable()
    wanted = _KINDS[target.kind]
    said = host.run(["sh", "-c", _LOOK, "sh", *target.paths], idempotent=True).stdout.splitlines()
    for path, found in zip(target.paths, said, strict=True):
        if found == "missing":
            raise TargetError(f"{path} does not exist on {host.label}: a {wanted} is needed")
        if found != wanted:
            raise TargetError(f"{path} on {host.label} is a {found}, not a {wanted}")
    if target.kind == "directory" and job.size is not None:
        return _check_space(host, target.path, job, job.size)
    return Size(0)


def _check_space(host: Host, directory: str, job: FioJob, size: Size) -> Size:
    said = host.run(["sh", "-c", _SPACE, "sh", directory, job.name], idempotent=True, sudo=True)
    free, *blocks = (int(line) for line in said.stdout.split())
    there = sum(blocks) * 512  # laid out by an earlier run of the same name, and used again
    needed = max(0, size.bytes * job.numjobs - there)
    if needed > free * (1 - _KEPT_FREE):
        raise TargetError(
            f"{job.numjobs} jobs of {size} need {Size(size.bytes * job.numjobs)}, but {directory} on "
            f"{host.label} has {Size(free)} free: lower size= or numjobs="
        )
    return Size(needed)
