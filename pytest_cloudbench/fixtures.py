"""The fixtures. What they need is imported when the first of them is used."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cloudbench.evidence.live_line import live_line, wanted
from pytest_cloudbench.evidence.summary import CONDITION_PROPERTY, VERDICT_PROPERTY
from pytest_cloudbench.settings import setting

if TYPE_CHECKING:
    from pytest_cloudbench.cloud.access import CloudAccess
    from pytest_cloudbench.cloud.cloud import Cloud
    from pytest_cloudbench.topology.factory import Ec2
    from pytest_cloudbench.topology.instance import Instance
    from pytest_cloudbench.topology.markers import Wanted
    from pytest_cloudbench.topology.volumes import Volume, VolumeGroup
    from pytest_cloudbench.workloads.fio.progress import Progress
    from pytest_cloudbench.workloads.measurement import Measurement
    from pytest_cloudbench.workloads.target import Target

_WANTED: pytest.StashKey[Wanted] = pytest.StashKey()


@pytest.fixture(scope="session")
def _cloudbench_access(pytestconfig: pytest.Config) -> Iterator[CloudAccess]:
    """The region to use: AWS as configured, or the embedded one, started here unless it is kept."""
    from pytest_cloudbench.cloud.access import CloudAccess

    option = functools.partial(setting, pytestconfig)
    common: dict[str, Any] = {"address": option("address"), "subnet_id": option("subnet") or None}
    if option("cloud") == "aws":
        yield CloudAccess(
            region=option("region") or None, ssh_from_cidr=option("ssh-from") or None, label="AWS", **common
        )
        return
    from pytest_cloudbench import launcher

    backing = option("twin-backing")
    kept = None if backing else launcher.kept_region()
    leased = None if kept else launcher.start_leased_region(launcher.backed_by(backing))
    record = kept or leased.record  # type: ignore[union-attr]  # one of the two is there
    try:
        yield CloudAccess(
            endpoint_url=record.endpoint_url,
            region=record.region,
            access_key=record.access_key,
            secret_key=record.secret_key,
            ssh_from_cidr=record.ssh_from_cidr,
            label="embedded region",
            **common,
        )
    finally:
        if leased is not None:
            leased.close()


@pytest.fixture(scope="session")
def _cloudbench_cloud(_cloudbench_access: CloudAccess, pytestconfig: pytest.Config) -> Iterator[Cloud]:
    """The control plane of this run; everything it made is removed at the end."""
    from pytest_cloudbench.cloud.cloud import Cloud
    from pytest_cloudbench.cloud.journal import Journal, new_run_id
    from pytest_cloudbench.cloud.reap import reap

    for reaped in reap(_cloudbench_access):
        _say(pytestconfig, f"cloudbench {reaped}")
    run_id = new_run_id()
    with (
        _terminated_like_interrupted(),
        Cloud(_cloudbench_access, run_id, Journal.open(run_id, _cloudbench_access)) as cloud,
    ):
        yield cloud


def read_wanted(item: pytest.Item) -> None:
    """Read and check what a test's markers ask for; its fixtures find it in the item's stash."""
    from pytest_cloudbench.topology.markers import read_markers

    names = ("ec2_instance", "ebs_volume", "ebs_volumes")
    asked = read_markers({name: item.get_closest_marker(name) for name in names})
    asked.check()
    item.stash[_WANTED] = asked


@pytest.fixture
def _cloudbench_wanted(request: pytest.FixtureRequest) -> Wanted:
    item: pytest.Item = request.node
    if _WANTED not in item.stash:  # asked for by request.getfixturevalue: its name was not known before
        read_wanted(item)
    return item.stash[_WANTED]


@pytest.fixture
def ec2(
    _cloudbench_wanted: Wanted,
    _cloudbench_cloud: Cloud,
    pytestconfig: pytest.Config,
    request: pytest.FixtureRequest,
) -> Iterator[Ec2]:
    """A factory for any topology: ``ec2.launch(type)``, ``ec2.create_volume(spec, instance)``.

    What it made is removed when the test ends.
    """
    from pytest_cloudbench.topology.factory import Ec2

    option = functools.partial(setting, pytestconfig)
    factory = Ec2(
        _cloudbench_cloud,
        test_name=request.node.name,
        zone=option("zone") or None,
        image=option("image") or None,
        user=option("user") or None,
    )
    factory.check(_cloudbench_wanted)
    with contextlib.closing(factory):
        yield factory


@pytest.fixture
def ec2_instance(ec2: Ec2, _cloudbench_wanted: Wanted) -> Instance:
    """The EC2 instance that ``@pytest.mark.ec2_instance(type, ...)`` describes, running."""
    asked = _cloudbench_wanted.instance
    if asked is None:
        pytest.fail(
            "ec2_instance needs @pytest.mark.ec2_instance(type), such as 'c5.18xlarge'", pytrace=False
        )
    return ec2.launch(**{field.name: getattr(asked, field.name) for field in dataclasses.fields(asked)})


@pytest.fixture
def ebs_volume(ec2: Ec2, ec2_instance: Instance, _cloudbench_wanted: Wanted) -> Volume:
    """The EBS volume that ``@pytest.mark.ebs_volume(spec)`` describes, attached to ``ec2_instance``."""
    asked = _cloudbench_wanted.volume
    if asked is None:
        pytest.fail("ebs_volume needs @pytest.mark.ebs_volume(spec), such as gp3(size_gib=10)", pytrace=False)
    return ec2.create_volume(asked.spec, ec2_instance, zone=asked.zone)


@pytest.fixture
def ebs_volumes(ec2: Ec2, ec2_instance: Instance, _cloudbench_wanted: Wanted) -> VolumeGroup:
    """The EBS volumes that ``@pytest.mark.ebs_volumes(spec, count=N)`` describes, attached to ``ec2_instance``."""
    asked = _cloudbench_wanted.volumes
    if asked is None:
        pytest.fail("ebs_volumes needs @pytest.mark.ebs_volumes(spec, count=N)", pytrace=False)
    return ec2.create_volumes(asked.spec, ec2_instance, count=asked.count, zone=asked.zone)


@pytest.fixture
def fio(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> FioCall:
    """Run fio on a target's host: ``fio(target, rw="randread", bs="4k", ...)`` returns the measurement."""
    return FioCall(pytestconfig, request.node)


