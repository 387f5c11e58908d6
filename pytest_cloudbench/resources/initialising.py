"""Initialising disks: reading or writing every block, without destroying what is not ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pytest_cloudbench.hosts.content import refuse_overwriting
from pytest_cloudbench.hosts.filesystems import Carrier
from pytest_cloudbench.resources.disks import Disk, check_content_of
from pytest_cloudbench.resources.instance import Instance
from pytest_cloudbench.resources.stripes import Stripe
from pytest_cloudbench.workloads.fio import data_pass
from pytest_cloudbench.workloads.fio.data_pass import Initialisation, Way, Whole
from pytest_cloudbench.workloads.fio.errors import BadFioJob
from pytest_cloudbench.workloads.target import Target


class _Prepared(Target, Protocol):
    """A target of a test, with the test's preparation."""

    instance: Instance


def initialise_disks(target: _Prepared, disks: Sequence[Disk], *, by: Way | None, overwrite: bool) -> None:
    """Read or write every block of those disks that are not initialised, and note it on each."""
    fresh = [disk for disk in disks if disk.initialisation is None]
    ways: list[Way] = [_checked(by) or ("read" if disk.from_snapshot else "write") for disk in fresh]
    written = [disk for disk, way in zip(fresh, ways, strict=True) if way == "write"]
    for disk in written:
        disk.check_alone("initialised")
        if disk.existing:
            disk.prove_writable()
    _prove_free(target, [disk.device for disk in written], overwrite=overwrite)
    wholes = [Whole(disk.path, disk.size, way) for disk, way in zip(fresh, ways, strict=True)]
    if wholes:
        done = initialise_all(target, wholes, lambda: _check_data(written, overwrite=overwrite))
        for disk in fresh:
            disk.initialisation = done


def initialise_array(stripe: Stripe, carrier: Carrier, *, by: Way | None, overwrite: bool) -> Initialisation:
    """Read or write every block of a stripe that is a block device."""
    way: Way = _checked(by) or "write"
    if way == "write":
        _prove_free(stripe, [carrier], overwrite=overwrite)
    return initialise_all(stripe, [Whole(carrier.path, stripe.size, way)])


def _check_data(written: Sequence[Disk], *, overwrite: bool) -> None:
    """Raise WouldDestroy for data on disks that were there before the run; the others were checked before."""
    if there := [disk for disk in written if disk.existing]:
        check_content_of(there, overwrite=overwrite)


def initialise_all(
    target: _Prepared, wholes: Sequence[Whole], check: Callable[[], None] = lambda: None
) -> Initialisation:
    """Read or write all of them at once after a last ``check``, and show the progress."""

    def run() -> Initialisation:
        check()
        return data_pass.initialise(target, wholes, on_progress=show)

    preparation = target.instance.preparation
    with preparation.live(f"initialising {target.label}") as show:
        return preparation.done("initialise", target, run)


def _prove_free(target: _Prepared, carriers: Sequence[Carrier], *, overwrite: bool) -> None:
    host = target.instance.host
    for carrier in carriers:
        carrier.prove(host)
    if carriers and not overwrite:
        paths = [path for carrier in carriers for path in carrier.paths]
        refuse_overwriting(host, paths, "writing every block")


def _checked(by: Way | None) -> Way | None:
    if by not in (None, "read", "write"):
        raise BadFioJob(f"invalid by={by!r}: use 'write' or 'read'")
    return by
