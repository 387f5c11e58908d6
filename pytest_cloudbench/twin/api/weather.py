"""The weather of one region at work: its clock, its draws, and the faults of single calls.

Every draw depends on the seed, the effect, the action and the number of earlier draws of that kind, and never on the
clock. Only the token buckets and the lags follow the clock.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from pytest_cloudbench.limits.weather import Span, Weather, matches

from .objects import operation_of
from .refusal import Refusal, unauthorised
from .throttling import TokenBuckets, names_resources

# Amazon EC2 User Guide, "Spot Instance interruption notices": two minutes, read 2026-11.
SPOT_NOTICE_S = 120.0


class RegionWeather:
    """The weather over one region since its start. Thread-safe."""

    def __init__(self, settings: Weather, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()
        self._draws: Counter[tuple[str, str]] = Counter()
        self._buckets = TokenBuckets(settings.throttle, self.now)
        self._expiry = self.draw_span("expiry", "") or None

    def now(self) -> float:
        """Return the seconds since the region's start on the weather's clock, which runs at the weather's speed."""
        return (self._clock() - self._started) * self.settings.speed

    def draw(self, effect: str, key: str) -> float:
        """Return the next number in [0, 1) for an effect on ``key``, such as an action."""
        with self._lock:
            self._draws[effect, key] += 1
            count = self._draws[effect, key]
        text = f"{self.settings.seed} {effect} {key} {count}".encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big") / 2**56

    def draw_span(self, effect: str, key: str) -> float:
        """Return a duration for an effect that is a span, in seconds of the weather's clock; 0.0 if it is off."""
        span: Span = getattr(self.settings, effect)
        return span.least + (span.most - span.least) * self.draw(effect, key) if span.most else 0.0

    def delay(self, effect: str, key: str) -> float:
        """Return a duration for an effect that is a span, in seconds of the machine's clock; 0.0 if it is off."""
        return self.draw_span(effect, key) / self.settings.speed

    def _strikes(self, effect: str, action: str) -> bool:
        share: float = getattr(self.settings, effect)
        return bool(share) and self.draw(effect, action) < share

    def check_call(self, service: str, action: str, form: Mapping[str, str]) -> None:
        """Raise Refusal if the weather refuses a call before it is carried out."""
        if self._expiry is not None and self.now() > self._expiry:
            raise _expired(service)
        if service == "ec2":
            self._check_rate(action, form)
        if self._strikes("errors", action):
            raise _passing_error(self.draw("kind of error", action))
        if any(fnmatchcase(action, pattern) for pattern in self.settings.deny):
            raise unauthorised(action, service)

    def loses_answer(self, action: str) -> bool:
        """Return True if the answer to a call that was carried out never arrives."""
        return self._strikes("lost_answers", action)

    def _check_rate(self, action: str, form: Mapping[str, str]) -> None:
        if not self.settings.throttle:
            return
        paged = any(name.startswith(("Filter.", "MaxResults", "NextToken")) for name in form)
        instances = sum(name.startswith("InstanceId.") for name in form) or int(form.get("MinCount") or 0)
        with self._lock:
            admitted = self._buckets.take(
                action, filtered=paged or names_resources(form), instances=instances
            )
        if not admitted:
            raise Refusal("RequestLimitExceeded", "Request limit exceeded.", status=503)

    def check_launch(self, instance_type: str, zone: str, *, reserved: bool) -> None:
        """Raise Refusal if the weather refuses to launch this type in this zone; ``reserved`` capacity is available."""
        settings = self.settings
        if any(matches(pattern, instance_type, zone) for pattern in settings.unsupported):
            raise Refusal(
                "Unsupported",
                f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone "
                f"({zone}).",
            )
        if zone in settings.no_addresses:
            raise Refusal(
                "InsufficientFreeAddressesInSubnet",
                f"There are not enough free addresses in the subnet of {zone} to satisfy the requested number of "
                "instances.",
            )
        if not reserved and any(matches(pattern, instance_type, zone) for pattern in settings.no_capacity):
            # A server error of EC2, which SDKs retry: "(reached max retries: 4)".
            raise Refusal(
                "InsufficientInstanceCapacity",
                f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested "
                f"({zone}). Our system will be working on provisioning additional capacity.",
                status=500,
            )

    def lacks_capacity_later(self, instance_type: str, zone: str) -> bool:
        """Return True if a launch of this type in this zone is accepted, but lacks capacity while it is pending."""
        return any(matches(pattern, instance_type, zone) for pattern in self.settings.late_no_capacity)


def _passing_error(draw: float) -> Refusal:
    if draw < 0.5:
        return Refusal("InternalError", "An internal error has occurred", status=500)
    return Refusal("Unavailable", "The server is overloaded and can't handle the request", status=503)


def _expired(service: str) -> Refusal:
    if service == "ec2":
        return Refusal("RequestExpired", "Request has expired.")
    code = "ExpiredTokenException" if service == "ssm" else "ExpiredToken"
    message = "The security token included in the request is expired"
    return Refusal(code, message, status=400 if service == "ssm" else 403)


def action_of(service: str, request: Any) -> str:
    """Return the action that a request names: in its form, in the header of JSON services, or by S3's method."""
    if service == "s3":
        return operation_of(request.method, request.raw_path)
    named: str | None = request.form.get("Action")
    return named or str(request.headers.get("X-Amz-Target") or "").rpartition(".")[2]
