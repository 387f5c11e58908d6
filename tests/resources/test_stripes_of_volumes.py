"""Striped volumes on a modelled host: by md, or by btrfs if the host has no md."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

# The model lives with the tests of the hosts room.
sys.path.insert(0, str(Path(__file__).parent.parent / "hosts"))

from modelled_host import ModelledHost

from pytest_cloudbench.hosts.errors import DeviceNotFound, FilesystemError, NotOurs, StripeError
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.limits.volumes import gp3
from pytest_cloudbench.resources.errors import ZoneMismatch
from pytest_cloudbench.resources.facts import Attachment, CreatedVolume
from pytest_cloudbench.resources.preparation import Preparation
from pytest_cloudbench.resources.storage_target import StorageInUse
from pytest_cloudbench.resources.volumes import Volume, VolumeGroup
from pytest_cloudbench.workloads.fio.data_pass import Initialisation, Prefilled
from pytest_cloudbench.workloads.fio.progress import Progress
from pytest_cloudbench.workloads.pace import Pace

_LIMITS = InstanceLimits.from_describe(
    {
        "InstanceType": "t.test",
        "EbsInfo": {
            "EbsOptimizedInfo": {
                "BaselineBandwidthInMbps": 4_000,
                "BaselineThroughputInMBps": 500.0,
                "BaselineIops": 20_000,
                "MaximumBandwidthInMbps": 4_000,
                "MaximumThroughputInMBps": 500.0,
                "MaximumIops": 20_000,
            }
        },
    },
    date="2026-11-01",
)
_LETTERS = "fghijklm"


class _Instance(SimpleNamespace):
    """An instance on a modelled host; `attach` and `detach` are the control plane's."""

    def __repr__(self) -> str:
        return f"<t.test {self.id} in {self.zone}>"

    def run(self, argv: list[str]) -> Any:
        return self.host.run(argv)

    def detach(self, volume: Volume) -> CreatedVolume:
        self.volumes.remove(volume)
        return CreatedVolume(volume.id, volume.spec, volume.created.zone, volume.size, "available")

    def attach(self, volume: Volume) -> CreatedVolume:
        if volume.created.zone != self.zone:
            raise ZoneMismatch(f"{volume.created.zone} is not {self.zone}")
        self.volumes.append(volume)
        letter = _LETTERS[len(self.host.devices)]
        self.host.add(f"/dev/xvd{letter}", volume.size.bytes)
        return _created(int(volume.id[-2:], 16), volume.size, self, letter)


def _created(number: int, size: Size, instance: _Instance, letter: str) -> CreatedVolume:
    volume_id = f"vol-0123456789abcde{number:02x}"
    return CreatedVolume(
        volume_id,
        gp3(size_gib=int(size.bytes >> 30)),
        instance.zone,
        size,
        "in-use",
        Attachment(volume_id, instance.id, f"/dev/xvd{letter}", "attached"),
    )


def _instance(number: int = 1, zone: str = "us-east-1a") -> _Instance:
    return _Instance(
        id=f"i-{number}",
        type="t.test",
        zone=zone,
        limits=_LIMITS,
        launched=SimpleNamespace(login_user="admin", data_in_folder=False, conditions=()),
        host=ModelledHost(label=f"host {number}"),
        machine_limits=lambda: None,
        preparation=Preparation(),
        time_compression=1.0,
        modelled_latency=None,
        volumes=[],
    )


def _volume(instance: _Instance, number: int, size_gib: int = 100) -> Volume:
    letter = _LETTERS[number]
    size = Size.from_gib(size_gib)
    instance.host.add(f"/dev/xvd{letter}", size.bytes)
    volume = Volume(instance, _created(number, size, instance, letter))  # type: ignore[arg-type]
    volume._device = None
    instance.volumes.append(volume)
    return volume


@pytest.fixture
def instance() -> _Instance:
    return _instance()


@pytest.fixture
def volumes(instance: _Instance) -> VolumeGroup:
    return VolumeGroup([_volume(instance, number) for number in range(3)])


