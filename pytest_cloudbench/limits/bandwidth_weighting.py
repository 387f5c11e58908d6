"""Bandwidth weighting: how a launch option moves bandwidth between the network and EBS of an instance.

Source: Amazon EC2 User Guide, "EC2 instance bandwidth weighting configuration", and Amazon EBS User Guide,
"Configurable instance bandwidth weighting", 2026-11. The baseline of the favoured side rises by 25 %. The baseline and
the burst of the other side fall by as much bandwidth. IOPS do not change. On Flex types up to 4xlarge no burst changes;
on larger ones the favoured burst rises by as much as its baseline.
"""

from __future__ import annotations

from typing import NamedTuple

from pytest_cloudbench.errors import RequestError
from pytest_cloudbench.limits.quantities import Throughput

DEFAULT = "default"
NETWORK_FIRST = "vpc-1"
EBS_FIRST = "ebs-1"
WEIGHTINGS = (DEFAULT, NETWORK_FIRST, EBS_FIRST)

SHARE = 0.25
"""The favoured baseline rises by this share of itself."""

_SMALL_FLEX_SIZES = frozenset({"large", "xlarge", "2xlarge", "4xlarge"})


class UnsupportedOption(RequestError, ValueError):
    """A launch option that the instance type does not support; the message says what it supports."""


class Span(NamedTuple):
    """The bandwidth of one side: for good, and while it bursts."""

    baseline: Throughput
    peak: Throughput


def weighted(favoured: Span, other: Span, type_name: str) -> tuple[Span, Span]:
    """Return both sides of an instance of this type after one of them was favoured."""
    moved = favoured.baseline * SHARE
    family, _, size = type_name.partition(".")
    raised = Span(favoured.baseline + moved, max(favoured.peak, favoured.baseline + moved))
    lowered = Span(other.baseline - moved, other.peak - moved)
    if family.endswith("-flex"):
        if size in _SMALL_FLEX_SIZES:
            lowered = lowered._replace(peak=other.peak)
        else:
            raised = raised._replace(peak=favoured.peak + moved)
    return raised, lowered
