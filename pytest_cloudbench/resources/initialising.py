"""Which devices of a target are gone over from end to end, in which way, and what that must not destroy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.filesystems import Carrier
    from pytest_cloudbench.resources.disks import Disk
    from pytest_cloudbench.resources.instance import Instance
    from pytest_cloudbench.resources.stripes import Stripe
    from pytest_cloudbench.workloads.fio.data_pass import Initialisation, Way, Whole
    from pytest_cloudbench.workloads.target import Target

    class _Prepared(Target, Protocol):
        """A target of a test, which knows how work before a measurement is paced and shown."""

        instance: Instance


def initialise_disks(target: _Prepared, disks: Sequence[Disk], *, by: Way | None, overwrite: bool) -> None:
    """Go over every block of the disks that were not yet gone over, and take note of it on each."""
    from pytest_cloudbench.workloads.fio.data_pass import Whole

    fresh = [disk for disk in disks if disk.initialisation is None]
    ways: list[Way] = [_checked(by) or ("read" if disk.from_snapshot else "write") for disk in fresh]
    written = [disk for disk, way in zip(fresh, ways, strict=True) if way == "write"]
    for disk in written:
        disk.check_alone("initialised")
    _prove_free(target, [disk.device for disk in written], overwrite=overwrite)
    wholes = [Whole(disk.path, disk.size, way) for disk, way in zip(fresh, ways, strict=True)]
    if wholes:
        done = go_over(target, wholes)
        for disk in fresh:
            disk.initialisation = done


def initialise_array(stripe: Stripe, carrier: Carrier, *, by: Way | None, overwrite: bool) -> Initialisation:
    """Go over every block of a stripe that is a block device."""
    from pytest_cloudbench.workloads.fio.data_pass import Whole

    way: Way = _checked(by) or "write"
    if way == "write":
        _prove_free(stripe, [carrier], overwrite=overwrite)
    return go_over(stripe, [Whole(carrier.path, stripe.size, way)])


def go_over(target: _Prepared, wholes: Sequence[Whole]) -> Initialisation:
    """Read or write all of them at once, with the progress shown where that is wanted."""
    from pytest_cloudbench.workloads.fio.data_pass import initialise

    preparation = target.instance.preparation
    with preparation.live(f"initialising {target.label}") as show:
        return preparation.done("initialise", target, lambda: initialise(target, wholes, on_progress=show))


def _prove_free(target: _Prepared, carriers: Sequence[Carrier], *, overwrite: bool) -> None:
    from pytest_cloudbench.hosts.filesystems import refuse_overwriting

    host = target.instance.host
    for carrier in carriers:
        carrier.prove(host)
    if carriers and not overwrite:
        paths = [path for carrier in carriers for path in carrier.paths]
        refuse_overwriting(host, paths, "writing every block")


def _checked(by: Way | None) -> Way | None:
    from pytest_cloudbench.workloads.fio.errors import BadFioJob

    if by not in (None, "read", "write"):
        raise BadFioJob(f"by={by!r}: blocks are gone over by 'write' or by 'read'")
    return by