def test_a_stripe_by_md_is_a_block_device_with_the_sum_of_all_limits(volumes: VolumeGroup) -> None:
    stripe = volumes.striped(chunk="256k")
    assert (stripe.kind, stripe.path, stripe.paths) == ("block", "/dev/md127", ("/dev/md127",))
    assert stripe.label == "md RAID 0 of 3 x gp3 100 GiB/3,000 IOPS/125 MiB/s"
    assert stripe.conditions == ("striped by md, chunk 256 KiB",)
    assert str(stripe.iops.limit) == "9,000 IOPS"
    assert str(stripe.throughput.limit) == "375 MiB/s"
    assert stripe.data_of_device is None
    assert 0 < Size.from_gib(300).bytes - stripe.size.bytes < 16 << 20, "superblocks take a little"
    envelope = stripe.envelope(Size(4096), sequential=False)
    assert {ceiling.label for ceiling in envelope.ceilings} == {
        "3 gp3 volumes IOPS",
        "3 gp3 volumes throughput",
        "t.test EBS IOPS",
        "t.test EBS throughput",
    }
    stripe.prove_writable()


@pytest.mark.parametrize(
    ("chunk", "block", "sequential", "iops"),
    [
        ("64k", 64 << 10, False, 9_000),
        ("64k", 128 << 10, False, 4_500),
        ("64k", 256 << 10, False, 2_250),
        ("256k", 256 << 10, False, 9_000),
        ("1m", 256 << 10, False, 9_000),
        ("1m", 1 << 20, False, 2_250),
        ("64k", 256 << 10, True, 9_000),
    ],
)
def test_random_io_larger_than_a_chunk_counts_on_several_volumes(
    volumes: VolumeGroup, chunk: str, block: int, sequential: bool, iops: float
) -> None:
    stripe = volumes.striped(chunk)
    envelope = stripe.envelope(Size(block), sequential=sequential)
    assert envelope.iops_of(stripe.iops).per_second == iops


def test_a_member_is_not_used_by_itself(volumes: VolumeGroup) -> None:
    stripe = volumes.striped()
    for use in (
        volumes[0].mounted,
        volumes[0].prove_writable,
        volumes[0].prove_readable,
        volumes[0].initialised,
        volumes[0].detach,
        volumes.striped,
        volumes.prove_writable,
        volumes.prove_readable,
    ):
        with pytest.raises(
            StorageInUse, match=r"is part of md RAID 0 of 3 x .*: dissolve\(\) the stripe first"
        ):
            use()
    stripe.dissolve()
    volumes.prove_writable()
    volumes.prove_readable()
    assert repr(stripe) == "<dissolved stripe of 3 x gp3 100 GiB/3,000 IOPS/125 MiB/s on t.test>"
    with pytest.raises(StorageInUse, match="was dissolved"):
        _ = stripe.path
    assert volumes[0].mounted("ext4").label.startswith("ext4 on gp3 100 GiB")


def test_a_stripe_by_md_takes_any_file_system(volumes: VolumeGroup, instance: _Instance) -> None:
    stripe = volumes.striped()
    data = stripe.mounted("xfs", at="/data")
    assert (data.kind, data.path) == ("directory", "/data")
    assert data.label == "xfs on md RAID 0 of 3 x gp3 100 GiB/3,000 IOPS/125 MiB/s"
    assert data.conditions == stripe.conditions
    assert data.envelope(Size(1 << 20), sequential=False).io_unit == Size(64 << 10)
    assert stripe.mounted("xfs", at="/data") is data
    for prove in (stripe.prove_writable, stripe.prove_readable):
        with pytest.raises(NotOurs, match="is mounted on /data"):
            prove()
    data.unmount()
    with pytest.raises(FilesystemError, match="carries xfs, made in this run"):
        stripe.mounted("ext4")
    stripe.mounted("ext4", overwrite=True)
    stripe.dissolve()
    assert instance.host.mounts == {}
    assert all(device.signature is None for device in instance.host.devices.values())


def test_without_md_btrfs_stripes_into_a_directory(volumes: VolumeGroup, instance: _Instance) -> None:
    instance.host.able = ("btrfs",)
    stripe = volumes.striped(chunk="256k")
    assert stripe.kind == "directory"
    assert stripe.path.startswith("/mnt/cloudbench-")
    assert stripe.label == "btrfs raid0 of 3 x gp3 100 GiB/3,000 IOPS/125 MiB/s"
    assert stripe.conditions == (
        "striped by btrfs, chunk 64 KiB (no md and no LVM: its root may not make device nodes)",
        "chunk 64 KiB in place of 256 KiB: btrfs has no other",
    )
    assert stripe.chunk == Size(64 << 10)
    assert stripe.data_of_device == Size(512 << 20)
    stripe.prove_writable()
    data = stripe.mounted("xfs", at="/data", owner="postgres")
    assert stripe.path == data.path == "/data"
    assert data.label == stripe.label
    assert "btrfs in place of xfs: this host stripes by btrfs only" in data.conditions
    assert any("nodatacow" in sentence for sentence in data.conditions)
    assert list(instance.host.mounts) == ["/data"]
    data.unmount()
    with pytest.raises(StorageInUse, match=r"is not mounted: call mounted\(\) first"):
        stripe.prove_writable()
    stripe.dissolve()
    assert all(device.signature is None for device in instance.host.devices.values())


