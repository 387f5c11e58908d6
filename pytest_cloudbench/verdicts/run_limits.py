"""What other than a promise may have set a run's rate: its own limit, its generator, the machine underneath."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Bandwidth, Rate, Throughput
from pytest_cloudbench.verdicts import attribution as of_storage
from pytest_cloudbench.verdicts.attribution import MACHINE, Reason
from pytest_cloudbench.verdicts.burst_part import for_a_share
from pytest_cloudbench.verdicts.machine_delay import machine_text, machine_to_blame, on_region
from pytest_cloudbench.verdicts.network import attribution as of_network
from pytest_cloudbench.verdicts.network.observation import bitrate_asked, is_network, network_ceilings
from pytest_cloudbench.verdicts.observation import generator_load, rate_asked
from pytest_cloudbench.verdicts.steadiness import full_samples
from pytest_cloudbench.verdicts.targets import ratio
from pytest_cloudbench.verdicts.timeline import AnyObservation, as_storage

_SELF_LIMITED = 0.95


@dataclass(frozen=True)
class OtherLimit:
    """What held a run back besides any promise, in words, and whether it was the machine underneath."""

    text: str
    machine: bool = False


def on_embedded_region(obs: AnyObservation) -> bool:
    """Return True for a run on an embedded region."""
    return bool(network_ceilings(obs).machine) if is_network(obs) else on_region(as_storage(obs))


def region_machine(obs: AnyObservation) -> str | None:
    """Return the machine under the embedded region of a run, with its figures if known; None elsewhere."""
    if not on_embedded_region(obs):
        return None
    return MACHINE if is_network(obs) else machine_text(as_storage(obs))


def machines_part(obs: AnyObservation) -> str | None:
    """Return the machine under an embedded region, with its figures if known, if it may have set a rate; else None.

    Of storage its part is measured. A network's promised limits are exact there, so any other rate may be its doing.
    """
    blamed = is_network(obs) or machine_to_blame(as_storage(obs))
    return region_machine(obs) if blamed else None


def other_limit(obs: AnyObservation, measured: Rate) -> OtherLimit | None:
    """What besides a promise may have set this rate; None if nothing did."""
    own = _own_limit(obs, measured)
    if own is not None and ratio(measured, own) >= _SELF_LIMITED:
        return OtherLimit(f"its job limited its own load to {own}")
    if busy := saturated(obs):
        return OtherLimit(f"its load generator was the limit: {busy}", on_embedded_region(obs))
    if (machine := machines_part(obs)) and not at_a_promise(obs, measured):
        return OtherLimit(f"{machine} was its limit", True)
    return None


def why_below(obs: AnyObservation, measured: Rate, values: tuple[float, ...], asked: Rate) -> Reason:
    """Why a part of a run, its mean and its samples, lies below ``asked``.

    Of storage's throttle counters only what is certain of as many samples counts.
    """
    if is_network(obs):
        stretch = of_network.Stretch(_bits(measured), values)
        return of_network.why_short(obs, stretch, _bits(asked))
    storage = as_storage(obs)
    samples = len(full_samples(storage.series, measured))
    part = for_a_share(storage, min(1.0, len(values) / samples)) if samples else storage
    return of_storage.why_short(part, of_storage.rates_of(storage, measured), asked)


def _own_limit(obs: AnyObservation, like: Rate) -> Rate | None:
    if is_network(obs):
        return bitrate_asked(obs)
    storage = as_storage(obs)
    own = rate_asked(storage)
    return None if own is None else of_storage.as_quantity(own, like, storage)


def saturated(obs: AnyObservation) -> str | None:
    """A sentence when the load generator itself had no CPU left."""
    if is_network(obs):
        return of_network.saturated(obs)
    return of_storage.saturated(generator_load(as_storage(obs)))


def at_a_promise(obs: AnyObservation, measured: Rate) -> bool:
    """Whether a rate lies at a promised limit."""
    if is_network(obs):
        return bool(of_network.bounds(obs, _bits(measured)))
    storage = as_storage(obs)
    if storage.envelope is None:
        return False
    rates = of_storage.rates_of(storage, measured)
    return bool(of_storage.bounds(storage.envelope, rates, storage.counters))


def _bits(rate: Rate) -> Bandwidth:
    assert isinstance(rate, Throughput)
    return Bandwidth.of(rate)
