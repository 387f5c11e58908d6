"""The token buckets with which EC2 limits the rate of requests, per account, region and action.

Source: Amazon EC2 Developer Guide, "Request throttling for the Amazon EC2 API", tables of request and resource token
buckets, read 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Rate(NamedTuple):
    """The capacity of a bucket, in tokens, and its refill per second."""

    capacity: float
    refill: float


NON_MUTATING = Rate(100, 20)
UNFILTERED = Rate(50, 10)
MUTATING = Rate(50, 5)  # also the rate of resource-intensive actions
_OWN = {
    "CreateSnapshot": Rate(100, 5),
    "CreateTags": Rate(100, 10),
    "CreateVolume": Rate(100, 5),
    "DeleteSnapshot": Rate(100, 5),
    "DeleteTags": Rate(100, 10),
    "DeleteVolume": Rate(100, 5),
    "ModifyInstanceMetadataOptions": Rate(100, 5),
    "RunInstances": Rate(5, 2),
    "StartInstances": Rate(5, 2),
    "TerminateInstances": Rate(100, 5),
}
_SMALLER_UNFILTERED = {
    "DescribeInstances",
    "DescribeInstanceStatus",
    "DescribeNetworkInterfaces",
    "DescribeSecurityGroups",
    "DescribeSnapshots",
    "DescribeSpotInstanceRequests",
    "DescribeVolumes",
}
_PER_INSTANCE = {
    "RunInstances": Rate(1000, 2),
    "StartInstances": Rate(1000, 2),
    "StopInstances": Rate(1000, 20),
    "TerminateInstances": Rate(1000, 20),
}
_NAMING = re.compile(r".+(Id|Name)(\.[0-9]+)?")


def request_rate(action: str, *, filtered: bool) -> Rate:
    """Return the rate of an action's bucket; some describe actions have a smaller one without filters, ids or pages."""
    if action in _OWN:
        return _OWN[action]
    if not reads(action):
        return MUTATING
    return UNFILTERED if action in _SMALLER_UNFILTERED and not filtered else NON_MUTATING


def reads(action: str) -> bool:
    """Return True for an action that changes nothing."""
    return action.startswith(("Describe", "Get", "List", "Search"))


def names_resources(form: Mapping[str, str]) -> bool:
    """Return True if a describe request names resources by id or by name."""
    return any(_NAMING.fullmatch(parameter) for parameter in form if not parameter.startswith("Filter."))


@dataclass
class _Bucket:
    rate: Rate
    level: float
    at: float

    def holds(self, tokens: float, now: float) -> bool:
        self.level = min(self.rate.capacity, self.level + (now - self.at) * self.rate.refill)
        self.at = now
        return self.level >= tokens


class TokenBuckets:
    """The buckets of one account and region, each with ``share`` of the documented rate. Callers hold a lock."""

    def __init__(self, share: float, now: Callable[[], float]) -> None:
        self._share = share
        self._now = now
        self._buckets: dict[str, _Bucket] = {}

    def take(self, action: str, *, filtered: bool, instances: int = 0) -> bool:
        """Take the tokens of one request, and of the instances that it names; return False if there are too few."""
        rate = request_rate(action, filtered=filtered)
        asked = [(f"{action} {rate is UNFILTERED}", rate, 1.0)]
        if instances and action in _PER_INSTANCE:
            asked.append((f"{action} instances", _PER_INSTANCE[action], float(instances)))
        buckets = [(self._bucket(name, rate), tokens) for name, rate, tokens in asked]
        now = self._now()
        if not all(bucket.holds(tokens, now) for bucket, tokens in buckets):
            return False
        for bucket, tokens in buckets:
            bucket.level -= tokens
        return True

    def _bucket(self, name: str, rate: Rate) -> _Bucket:
        if name not in self._buckets:
            own = Rate(max(1.0, rate.capacity * self._share), rate.refill * self._share)
            self._buckets[name] = _Bucket(own, own.capacity, self._now())
        return self._buckets[name]
