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

from pytest_cloudbench.create_files_call import CreateFilesCall
from pytest_cloudbench.settings import modelled_latency, setting, time_compression
from pytest_cloudbench.sweep_call import SweepCall
from pytest_cloudbench.workload_calls import CHECK_REGION, FioCall, Iperf3Call, Preparing

if TYPE_CHECKING:
    from pytest_cloudbench.cloud.access import CloudAccess
    from pytest_cloudbench.cloud.cloud import Cloud
    from pytest_cloudbench.topology.factory import Ec2
    from pytest_cloudbench.topology.instance import Instance
    from pytest_cloudbench.topology.instance_store import InstanceStore
    from pytest_cloudbench.topology.markers import Wanted
    from pytest_cloudbench.topology.pair import Pair
    from pytest_cloudbench.topology.volumes import Volume, VolumeGroup

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

    backing, factor = option("twin-backing"), time_compression(pytestconfig)
    latency = modelled_latency(pytestconfig)
    kept = None if backing else launcher.kept_region_with(factor, latency)
    arguments = [
        *launcher.backed_by(backing),
        *launcher.time_compressed(factor),
        *launcher.with_latency(latency),
    ]
    leased = None if kept else launcher.start_leased_region(arguments)
    record = kept or leased.record  # type: ignore[union-attr]  # one of the two is there
    check = leased.check if leased is not None else functools.partial(launcher.check_kept, record)
    pytestconfig.stash[CHECK_REGION] = check
    try:
        yield CloudAccess(
            endpoint_url=record.endpoint_url,
            region=record.region,
            access_key=record.access_key,
            secret_key=record.secret_key,
            ssh_from_cidr=record.ssh_from_cidr,
            label="embedded region",
            check_region=check,
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

    names = ("ec2_instance", "ec2_pair", "ebs_volume", "ebs_volumes")
    asked = read_markers({name: item.get_closest_marker(name) for name in names})
    if "instance_store" in getattr(item, "fixturenames", ()):
        asked = dataclasses.replace(asked, instance_store=True)
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
    pytestconfig: pytest.Config,
    request: pytest.FixtureRequest,
) -> Iterator[Ec2]:
    """A factory for any topology: ``ec2.launch(type)``, ``ec2.create_volume(spec, instance)``.

    What it made is removed when the test ends.
    """
    from pytest_cloudbench.keeping.keeper import keeper_of
    from pytest_cloudbench.topology.factory import Ec2

    option = functools.partial(setting, pytestconfig)
    # Asked for only when it is needed: a replay opens no region.
    cloud = keeper_of(pytestconfig).cloud(request.node, lambda: request.getfixturevalue("_cloudbench_cloud"))
    if (check_region := pytestconfig.stash.get(CHECK_REGION, None)) is not None:
        check_region()
    factory = Ec2(
        cloud,
        test_name=request.node.name,
        zone=option("zone") or None,
        image=option("image") or None,
        user=option("user") or None,
        preparation=Preparing(pytestconfig, request.node),
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
def ec2_pair(ec2: Ec2, _cloudbench_wanted: Wanted) -> Pair:
    """The client and the server that ``@pytest.mark.ec2_pair(client_type, ...)`` describes, running."""
    asked = _cloudbench_wanted.pair
    if asked is None:
        pytest.fail("ec2_pair needs @pytest.mark.ec2_pair(client_type), such as 'm5.2xlarge'", pytrace=False)
    return ec2.launch_pair(asked)


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
def instance_store(ec2_instance: Instance) -> InstanceStore:
    """The local NVMe disks of ``ec2_instance``: ``instance_store[0]`` is one, the whole is all side by side."""
    return ec2_instance.instance_store


@pytest.fixture
def fio(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> FioCall:
    """Run fio on a target's host: ``fio(target, rw="randread", bs="4k", ...)`` returns the measurement."""
    return FioCall(pytestconfig, request.node)


@pytest.fixture
def create_files(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> CreateFilesCall:
    """Create files on a mounted target: ``create_files(data, count=100_000, size="1m")`` returns the measurement."""
    return CreateFilesCall(pytestconfig, request.node)


@pytest.fixture
def sweep(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> SweepCall:
    """Sweep the load on a target: ``sweep(ebs_volumes, mix="4k-random-read", threads=128)`` returns the curve."""
    return SweepCall(pytestconfig, request.node)


@pytest.fixture
def iperf3(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Iperf3Call:
    """Run iperf3 between two instances: ``iperf3(ec2_pair, streams=5, duration=1800)`` returns the measurement."""
    return Iperf3Call(pytestconfig, request.node)


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