class FioCall:
    """The ``fio`` fixture's value: a call runs one fio job and returns its measurement."""

    def __init__(self, config: pytest.Config, item: pytest.Item) -> None:
        self._config = config
        self._item = item

    def __call__(self, target: Target, *, rw: str, bs: str | int = "4k", **options: Any) -> Measurement:
        """Run fio on ``target`` and return what it measured.

        Options are FioJob's (iodepth, numjobs, runtime and ramp_time in seconds, size, rwmixread, rate_iops
        and rate as totals ...) and any other of fio's own, checked before the run. Raises BadFioJob for what
        cannot be asked, FioRefused with fio's words for what it would not do.
        """
        from pytest_cloudbench.workloads.fio.job import FioJob
        from pytest_cloudbench.workloads.fio.run import run_fio
        from pytest_cloudbench.workloads.pace import Pace

        job = FioJob.of(rw, bs, **options)
        default_pace = "full" if setting(self._config, "cloud") == "aws" else "quick"
        pace = Pace.named(setting(self._config, "pace") or default_pace)
        shown = wanted(self._config, setting(self._config, "progress"))
        with live_line(self._config, shown=shown) as show:

            def on_progress(progress: Progress) -> None:
                left = f", {progress.eta_s:.0f} s left" if progress.eta_s is not None else ""
                show(f"fio {job.rw} {job.bs}: {progress}{left}")

            measurement = run_fio(target, job, pace=pace, on_progress=on_progress if shown else None)
        for condition in measurement.conditions:
            self._item.user_properties.append((CONDITION_PROPERTY, condition))
        return dataclasses.replace(measurement, on_verdict=self._keep)

    def _keep(self, verdict: object) -> None:
        self._item.user_properties.append((VERDICT_PROPERTY, str(verdict)))


def _say(config: pytest.Config, sentence: str) -> None:
    """Write a line of its own on the terminal, between tests."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
        reporter.write_line(sentence)


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """While a cloud is open, let SIGTERM end the run as Ctrl-C does: with everything removed."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    ):
        yield
        return

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt("SIGTERM")

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
