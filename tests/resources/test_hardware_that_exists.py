"""Hardware that is there already, by markers and by the factory: what names it, and what is refused before any call."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_cloudbench import ExistingHardware, NotOffered, Size, gp2, gp3, recorded_limits
from pytest_cloudbench.hosts import content, devices
from pytest_cloudbench.hosts.device_facts import DeviceFacts
from pytest_cloudbench.hosts.devices import BlockDevice
from pytest_cloudbench.hosts.errors import NotOurs
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.resources import directory
from pytest_cloudbench.resources.ec2 import Ec2
from pytest_cloudbench.resources.facts import Attachment, CreatedVolume
from pytest_cloudbench.resources.instance import Instance
from pytest_cloudbench.resources.markers import BadMarker, read_markers
from pytest_cloudbench.resources.requested_existing import RequestedExisting
from pytest_cloudbench.resources.volumes import Volume
from pytest_cloudbench.workloads.target import reads_nothing

DB = "i-0123456789abcdef0"
RAW = "vol-0123456789abcdef0"


def markers(*marks: pytest.MarkDecorator) -> dict[str, pytest.Mark]:
    return {each.mark.name: each.mark for each in marks}


ec2_instance, ebs_volume = pytest.mark.ec2_instance, pytest.mark.ebs_volume


@pytest.mark.parametrize(
    ("mark", "default", "named"),
    [
        (ec2_instance(id=DB), None, RequestedExisting(DB)),
        (ec2_instance("m5.large", id=DB, user="admin"), None, RequestedExisting(DB)),
        (ec2_instance(tag={"role": "db"}), DB, RequestedExisting(tag={"role": "db"})),
        (
            ec2_instance(terraform="db_ids[0]", destructive=True),
            None,
            RequestedExisting(None, None, "db_ids[0]", True),
        ),
        (ec2_instance(), DB, RequestedExisting(DB)),
        (ec2_instance("m5.large", or_types=["m6i.large"]), DB, RequestedExisting(DB)),
        (ec2_instance(destructive=True), DB, RequestedExisting(DB, destructive=True)),
        (ec2_instance("m5.large"), None, None),
    ],
)
def test_a_marker_or_the_session_names_an_instance(mark, default, named):
    asked = read_markers(markers(mark), default)
    asked.check()
    assert asked.instance.existing == named
    assert asked.instances == (() if named else (asked.instance,))
    assert asked.existing == ((named,) if named else ())


def test_a_marker_names_a_volume_whose_instance_need_not_be_named():
    asked = read_markers(markers(ebs_volume(id=RAW, destructive=True)))
    asked.check()
    assert (asked.instance, asked.volume) == (None, None)
    assert asked.existing_volume == RequestedExisting(RAW, destructive=True)


@pytest.mark.parametrize(
    ("marks", "default", "said"),
    [
        ([ec2_instance()], None, "needs type, such as 'c5.18xlarge', or an existing instance by id="),
        (
            [ec2_instance("m5.large", destructive=True)],
            None,
            "by exactly one of id=, tag= and terraform=: none is",
        ),
        ([ec2_instance(id=DB, tag={"a": "b"})], None, "id and tag are given"),
        ([ec2_instance(id="i-12")], None, "'i-12' is not an id of an instance"),
        ([ec2_instance(id=RAW)], None, "is not an id of an instance"),
        ([ec2_instance(DB)], None, f"'{DB}' is not a type: name an existing instance by id="),
        ([ebs_volume(RAW)], None, f"'{RAW}' is not a spec: name an existing volume by id="),
        ([ec2_instance(tag={})], None, "tag must have keys and values"),
        ([ec2_instance(tag="role=db")], None, "tag must have keys and values"),
        ([ec2_instance(terraform="")], None, "terraform must be the name"),
        ([ec2_instance(id=DB, destructive="yes")], None, "destructive must be True or False"),
        ([ec2_instance(id=DB, zone="us-east-1a", spot=True)], None, "zone, spot cannot be chosen"),
        ([ec2_instance("m5.large", commands=["ls"])], DB, "commands cannot be chosen for the instance i-"),
        ([ebs_volume()], None, "needs spec, such as gp3"),
        ([ebs_volume(id="vol-1")], None, "'vol-1' is not an id of a volume"),
        ([ebs_volume(gp3(size_gib=1), id=RAW)], None, "spec cannot be chosen"),
        ([ebs_volume(destructive=True)], None, "by exactly one of id= and terraform=: none"),
        (
            [ec2_instance(id=DB), ebs_volume(gp3(size_gib=1))],
            None,
            "would be attached to the existing instance",
        ),
        ([ec2_instance("m5.large"), ebs_volume(gp3(size_gib=1))], DB, "would be attached to the existing"),
        (
            [ec2_instance("m5.large"), ebs_volume(id=RAW)],
            None,
            "never attached to an instance that the test launches",
        ),
    ],
)
def test_markers_that_cannot_be_used_are_refused(marks, default, said):
    with pytest.raises(BadMarker, match=said):
        read_markers(markers(*marks), default).check()


# On a host -----------------------------------------------------------------------------------------


def limits(**more: Any) -> InstanceLimits:
    entry = {
        "InstanceType": "m5d.large",
        "EbsInfo": {
            "NvmeSupport": "required",
            "EbsOptimizedSupport": "default",
            "EbsOptimizedInfo": {
                f"{which}{what}": figure
                for which in ("Baseline", "Maximum")
                for what, figure in (("Iops", 3600), ("ThroughputInMBps", 81.25), ("BandwidthInMbps", 650))
            },
        },
        **more,
    }
    return InstanceLimits.from_describe(entry, date="2026-11-01")


BURSTING = recorded_limits(ebs_iops=2_000, ebs_baseline_iops=1_000, source="our own measurement")
VOLUME = CreatedVolume(
    RAW,
    gp3(size_gib=4),
    "us-east-1a",
    Size.from_gib(4),
    "in-use",
    Attachment(RAW, DB, "/dev/sdf", "attached"),
    existing=True,
)


@dataclass
class Finder:
    """A provider that has one existing instance with one volume."""

    launched: Any
    calls: list[str] = field(default_factory=list)
    volume: CreatedVolume = VOLUME

    def find_instance(self, **named: Any) -> Any:
        self.calls.append(f"find {next(value for value in named.values() if value)}")
        return self.launched

    def find_volume(self, **named: Any) -> CreatedVolume:
        self.calls.append(f"find {named['id']}")
        return self.volume

    def refresh(self, instance: Any) -> Any:
        return instance

    def host(self, _instance: Any, *, connect_timeout_s: float) -> Any:
        self.calls.append(f"host within {connect_timeout_s:g} s")
        return SimpleNamespace(label="theirs", user="admin", connect=lambda: None, close=lambda: None)

    def release(self, resources: Any) -> None:
        self.calls.append(f"release {list(resources)}")


@pytest.fixture
def finder(launched_as) -> Finder:
    root = Attachment("vol-0aaaaaaaaaaaaaaaa", DB, "/dev/xvda", "attached")
    found = launched_as("m5.2xlarge", existing=True, limits=limits(), attachments=(root,))
    return Finder(replace(found, id=DB, attachments=(root, VOLUME.attachment)))


@pytest.fixture
def ec2(finder) -> Ec2:
    return Ec2(finder, test_name="test")


def test_existing_hardware_is_found_once_and_not_released(ec2, finder):
    volume = ec2.existing_volume(RAW)
    assert volume.instance is ec2.existing(DB)
    assert volume.instance.host.label == "theirs"
    ec2.close()
    assert finder.calls == [f"find {RAW}", f"find {DB}", f"find {DB}", "host within 30 s", "release []"]


def test_stated_limits_replace_those_of_the_type(ec2):
    stated = recorded_limits(ebs_iops=1_000, source="our own measurement")
    assert ec2.existing(DB, limits=stated).ebs_iops.limit == 1_000


def test_credits_of_existing_hardware_may_be_spent(ec2, finder):
    finder.launched = replace(finder.launched, limits=finder.launched.limits.with_recorded(BURSTING))
    finder.volume = replace(VOLUME, spec=gp2(size_gib=4))
    volume = ec2.existing_volume(RAW)
    assert volume.credits_unsure == "EBS burst credits and gp2 I/O credits may not be full"
    assert (
        "existing hardware: what else uses it is unknown; EBS burst credits may not be full"
        in volume.conditions
    )


def test_bare_metal_that_exists_has_booted(finder):
    finder.launched = replace(finder.launched, limits=limits(BareMetal=True))
    Ec2(finder, test_name="test").existing(DB).host.connect()
    assert "host within 30 s" in finder.calls


@pytest.fixture
def proven(monkeypatch) -> list[str]:
    """What was proven on the host, where the device is the volume; `carries` is what it contains."""
    done: list[str] = []
    monkeypatch.setattr(Volume, "device", property(lambda self: BlockDevice("/dev/nvme1n1", self.size, RAW)))
    monkeypatch.setattr(BlockDevice, "prove", lambda self, host, **how: done.append(f"prove {how}"))
    monkeypatch.setattr(content, "refuse_content", lambda host, paths: done.append(f"look into {paths}"))
    return done


def test_a_load_may_read_an_existing_volume_and_write_with_consent_only(ec2, proven):
    volume = ec2.existing_volume(RAW)
    volume.prove_readable()
    assert proven == ["prove {'only_read': True}"]
    with pytest.raises(NotOurs, match=f"{RAW} existed before this run.*destructive=True"):
        volume.prove_writable()
    assert ec2.existing_volume(RAW, destructive=True) is volume
    volume.prove_writable()
    assert proven[1:] == ["prove {}", "look into ['/dev/nvme1n1']"]


def test_writing_every_block_needs_the_same_consent(ec2, proven):
    volume = ec2.existing_volume(RAW)
    with pytest.raises(NotOurs, match="destructive=True"):
        volume.initialised(overwrite=True)


def test_the_consent_of_an_instance_is_for_its_local_disks(finder, proven, monkeypatch):
    store = {"Disks": [{"Count": 1, "SizeInGB": 75, "Type": "ssd"}], "NvmeSupport": "required"}
    finder.launched = replace(finder.launched, limits=limits(InstanceStorageInfo=store))
    disk = BlockDevice("/dev/nvme2n1", Size(75 * 10**9), serial="AWS123")
    monkeypatch.setattr(devices, "find_instance_store", lambda host, count: [disk])
    ec2 = Ec2(finder, test_name="test")
    local = ec2.existing(DB).instance_store
    assert local.never_written == local[0].never_written == ""
    with pytest.raises(NotOurs, match="instance store disk 1 of 1 existed before this run"):
        local.prove_writable()
    with pytest.raises(ExistingHardware, match="makes neither file systems nor stripes"):
        local[0].mounted()
    ec2.existing(DB, destructive=True)
    local.prove_writable()
    assert proven == ["prove {}", "look into ['/dev/nvme2n1']"]
    assert ec2.existing_volume(RAW).may_be_overwritten is False


def test_reads_of_its_raw_local_disks_say_that_they_may_not_be_written(finder, monkeypatch):
    store = {"Disks": [{"Count": 1, "SizeInGB": 75, "Type": "ssd"}], "NvmeSupport": "required"}
    finder.launched = replace(finder.launched, limits=limits(InstanceStorageInfo=store))
    disk = BlockDevice("/dev/nvme2n1", Size(75 * 10**9), serial="AWS123")
    monkeypatch.setattr(devices, "find_instance_store", lambda host, count: [disk])
    local = Ec2(finder, test_name="test").existing(DB).instance_store
    for target in (local, local[0]):
        reason, [condition] = reads_nothing(target, reads=True)
        assert reason == ""
        assert "written" in condition
        assert "initialised()" not in condition
        assert reads_nothing(target, reads=False) == ("", ())


def test_what_a_device_contains_is_named(monkeypatch):
    carried = {"/dev/a": content.Signature("LVM2_member"), "/dev/b": None}
    monkeypatch.setattr(content, "read_signatures", lambda host, paths: [carried[each] for each in paths])
    host = SimpleNamespace(label="theirs", perform=lambda name, arguments, run: run(), listener=None)
    with pytest.raises(
        NotOurs, match="on theirs, /dev/a carries an LVM physical volume: nothing is written to it"
    ):
        content.refuse_content.__wrapped__(host, ["/dev/a", "/dev/b"])


@pytest.mark.parametrize(
    ("disks", "answer", "found"),
    [
        (["vol0123456789abcdef0"], None, RAW),
        (["vol0123456789abcdef0", "vol0aaaaaaaaaaaaaaaa"], None, None),
        (["vol0ffffffffffffffff"], None, None),
        ([], None, None),
        (["vol0123456789abcdef0"], NotOffered("no"), None),
        (["vol0123456789abcdef0"], ExistingHardware("of an unknown type"), None),
    ],
)
def test_a_directory_has_the_limits_of_the_one_volume_it_lies_on(finder, monkeypatch, disks, answer, found):
    facts = [DeviceFacts(f"/dev/nvme{n}n1", f"259:{n}", 4 << 30, serial) for n, serial in enumerate(disks)]
    monkeypatch.setattr(directory, "disks_below", lambda host, path: facts)

    def find_volume(**named: Any) -> CreatedVolume:
        if answer is not None:
            raise answer
        return finder.volume

    monkeypatch.setattr(finder, "find_volume", find_volume)
    instance = Instance(finder, finder.launched, 30)
    lies_on = directory.storage_below(instance, "/data")
    assert (lies_on.id if lies_on is not None else None) == found
    assert instance.volumes == []


def test_a_host_without_volumes_is_not_asked(finder, launched_as):
    instance = Instance(finder, replace(launched_as("t2.medium"), attachments=()), 30)
    assert directory.storage_below(instance, "/data") is None
    assert finder.calls == []