@pytest.mark.parametrize("assembled", ["by udev", "by nobody"])
def test_a_stripe_by_md_is_found_again_under_another_name(
    volumes: VolumeGroup, instance: _Instance, assembled: str
) -> None:
    stripe = volumes.striped()
    stripe.mounted("xfs", at="/data").unmount()
    instance.host.restart(assembled_as="md3" if assembled == "by udev" else None)
    with pytest.raises(DeviceNotFound, match="/dev/md127 does not exist"):
        stripe.prove_writable()
    stripe.look_again()
    assert stripe.path == ("/dev/md3" if assembled == "by udev" else "/dev/md126")
    stripe.prove_writable()
    assert stripe.mounted("xfs", at="/data").mount.reused


def test_a_stripe_by_lvm_is_found_again(volumes: VolumeGroup, instance: _Instance) -> None:
    instance.host.able = ("nodes", "LVM")
    stripe = volumes.striped()
    assert stripe.label.startswith("LVM stripe of 3 x")
    stripe.look_again()
    assert stripe.path == "/dev/dm-0"
    instance.host.failing["vgchange"] = "Volume group not found"
    with pytest.raises(StripeError, match=r"the volume group cloudbench-.* .*not found"):
        stripe.look_again()


def test_a_stripe_that_cannot_be_mounted_leaves_no_trace(
    volumes: VolumeGroup, instance: _Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.host.able = ("btrfs",)

    def refuse(*_: object) -> None:
        raise FilesystemError("no mount today")

    monkeypatch.setattr(instance.host, "_mount", refuse)
    with pytest.raises(FilesystemError, match="no mount today"):
        volumes.striped()
    assert all(volume.stripe is None for volume in volumes)
    assert all(device.signature is None for device in instance.host.devices.values())


def test_a_volume_that_is_slow_at_first_says_so_until_it_is_initialised(
    instance: _Instance, volumes: VolumeGroup
) -> None:
    for volume in volumes:
        volume.created = replace(volume.created, spec=gp3(size_gib=100, first_touch=0.5))
    sentence = (
        "not initialised: on an embedded region, blocks that were never read or written have 50 % of its rate"
    )
    assert volumes[0].conditions == volumes.conditions == (sentence,)
    stripe = volumes.striped()
    assert sentence in stripe.conditions
    done = Initialisation("write", Size(1 << 30), 8.0)
    stripe.initialisation = done
    assert sentence not in stripe.conditions
    stripe.dissolve()
    volumes[0].initialisation = done
    assert volumes[0].conditions == (str(done),)


@pytest.mark.parametrize(("filesystem", "room_mib"), [("xfs", 149), ("ext4", 1023), ("btrfs", 63)])
def test_a_file_system_is_not_made_if_the_machine_has_no_room_for_its_journal(
    instance: _Instance, volumes: VolumeGroup, filesystem: Any, room_mib: int
) -> None:
    """300 GiB: 150 MiB of log by XFS, 1 GiB by ext4, next to nothing by btrfs."""
    stripe = volumes.striped()
    instance.machine_limits = lambda: SimpleNamespace(room=Size.from_mib(room_mib))
    before = len(instance.host.done)
    with pytest.raises(FilesystemError, match=rf"making {filesystem} on .* has room for {room_mib:,} MiB: "):
        stripe.mounted(filesystem)
    assert not [line for line in instance.host.done[before:] if "mkfs" in line]
    instance.machine_limits = lambda: SimpleNamespace(room=Size.from_mib(room_mib + 1))
    data = stripe.mounted(filesystem)
    data.unmount()
    instance.machine_limits = lambda: SimpleNamespace(room=Size(0))
    assert stripe.mounted(filesystem).mount.reused, "what is there takes no more room"


def test_data_in_a_folder_are_a_condition_of_everything_on_them(
    instance: _Instance, volumes: VolumeGroup
) -> None:
    instance.launched.data_in_folder = True
    said = ("data in a folder of the embedded region's machine, not in memory: slower and less steady",)
    assert volumes[0].conditions == volumes.conditions == said
    stripe = volumes.striped()
    assert stripe.conditions == (*said, "striped by md, chunk 64 KiB")
    assert stripe.mounted("xfs").conditions == stripe.conditions


def test_a_stripe_is_initialised_once(
    volumes: VolumeGroup, instance: _Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[list[tuple[str, str]]] = []

    def initialise(target: Any, wholes: Any, *, on_progress: Any) -> Initialisation:
        passes.append([(whole.path, whole.way) for whole in wholes])
        return Initialisation("write", Size(1 << 30), 8.0)

    monkeypatch.setattr("pytest_cloudbench.workloads.fio.data_pass.initialise", initialise)
    stripe = volumes.striped().initialised()
    assert stripe.initialised() is stripe
    assert passes == [[("/dev/md127", "write")]]
    sentence = "initialised: every block written once before, 1 GiB in 8 s (128 MiB/s)"
    assert stripe.conditions[-1] == sentence
    stripe.dissolve()
    instance.host.able = ("btrfs",)
    stripe = volumes.striped()
    at = stripe.mounted("btrfs", at="/data", owner="postgres").path
    instance.host.files = ("/data/theirs",)
    with pytest.raises(StorageInUse, match="contains /data/theirs, which writing every block would destroy"):
        stripe.initialised()
    instance.host.files = ()
    stripe.initialised()
    assert passes[1:] == [[(f"/dev/xvd{letter}", "write") for letter in "fgh"]], "its disks, side by side"
    assert stripe.path == at
    assert stripe.conditions.count(sentence) == 1
    stripe.initialised()
    assert len(passes) == 2


def test_volumes_from_snapshots_are_read_and_others_written(
    volumes: VolumeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: list[str] = []

    def initialise(target: Any, wholes: Any, *, on_progress: Any) -> Initialisation:
        ways.extend(whole.way for whole in wholes)
        return Initialisation("read", Size(1 << 30), 8.0)

    monkeypatch.setattr("pytest_cloudbench.workloads.fio.data_pass.initialise", initialise)
    assert not volumes[1].from_snapshot
    volumes[1].created = replace(volumes[1].created, snapshot_id="snap-0123456789abcdef0")
    assert volumes[1].from_snapshot
    volumes[0].initialised()
    assert ways == ["write"]
    volumes.initialised()
    assert ways == ["write", "read", "write"], "the first was gone over already"
    assert len(volumes.conditions) == 1, "one sentence for what is alike"


def test_targets_on_disks_have_the_latency_of_the_disks(instance: _Instance, volumes: VolumeGroup) -> None:
    instance.modelled_latency = "none"
    stripe = volumes.striped()
    data = stripe.mounted("xfs")
    assert volumes.modelled_latency == stripe.modelled_latency == data.modelled_latency == "none"
    assert volumes.conditions == ("storage latency not modelled: below a limit it is this machine's own",)
    assert data.conditions[0] == volumes.conditions[0]


def test_what_cannot_be_striped_is_refused_before_anything_is_touched(
    volumes: VolumeGroup, instance: _Instance
) -> None:
    elsewhere = _instance(2, zone="us-east-1b")
    with pytest.raises(
        StripeError, match=r"disks of 2 instances cannot be striped: .* in us-east-1a>, .* in us-east-1b>"
    ):
        volumes[0].beside(_volume(elsewhere, 4)).striped()
    with pytest.raises(StripeError, match="1 device"):
        volumes[0].beside().striped()
    with pytest.raises(StripeError, match=r"unequal size .*100 GiB, .*50 GiB"):
        volumes[0].beside(_volume(instance, 5, size_gib=50)).striped()
    with pytest.raises(StripeError, match="chunk 100 KiB"):
        volumes.striped(chunk="100k")
    instance.host.devices["/dev/xvdg"].signature = "ext4"
    with pytest.raises(FilesystemError, match="/dev/xvdg carries ext4: striping would destroy it"):
        volumes.striped()
    volumes[2].mounted("xfs", at="/data")
    instance.host.done.clear()
    for overwrite in (False, True):
        with pytest.raises(NotOurs, match=r"/dev/xvdh on host 1 .* is mounted on /data"):
            volumes.striped(overwrite=overwrite)
    assert instance.host.done == []
    with pytest.raises(ValueError, match="at least one"):
        VolumeGroup([])


def test_a_mounted_volume_is_detached_only_with_unmount(volumes: VolumeGroup, instance: _Instance) -> None:
    volume = volumes[0]
    volume.mounted("xfs", at="/data")
    with pytest.raises(
        StorageInUse, match=r"is mounted on /data of .*unmount it first, or call detach\(unmount=True\)"
    ):
        volume.detach()
    assert volume in instance.volumes
    assert volume.detach(unmount=True) is volume
    assert instance.host.mounts == {}
    assert volume not in instance.volumes
    for use in (volume.detach, volume.mounted, volume.prove_writable):
        with pytest.raises(StorageInUse, match=r"is not attached to an instance: attach\(instance\) first"):
            use()


def test_a_volume_mounted_from_outside_is_not_detached_even_with_unmount(
    volumes: VolumeGroup, instance: _Instance
) -> None:
    instance.host.mounts["/by/hand"] = "/dev/xvdf"
    for unmount in (False, True):
        with pytest.raises(StorageInUse, match="is mounted on /by/hand of"):
            volumes[0].detach(unmount=unmount)
    del instance.host.mounts["/by/hand"]
    instance.host.devices["/dev/xvdf"].holders = ["dm-7"]
    with pytest.raises(StorageInUse, match="is in use by dm-7 on"):
        volumes[0].detach()


def test_a_volume_moves_within_its_zone(volumes: VolumeGroup) -> None:
    volume = volumes[0]
    neighbour, far = _instance(2), _instance(3, zone="us-east-1b")
    with pytest.raises(StorageInUse, match=r"is attached to .*: call detach\(\) first"):
        volume.attach(neighbour)  # type: ignore[arg-type]
    volume.detach()
    with pytest.raises(ZoneMismatch):
        volume.attach(far)  # type: ignore[arg-type]
    assert volume.attach(neighbour) is volume  # type: ignore[arg-type]
    assert volume.instance is neighbour
    assert neighbour.volumes == [volume]
    assert volume.mounted("xfs").host is neighbour.host


class _Watched(Preparation):
    """A preparation that notes what it is asked to show."""

    pace = Pace.QUICK

    def __init__(self) -> None:
        self.shown: list[str] = []

    @contextlib.contextmanager
    def live(self, name: str) -> Iterator[Callable[[Any], None]]:
        self.shown.append(name)
        yield lambda progress: self.shown.append(str(progress))
        self.shown.append("done")

    def done(self, name: str, target: Any, run: Callable[[], Any]) -> Any:
        return run()


def test_work_before_a_measurement_is_shown_and_paced(
    volumes: VolumeGroup, instance: _Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.preparation = _Watched()

    def initialise(target: Any, wholes: Any, *, on_progress: Any) -> Initialisation:
        on_progress(Progress(50.0, 125.0, 125.0, 4.0))
        return Initialisation("write", Size(1 << 30), 8.0)

    def prefill(target: Any, size: Size, *, pace: Pace, on_progress: Any) -> Prefilled:
        assert target.path == "/data"
        return Prefilled("/data/file", size / 2, 2.0, (f"{pace.value} pace: half",))

    monkeypatch.setattr("pytest_cloudbench.workloads.fio.data_pass.initialise", initialise)
    monkeypatch.setattr("pytest_cloudbench.workloads.fio.data_pass.prefill", prefill)
    volumes[0].initialised()
    label = volumes[0].label
    assert instance.preparation.shown == [
        f"initialising {label}",
        "50 % 125 IOPS 125.0 MiB/s, 4 s left",
        "done",
    ]
    file = volumes[0].mounted("xfs", at="/data").prefilled("2g")
    assert instance.preparation.shown[3:] == ["laying out 2g", "done"]
    assert (file.kind, file.path, file.size, file.seconds) == ("file", "/data/file", Size(1 << 30), 2.0)
    assert file.label == f"file of 1 GiB on xfs on {label}"
    assert file.conditions == (
        "initialised: every block written once before, 1 GiB in 8 s (128 MiB/s)",
        "file of 1 GiB written before, in 2 s (512 MiB/s)",
        "quick pace: half",
    )
    assert file.iops == volumes[0].iops
    file.prove_writable()


def test_an_unwatched_preparation_shows_nothing_at_full_pace() -> None:
    with Preparation().live("anything") as show:
        assert show is None
    assert Preparation().pace is Pace.FULL
