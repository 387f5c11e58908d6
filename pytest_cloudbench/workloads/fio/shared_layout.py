"""Files for a read-only job that share their blocks, where there is no room for all of them in full.

A region embedded on a machine keeps its volumes' data in memory. Sixty-four files of 500 MiB need 31 GiB
of it, although what a read costs on a volume does not depend on what the block holds. Files that are
clones of one (reflink, XFS) read from the device as any other file does, and need the room of one.
"""

from __future__ import annotations

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.target import Target

_LAY_OUT = """\
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

_SLOWEST = 20 * 1024 * 1024
"""Bytes a second below which writing the one file counts as hanging."""


def lay_out_shared(target: Target, job: FioJob, size: Size) -> str:
    """Make the files that ``job`` will find and read, all clones of the first; the sentence that says so.

    Raises TargetError where the file system cannot clone files.
    """
    made = target.host.run(
        ["sh", "-c", _LAY_OUT, "sh", target.path, job.name, str(size.bytes), str(job.numjobs)],
        check=False,
        timeout_s=60 + size.bytes / _SLOWEST,
    )
    if made.exit_code != 0:
        raise TargetError(
            f"{job.numjobs} files of {size} do not fit the machine behind {target.label}, and files that share "
            f"their blocks cannot be made there ({made.stderr.strip() or 'no reason given'}): mount it as xfs, "
            "lower size= or numjobs=, or use --cloudbench-pace=quick"
        )
    return (
        f"the {job.numjobs} files of {size} share the blocks of one: the machine behind the volume has no room "
        f"for {size * job.numjobs}"
    )
