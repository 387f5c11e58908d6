"""Limits of an instance as somebody recorded them, in place of those that its type has today.

AWS raises the limits of its types over the years, so a published measurement may have run under lower ones than
DescribeInstanceTypes states now. AWS states some limits wrongly or not at all. A test states recorded limits in its
marker, a project in its `limits_file`. They travel as tags of the instance. An embedded region applies them. AWS
ignores them, and the measurement is only compared with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from pytest_cloudbench.limits.argument_names import named_arguments
from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput, figure, parse_rate, plain

# Tags of this project, which AWS ignores.
EBS_IOPS_TAG = "cloudbench:ebs-iops"
EBS_THROUGHPUT_TAG = "cloudbench:ebs-bytes-per-second"
_TAGS = {
    "iops": EBS_IOPS_TAG,
    "throughput": EBS_THROUGHPUT_TAG,
    "iops_baseline": "cloudbench:ebs-baseline-iops",
    "throughput_baseline": "cloudbench:ebs-baseline-bytes-per-second",
    "network": "cloudbench:network-bytes-per-second",
    "network_baseline": "cloudbench:network-baseline-bytes-per-second",
}
FROM_TAGS = "tags of the instance"

_PARAMETERS = {
    "iops": "ebs_iops",
    "throughput": "ebs_throughput",
    "iops_baseline": "ebs_baseline_iops",
    "throughput_baseline": "ebs_baseline_throughput",
}
"""Parameters of `recorded_limits` whose names differ from the fields."""


class BadRecordedLimits(ValueError):
    """Invalid recorded limits; the message names the figure and the reason."""


@dataclass(frozen=True)
class RecordedLimits:
    """What an instance allowed, with its source and date; None means the type's own limit.

    ``iops`` and ``throughput`` are for all EBS volumes together, ``network`` for each direction. A limit that bursts
    also has its ``..._baseline``, which holds once credits are spent.
    """

    iops: Iops | None = None
    throughput: Throughput | None = None
    source: str = ""
    date: str = ""
    iops_baseline: Iops | None = None
    throughput_baseline: Throughput | None = None
    network: Throughput | None = None
    network_baseline: Throughput | None = None

    def __post_init__(self) -> None:
        figures = self._figures()
        if not figures:
            raise BadRecordedLimits(
                "recorded limits need a figure: network=, ebs_iops= or ebs_throughput= of an EC2 instance, or iops= or "
                "throughput= of a host"
            )
        for field, rate in figures.items():
            name, value = _PARAMETERS.get(field, field), plain(rate)
            if not (math.isfinite(value) and value >= 1):
                raise BadRecordedLimits(f"invalid {name}={value:g}: a limit is a finite figure of at least 1")
            above = figures.get(field.removesuffix("_baseline"))
            if above is None or value > plain(above):
                full = _PARAMETERS.get(field.removesuffix("_baseline"), "network")
                raise BadRecordedLimits(f"invalid {name}={rate}: it needs a {full} that is at least as high")

    @property
    def tags(self) -> dict[str, str]:
        """The tags that carry the limits to an embedded region."""
        return {_TAGS[field]: f"{plain(rate):.0f}" for field, rate in self._figures().items()}

    @classmethod
    def of_tags(cls, tags: Mapping[str, str]) -> RecordedLimits | None:
        """Read the limits in an instance's tags; None without any. Raises BadRecordedLimits for an invalid tag."""
        found: dict[str, Iops | Throughput] = {}
        for field, name in _TAGS.items():
            text = tags.get(name)
            if text is None:
                continue
            if not text.isdecimal() or int(text) < 1:
                raise BadRecordedLimits(f"invalid tag {name}={text!r}: a limit is a whole number from 1 up")
            found[field] = (Iops if field.startswith("iops") else Throughput)(float(text))
        return cls(source=FROM_TAGS, **found) if found else None  # type: ignore[arg-type]  # each by its field

    def __str__(self) -> str:
        return " and ".join(str(rate) for rate in self._figures().values())

    def _figures(self) -> dict[str, Rate]:
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name in _TAGS}
        return {name: rate for name, rate in values.items() if rate is not None}


@named_arguments()
def recorded_limits(
    *,
    ebs_iops: float | Iops | None = None,
    ebs_throughput: str | Throughput | None = None,
    ebs_baseline_iops: float | Iops | None = None,
    ebs_baseline_throughput: str | Throughput | None = None,
    network: str | Throughput | None = None,
    network_baseline: str | Throughput | None = None,
    iops: float | Iops | None = None,
    throughput: str | Throughput | None = None,
    source: str,
    date: str = "",
) -> RecordedLimits:
    """Return limits that were recorded for an instance, for ``@pytest.mark.ec2_instance(type, limits=...)``.

    For a host without an API (``@pytest.mark.host(limits=...)``), use ``iops`` and ``throughput`` for its storage.

    ``recorded_limits(ebs_iops=64_000, ebs_throughput="1,085 MiB/s", source="who measured it, where", date="2018")``.
    An embedded region applies them; on AWS, which has its own, the measurement is compared with them. A limit without a
    baseline holds for good. Raises TypeError for a figure without its unit, BadRecordedLimits for an invalid limit and
    for a missing source.
    """
    if not isinstance(source, str) or not source.strip():
        raise BadRecordedLimits("recorded limits need their source: who measured or stated them, and where")
    for name, of_ebs, of_host in (("iops", ebs_iops, iops), ("throughput", ebs_throughput, throughput)):
        if of_ebs is not None and of_host is not None:
            raise BadRecordedLimits(f"give {name} for a host, or ebs_{name} for an EC2 instance, not both")
    return RecordedLimits(
        iops=_iops("iops", iops) if ebs_iops is None else _iops("ebs_iops", ebs_iops),
        throughput=_throughput("throughput", throughput)
        if ebs_throughput is None
        else _throughput("ebs_throughput", ebs_throughput),
        source=source.strip(),
        date=date,
        iops_baseline=_iops("ebs_baseline_iops", ebs_baseline_iops),
        throughput_baseline=_throughput("ebs_baseline_throughput", ebs_baseline_throughput),
        network=_throughput("network", network),
        network_baseline=_throughput("network_baseline", network_baseline),
    )


def _iops(name: str, value: float | Iops | None) -> Iops | None:
    if value is None or isinstance(value, Iops):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"invalid {name}={value!r}: expected a number of I/Os per second")
    return Iops(float(value))


def _throughput(name: str, value: str | Throughput | None) -> Throughput | None:
    if isinstance(value, (int, float)):
        unit = "Gbit/s" if name.startswith("network") else "MiB/s"
        raise TypeError(
            f"{name}={value!r} has no unit: write it as a text such as '{figure(float(value))} {unit}'"
        )
    if not isinstance(value, str):
        return value
    try:
        rate = parse_rate(value)
    except ValueError as error:
        raise BadRecordedLimits(f"{name}={value!r}: {error}") from None
    if not isinstance(rate, Throughput):
        raise BadRecordedLimits(f"{name}={value!r} is not a throughput: write one such as '1,085 MiB/s'")
    return rate
