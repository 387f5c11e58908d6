"""Ready-made matrices of fio jobs, to parametrise a test with.

    from pytest_cloudbench import SQLIO

    @pytest.mark.parametrize("job", SQLIO, ids=str)
    def test_sqlio(ebs_volume, fio, job):
        run = fio(ebs_volume, **job, runtime=60)

Plain data: importing it loads nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["FOUR_CORNERS", "SQLIO", "JobShape", "sqlio"]


class JobShape(Mapping[str, Any]):
    """The options of a fio job by name, for ``fio(target, **job)``. ``str(job)`` is its id, "randread-8k-64"."""

    def __init__(self, rw: str, bs: str, iodepth: int, **options: str | int) -> None:
        self._options: dict[str, str | int] = {"rw": rw, "bs": bs, "iodepth": iodepth, **options}

    def changed(self, **options: str | int) -> JobShape:
        """Return a copy with these options replaced or added."""
        return JobShape(**{**self._options, **options})  # type: ignore[arg-type]  # its own three are there

    def __getitem__(self, name: str) -> Any:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __hash__(self) -> int:
        return hash(frozenset(self._options.items()))

    def __str__(self) -> str:
        own = {"rw", "bs", "iodepth"}
        more = [f"{name}={value}" for name, value in self._options.items() if name not in own]
        return "-".join([str(self["rw"]), str(self["bs"]), str(self["iodepth"]), *more])

    def __repr__(self) -> str:
        return f"<job {self}>"


def sqlio(
    block_sizes: Iterable[str] = ("8k", "16k", "64k"), outstanding: Iterable[int] = (8, 64)
) -> tuple[JobShape, ...]:
    """Return the SQLIO matrix: random and sequential reads and writes for each block size and depth.

    The default sizes are those of a database: pages of 8 KiB, pairs of pages, and extents of 64 KiB.
    """
    depths = tuple(outstanding)
    return tuple(
        JobShape(rw, bs, iodepth)
        for bs in block_sizes
        for rw in ("randread", "randwrite", "read", "write")
        for iodepth in depths
    )


SQLIO = sqlio()

FOUR_CORNERS = (
    JobShape("randread", "4k", 32),
    JobShape("randwrite", "4k", 32),
    JobShape("read", "256k", 32),
    JobShape("write", "256k", 32),
)
"""Small random I/O, which reaches IOPS limits, and large sequential I/O, which reaches throughput limits."""
