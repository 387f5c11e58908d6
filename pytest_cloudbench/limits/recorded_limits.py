"""EBS limits of an instance as somebody recorded them, in place of those that its type has today.

AWS raises the limits of its types over the years, so a published measurement may have met others than
DescribeInstanceTypes states now. A test may state what was recorded then. The statement travels as tags of the
instance: an embedded region limits the instance to them, AWS ignores them, and there they are what is expected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Iops, Throughput, figure, parse_rate

# Tags of this project: AWS knows no such thing and ignores them.
EBS_IOPS_TAG = "cloudbench:ebs-iops"
EBS_THROUGHPUT_TAG = "cloudbench:ebs-bytes-per-second"
FROM_TAGS = f"instance tags {EBS_IOPS_TAG} and {EBS_THROUGHPUT_TAG}"


class BadRecordedLimits(ValueError):
    """Recorded limits that cannot be ones; the message says which figure and why."""


@dataclass(frozen=True)
class RecordedLimits:
    """What an instance granted all its EBS volumes together, who says so, and when; None is as the type has it."""

    iops: Iops | None = None
    throughput: Throughput | None = None
    source: str = ""
    date: str = ""

    def __post_init__(self) -> None:
        if self.iops is None and self.throughput is None:
            raise BadRecordedLimits("recorded limits need a figure: ebs_iops=, ebs_throughput= or both")
        if self.iops is not None:
            _check_figure("ebs_iops", self.iops.per_second)
        if self.throughput is not None:
            _check_figure("ebs_throughput", self.throughput.bytes_per_second)

    @property
    def tags(self) -> dict[str, str]:
        """The tags by which an embedded region learns them."""
        found = {}
        if self.iops is not None:
            found[EBS_IOPS_TAG] = f"{self.iops.per_second:.0f}"
        if self.throughput is not None:
            found[EBS_THROUGHPUT_TAG] = f"{self.throughput.bytes_per_second:.0f}"
        return found

    @classmethod
    def of_tags(cls, tags: Mapping[str, str]) -> RecordedLimits | None:
        """Those in an instance's tags; None where there are none. Raises BadRecordedLimits for an unusable tag."""
        figures: dict[str, float] = {}
        for name in (EBS_IOPS_TAG, EBS_THROUGHPUT_TAG):
            text = tags.get(name)
            if text is None:
                continue
            if not text.isdecimal() or int(text) < 1:
                raise BadRecordedLimits(
                    f"the tag {name}={text!r} is no limit: a whole number from 1 up is needed"
                )
            figures[name] = float(text)
        if not figures:
            return None
        iops, moved = figures.get(EBS_IOPS_TAG), figures.get(EBS_THROUGHPUT_TAG)
        return cls(
            Iops(iops) if iops is not None else None,
            Throughput(moved) if moved is not None else None,
            FROM_TAGS,
        )

    def __str__(self) -> str:
        return " and ".join(str(each) for each in (self.iops, self.throughput) if each is not None)


def recorded_limits(
    *,
    ebs_iops: float | Iops | None = None,
    ebs_throughput: str | Throughput | None = None,
    source: str,
    date: str = "",
) -> RecordedLimits:
    """EBS limits that were recorded of an instance, for ``@pytest.mark.ec2_instance(type, limits=...)``.

    ``recorded_limits(ebs_iops=64_000, ebs_throughput="1,085 MiB/s", source="who measured it, where", date="2018")``.
    An embedded region obeys them; on AWS, which has its own, they are what the measurement is held against.
    Raises TypeError for a figure without its unit, BadRecordedLimits for one that is no limit or has no source.
    """
    if not isinstance(source, str) or not source.strip():
        raise BadRecordedLimits("recorded limits need their source: who measured or stated them, and where")
    iops = ebs_iops
    if iops is not None and not isinstance(iops, Iops):
        if isinstance(iops, bool) or not isinstance(iops, (int, float)):
            raise TypeError(f"ebs_iops={iops!r} is no number of I/Os a second")
        iops = Iops(float(iops))
    moved = ebs_throughput
    if isinstance(moved, str):
        try:
            parsed = parse_rate(moved)
        except ValueError as error:
            raise BadRecordedLimits(f"ebs_throughput={moved!r}: {error}") from None
        if not isinstance(parsed, Throughput):
            raise BadRecordedLimits(
                f"ebs_throughput={moved!r} is no throughput: write one such as '1,085 MiB/s'"
            )
        moved = parsed
    if isinstance(moved, (int, float)):
        raise TypeError(
            f"ebs_throughput={moved!r} has no unit: write it as a text such as '{figure(float(moved))} MiB/s'"
        )
    return RecordedLimits(iops, moved, source.strip(), date)


def _check_figure(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 1):
        raise BadRecordedLimits(f"{name}={value:g} is no limit: it must be a finite figure of at least 1")
