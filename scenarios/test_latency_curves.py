"""The load at which latency rises, and the peak: i3.metal with 30 EBS volumes, and with its NVMe disks.

The published review (2018) ran VDBench on 12 % of each device and swept the load from zero to 120 % of the maximum. All
4K and database loads on EBS ended at about 64,000 IOPS, and 64K loads at 1,085 MiB/s: a limit of the instance, since
the 30 volumes together have 90,000 IOPS. i3.metal has higher limits today, so the test states those of 2018. The
latency at the peak is not a property of EBS: by Little's law it follows from the I/Os in flight.

The review states its threads for the four corners only; the others follow from Little's law. The parameters of its SQL,
Oracle and VDI loads were never published, so our mixes differ and have other names. On EBS the database mixes must end
at the same limit. For the VDI mixes only the kind of limit can be compared. Local disks have a different maximum for
every mix, so there only the four corners are compared with the review's figures.

An embedded region cannot show everything. Its latency below a limit is that of its machine, so "under 1 ms until" is
checked up to the limits, and "never under 1 ms" only on AWS. Its local disks are as fast as its machine, which every
such measurement notes.
"""

from dataclasses import dataclass

import pytest

from pytest_cloudbench import Iops, Outcome, gp2, recorded_limits

IN_2018 = recorded_limits(
    ebs_iops=64_000,
    ebs_throughput="1,085 MiB/s",
    source="a review of i3.metal under VDBench: the peaks of 30 EBS volumes",
    date="2018",
)
OWN_CEILING = "this machine's own ceiling"


@dataclass(frozen=True)
class Published:
    """One row of the review. ``under_1ms_until`` is the highest load in IOPS with latency under 1 ms; None if none."""

    mix: str
    threads: int
    under_1ms_until: int | None
    ebs_iops: int
    ebs_latency_s: float
    nvme_iops: int
    nvme_latency_s: float
    nvme_threads: int | None = None

    def __str__(self):
        return self.mix


FOUR_CORNERS = (
    Published("4k-random-read", 128, 60_000, 64_047, 59.46e-3, 2_802_904, 348e-6),
    Published("4k-random-write", 64, 60_000, 64_003, 29.97e-3, 920_975, 545e-6),
    Published("64k-sequential-read", 16, 7_000, 17_360, 27.65e-3, 244_037, 514e-6),
    Published("64k-sequential-write", 8, None, 17_359, 13.8e-3, 58_572, 1.08e-3),
)
DATABASES = (
    Published("sql-like", 32, 55_000, 64_036, 14.93e-3, 834_231, 302e-6),
    Published("sql-like-90-10", 32, 55_000, 64_036, 14.99e-3, 605_150, 415e-6),
    Published("sql-like-80-20", 32, 55_000, 64_036, 14.93e-3, 511_840, 493e-6),
    Published("oracle-like", 29, 55_000, 64_036, 13.6e-3, 457_372, 613e-6, nvme_threads=35),
    Published("oracle-like-90-10", 22, 55_000, 64_035, 10.3e-3, 520_448, 333e-6),
    Published("oracle-like-80-20", 22, 55_000, 64_036, 10.3e-3, 435_265, 400e-6),
)
DESKTOPS = (
    Published("vdi-boot", 16, 35_000, 42_893, 11.2e-3, 349_799, 363e-6),
    Published("vdi-initial-login", 8, 31_000, 34_486, 6.95e-3, 93_405, 677e-6),
    Published("vdi-monday-login", 16, 25_000, 34_643, 13.85e-3, 119_615, 1.1e-3),
)


def at_full_pace(rows):
    return [pytest.param(row, marks=pytest.mark.full_pace) for row in rows]


@pytest.mark.ec2_instance("i3.metal", limits=IN_2018)
@pytest.mark.ebs_volumes(gp2(size_gib=1_000), count=30)
@pytest.mark.parametrize(
    "row",
    [FOUR_CORNERS[0], *at_full_pace(FOUR_CORNERS[1:3]), FOUR_CORNERS[3], *at_full_pace(DATABASES)],
    ids=str,
)
def test_ebs_is_limited_by_the_instance(ec2_instance, ebs_volumes, sweep, row):
    curve = sweep(ebs_volumes, mix=row.mix, threads=row.threads)
    print(curve)
    sequential = row.mix.startswith("64k")
    assert curve.peak.capped_by(ec2_instance.ebs_throughput if sequential else ec2_instance.ebs_iops)
    assert curve.peak.iops == pytest.approx(row.ebs_iops, rel=0.05)
    assert curve.peak.latency.mean_s == pytest.approx(row.ebs_latency_s, rel=0.05)
    assert curve.peak.consistency.consistent
    if row.under_1ms_until is not None:
        assert curve.stays_below("1ms", until=row.under_1ms_until)
    elif not curve.envelope.machine:
        assert not curve.stays_below("1ms", until=curve.steps[0].asked)
    if not sequential:
        # The curve is flat almost up to the limit: the knee is the last step before the limit, or at it.
        assert curve.knee is not None
        assert curve.knee.iops.per_second == pytest.approx(curve.peak.iops, rel=0.15)
    assert not curve.stays_below("1ms", until=max(step.asked for step in curve.steps))


@pytest.mark.full_pace
@pytest.mark.ec2_instance("i3.metal", limits=IN_2018)
@pytest.mark.ebs_volumes(gp2(size_gib=1_000), count=30)
@pytest.mark.parametrize("row", DESKTOPS, ids=str)
def test_desktops_on_ebs_are_limited_by_the_instances_throughput(ec2_instance, ebs_volumes, sweep, row):
    curve = sweep(ebs_volumes, mix=row.mix, threads=row.threads)
    print(curve)
    assert curve.peak.capped_by(ec2_instance.ebs_throughput)
    assert curve.peak.consistency.consistent
    assert curve.stays_below("1ms", until=row.under_1ms_until)


@pytest.mark.ec2_instance("i3.metal")
@pytest.mark.parametrize(
    "row", [FOUR_CORNERS[0], *at_full_pace([*FOUR_CORNERS[1:], *DATABASES, *DESKTOPS])], ids=str
)
def test_nvme_reaches_the_published_figures_or_names_its_machine(instance_store, sweep, row):
    """On AWS the four corners reach the published peak and latency. Other mixes, and regions, show only the shape."""
    if instance_store.room() is None:
        # Blocks that were never written are answered without reading flash. Writing all takes about an hour.
        instance_store.initialised()
    curve = sweep(instance_store, mix=row.mix, threads=row.nvme_threads or row.threads)
    print(curve)
    assert curve.peak.consistency.consistent
    lightest = curve.steps[0]
    assert lightest.reached()
    assert lightest.latency.mean_s < curve.peak.latency.mean_s
    under_1ms = curve.stays_below("1ms", until=lightest.asked)
    if any(OWN_CEILING in condition for condition in curve.conditions):
        # The machine differs from the published one: a slower one violates no promise, and its latency proves none.
        assert under_1ms.outcome is not Outcome.VIOLATED
        assert curve.peak.reaches(Iops(row.nvme_iops)).outcome is not Outcome.VIOLATED
        return
    assert under_1ms
    if row in FOUR_CORNERS:
        assert curve.peak.reaches(Iops(row.nvme_iops))
        assert curve.peak.latency.mean_s == pytest.approx(row.nvme_latency_s, rel=0.2)
