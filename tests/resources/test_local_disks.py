"""The instance store and restarts, on an instance whose host and service are modelled."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_cloudbench.hosts.devices import BlockDevice
from pytest_cloudbench.hosts.errors import DeviceNotFound, HostUnreachable
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Iops, Size
from pytest_cloudbench.resources.ec2 import Ec2
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.instance import Instance
from pytest_cloudbench.resources.instance_store import (
    InstanceStore,
    NoInstanceStore,
    NoStoreFigure,
    StoreLost,
)
from pytest_cloudbench.resources.markers import BadMarker, RequestedHardware, RequestedInstance
from pytest_cloudbench.resources.mounted import Mounted
from pytest_cloudbench.resources.restarts import NotRunning, boot_identity
from pytest_cloudbench.resources.storage_target import StorageInUse
from pytest_cloudbench.workloads.target import reads_nothing

K4 = Size(4096)
FIRST = datetime(2026, 11, 1, tzinfo=timezone.utc)


def limits(name: str = "i3.8xlarge", count: int = 4, nvme: str = "required") -> InstanceLimits:
    disks = [{"Count": count, "SizeInGB": 1900, "Type": "ssd"}] if count else []
    entry = {"InstanceType": name, "InstanceStorageInfo": {"Disks": disks, "NvmeSupport": nvme}}
    return InstanceLimits.from_describe(entry, date="2026-11-01")


class Service:
    """A provider of one instance, which it stops and starts on request."""

    def __init__(self, launched: Any) -> None:
        self.now = launched
        self.answers = True
        self.refusal: CloudError | None = None

    def refresh(self, _instance: Any) -> Any:
        if not self.answers:
            raise CloudError("the endpoint did not answer")
        return self.now

    def stop(self, _instance: Any, *, force: bool = False) -> Any:
        if self.refusal is not None:
            raise self.refusal
        self.now = replace(self.now, state="stopped", public_ip=None, address=None)
        return self.now

    def start(self, _instance: Any) -> Any:
        began = self.now.launched + timedelta(hours=1)
        self.now = replace(self.now, state="running", address="198.18.0.99", launched=began)
        return self.now

    def console_output(self, _instance: Any) -> str:
        return ""


class Host:
    """A connected host that notes expected reboots."""

    label = "host"
    address = "198.18.0.1"

    def __init__(self) -> None:
        self.boots = self.connects = 0
        self.away = False

    def expect_reboot(self) -> None:
        self.boots += 1

    def connect(self, timeout_s: float | None = None) -> None:
        self.connects += 1
        if self.away:
            raise HostUnreachable("it is away")

    def run(self, argv: list[str], **_: Any) -> Any:
        return SimpleNamespace(stdout=f"boot-id\n1 (a (b) c) S {' '.join(str(n) for n in range(1, 40))}\n")


class Disks:
    """The local disks that a host shows: their number, and which generation of them."""

    def __init__(self, count: int = 4) -> None:
        self.count = count
        self.generation = "A"
        self.names = list(range(count))
        self.size = Size(1_900_000_000_000)

    def find(self, _host: Any, count: int) -> list[BlockDevice]:
        assert count == self.count
        return [
            BlockDevice(f"/dev/nvme{name}n1", self.size, serial=f"AWS{self.generation}{number}")
            for number, name in enumerate(self.names)
        ]


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Disks:
    shown = Disks()
    monkeypatch.setattr("pytest_cloudbench.hosts.devices.find_instance_store", shown.find)
    return shown


@pytest.fixture
def service(launched_as: Any) -> Service:
    return Service(replace(launched_as("c5.18xlarge"), type="i3.8xlarge", limits=limits(), launched=FIRST))


@pytest.fixture
def instance(service: Service) -> Instance:
    made = Instance(service, service.now, 1.0)  # type: ignore[arg-type]
    made._host = Host()  # type: ignore[assignment]
    return made


def mounted(disk: Any) -> Mounted:
    filesystem = SimpleNamespace(filesystem="xfs", path="/data", owner="admin", device=disk.device)
    disk._mounted = Mounted(disk, filesystem)  # type: ignore[arg-type]
    return disk._mounted


def test_disks_alone_and_together_have_their_shares(instance: Instance, disks: Disks) -> None:
    store = instance.instance_store
    assert store is instance.instance_store
    assert [disk.path for disk in store] == [f"/dev/nvme{number}n1" for number in range(4)]
    assert store.size == Size(4 * 1_900_000_000_000)
    assert store.read_iops.limit == Iops(1_650_000)
    assert store[1].write_iops.limit == Iops(180_000)
    assert store[1].read_iops.label == "i3.8xlarge disk 2 of 4 NVMe random read IOPS"
    assert store.envelope(K4, sequential=False).of_mix(0).limit_iops == Iops(720_000)
    assert store.counters() is None
    assert store.conditions == ()
    for name in ("iops", "throughput"):
        with pytest.raises(NoStoreFigure):
            getattr(store, name)


def test_disks_limited_by_the_machine_only_say_so(instance: Instance, service: Service, disks: Disks) -> None:
    service.now = replace(service.now, tags={"aws:cloudbench:instance-store": "unlimited"})
    store = instance.instance_store
    assert store[0].conditions == (
        "instance store limited by this machine's own ceiling only (i3.8xlarge is published with 1,650,000 read and "
        "720,000 write IOPS)",
    )
    assert store.conditions == store[0].conditions


@pytest.mark.parametrize(("held", "latency"), [("limited", "ebs"), ("unlimited", "none")])
def test_latency_is_modelled_only_if_the_published_figures_limit_the_disks(
    instance: Instance, service: Service, disks: Disks, held: str, latency: str
) -> None:
    tags = {"aws:cloudbench:instance-store": held, "aws:cloudbench:latency": "ebs"}
    instance._launched = service.now = replace(service.now, tags=tags)
    store = instance.instance_store
    assert store.modelled_latency == store[0].modelled_latency == latency
    assert store.conditions[0].startswith("storage latency modelled") == (latency == "ebs")


def test_a_type_without_figures_has_no_ceiling(instance: Instance, service: Service, disks: Disks) -> None:
    instance._launched = service.now = replace(service.now, type="z1d.large")
    with pytest.raises(NoStoreFigure, match=r"z1d\.large are known"):
        _ = instance.instance_store.read_iops
    assert instance.instance_store.envelope(K4, sequential=False).ceilings == ()


def test_disks_that_are_not_as_described(instance: Instance, disks: Disks) -> None:
    disks.size = Size(1_700_000_000_000)
    with pytest.raises(DeviceNotFound, match=r"1,700,000,000,000 bytes, DescribeInstanceTypes says 1,900 GB"):
        _ = instance.instance_store


@pytest.mark.parametrize(
    ("has", "words"),
    [(limits("m5.large", 0), "m5.large has no instance store"), (limits(nvme="unsupported"), "not NVMe")],
)
def test_a_type_without_a_store_is_refused_before_anything_is_created(
    has: InstanceLimits, words: str
) -> None:
    cloud = SimpleNamespace(limits=lambda name: has)
    factory = Ec2(cloud, test_name="test_it")  # type: ignore[arg-type]
    with pytest.raises(NoInstanceStore, match=words):
        factory.check(RequestedHardware(RequestedInstance(has.name), instance_store=True))
    with pytest.raises(BadMarker, match=r"add @pytest\.mark\.ec2_instance"):
        RequestedHardware(instance_store=True).check()


def test_after_a_reboot_disks_are_found_under_other_names(instance: Instance, disks: Disks) -> None:
    store = instance.instance_store
    data = mounted(store[0])
    disks.names = [3, 2, 1, 0]
    store.look_again()
    assert store[0].path == "/dev/nvme3n1"
    assert store[0].device.serial == "AWSA0"
    with pytest.raises(StorageInUse, match="is no longer mounted on /data"):
        data.prove_writable()


def test_a_stop_loses_the_store_and_a_start_finds_a_new_one(
    instance: Instance, service: Service, disks: Disks
) -> None:
    store = instance.instance_store
    host = instance.host
    data = mounted(store[0])
    store[0].initialisation = SimpleNamespace()  # type: ignore[assignment]
    instance.stop()
    assert host.boots == 1  # type: ignore[attr-defined]
    with pytest.raises(NotRunning, match=r"is stopped: nothing runs on it until start\(\)"):
        _ = store.host
    with pytest.raises(StorageInUse, match="was stopped since"):
        data.prove_writable()
    with pytest.raises(NotRunning, match="is stopped already"):
        instance.stop()
    disks.generation = "B"
    instance.start()
    assert instance.host is host
    assert host.address == "198.18.0.99"  # the public one is another after a stop
    assert store[0].device.serial == "AWSB0"
    assert store[0].initialisation is None
    with pytest.raises(NotRunning, match="is not stopped"):
        instance.start()


def test_a_refused_stop_changes_nothing(instance: Instance, service: Service, disks: Disks) -> None:
    data = mounted(instance.instance_store[0])
    service.refusal = CloudError("it may not be stopped", code="OperationNotPermitted")
    with pytest.raises(CloudError, match="may not be stopped"):
        instance.stop()
    assert data.ended is None
    service.refusal = CloudError("the endpoint did not answer")
    with pytest.raises(CloudError, match="did not answer"):
        instance.stop()
    assert data.ended is not None


def test_a_stop_from_outside_is_noticed_before_load_is_run(
    instance: Instance, service: Service, disks: Disks
) -> None:
    store = instance.instance_store
    data = mounted(store[0])
    service.answers = False
    assert len(store.paths) == 4  # an API that does not answer proves nothing
    service.answers = True
    service.stop(None)
    with pytest.raises(NotRunning, match="is 'stopped', but not by this test"):
        _ = store.paths
    service.start(None)
    disks.generation = "B"
    with pytest.raises(StoreLost, match=r"was stopped and started from outside .* new and empty"):
        _ = store.paths
    with pytest.raises(StorageInUse, match="the data on its instance store is lost"):
        data.prove_writable()
    assert store[0].device.serial == "AWSB0"


def test_a_single_disk_that_is_only_read_is_lost_as_well(
    instance: Instance, service: Service, disks: Disks
) -> None:
    disk = instance.instance_store[0]
    assert disk.paths == ("/dev/nvme0n1",)
    service.stop(None)
    service.start(None)
    disks.generation = "B"
    with pytest.raises(StoreLost, match=r"was stopped and started from outside .* new and empty"):
        _ = disk.paths
    assert disk.paths == ("/dev/nvme0n1",)
    assert disk.device.serial == "AWSB0"


def test_replaced_disks_are_noticed(instance: Instance, disks: Disks) -> None:
    store = InstanceStore(instance)
    store.look_again()
    disks.generation = "B"
    with pytest.raises(StoreLost, match="AWSA0, AWSA1, AWSA2, AWSA3 of the instance store"):
        _ = store[0].path


def test_a_boot_is_identified_by_the_kernel_and_by_process_1() -> None:
    assert boot_identity(Host()) == "boot-id 19"  # type: ignore[arg-type]


def test_reads_of_raw_disks_measure_nothing_until_they_were_written(
    instance: Instance, service: Service, disks: Disks
) -> None:
    store = instance.instance_store
    for target in (store, store[0]):
        assert "initialised()" in target.never_written
        assert reads_nothing(target, reads=True) == (target.never_written, ())
        assert reads_nothing(target, reads=False) == ("", ())
    assert mounted(store[0]).never_written == ""
    for disk in store:
        disk.initialisation = cast(Any, object())
    assert store.never_written == store[0].never_written == ""
    instance.stop()
    instance.start()
    assert store.never_written, "a stop replaces the disks"


def test_a_region_that_models_the_disks_serves_such_reads_as_any_other(
    instance: Instance, service: Service, disks: Disks
) -> None:
    tags = {"aws:cloudbench:instance-store": "limited", "aws:cloudbench:latency": "ebs"}
    instance._launched = service.now = replace(service.now, tags=tags)
    reason, (condition,) = reads_nothing(instance.instance_store, reads=True)
    assert reason == ""
    assert "on AWS inconclusive" in condition
