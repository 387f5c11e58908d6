"""What a test does with storage that stays: its own volumes leave, shared disks are emptied, and trouble is told."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from pytest_cloudbench import gp3
from pytest_cloudbench.hosts.devices import BlockDevice
from pytest_cloudbench.hosts.errors import FilesystemError
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.resources.facts import CreatedVolume
from pytest_cloudbench.resources.instance import Instance
from pytest_cloudbench.resources.shared_storage import (
    leave_shared_hardware,
    left_instance,
    left_volume,
)
from pytest_cloudbench.resources.volumes import Volume


@pytest.fixture
def cleared(monkeypatch):
    done = []
    monkeypatch.setattr(
        "pytest_cloudbench.resources.shared_storage.clear_devices", lambda host, each: done.append(each)
    )
    return done


@pytest.fixture
def instance(launched_as):
    made = Instance(SimpleNamespace(), replace(launched_as("c5.18xlarge"), shared="module"), 1.0)
    made._host = SimpleNamespace()
    return made


def volume_on(instance, **facts):
    created = CreatedVolume("vol-1", gp3(size_gib=1), "a", Size.from_gib(1), "in-use", **facts)
    made = Volume(instance, created)
    made.calls = []
    made.unmount = lambda: made.calls.append("unmount")
    made.detach = lambda: made.calls.append("detach")
    instance.volumes.append(made)
    return made


def test_a_volume_of_the_test_leaves_an_instance_that_stays(instance, cleared):
    volume = volume_on(instance)
    leave_shared_hardware([], [volume])
    assert volume.calls == ["unmount", "detach"]
    assert instance.unusable == ""


def test_a_volume_ends_with_an_instance_of_the_test_itself(instance, cleared):
    instance._launched = replace(instance.launched, shared="")
    volume = volume_on(instance)
    leave_shared_hardware([instance], [volume])
    assert (volume.calls, cleared) == ([], [])


def test_a_detached_volume_is_left_alone(instance, cleared):
    volume = volume_on(instance)
    volume._attached = False
    leave_shared_hardware([], [volume])
    assert volume.calls == []


def test_shared_disks_are_unmounted_and_those_that_were_used_are_emptied(instance, cleared):
    volume = volume_on(instance, shared="module")
    leave_shared_hardware([instance], [volume])
    assert (volume.calls, cleared) == (["unmount"], [])
    volume._device = BlockDevice("/dev/nvme1n1", volume.size)
    leave_shared_hardware([instance], [volume])
    assert cleared == [[volume._device]]


def test_a_volume_that_was_there_before_is_left_as_it_is(instance, cleared):
    volume = volume_on(instance, existing=True)
    volume._device = BlockDevice("/dev/nvme1n1", volume.size)
    leave_shared_hardware([instance], [])
    assert (volume.calls, cleared, volume.is_attached) == ([], [], True)


@pytest.mark.parametrize(("shared", "removed"), [("module", ["/data"]), ("", [])])
def test_folders_of_loads_leave_a_shared_instance_before_its_disks_are_unmounted(
    instance, cleared, shared, removed
):
    instance._launched = replace(instance.launched, shared=shared)
    volume, done = volume_on(instance, shared=shared), []
    volume.unmount = lambda: done.append("unmounted")
    instance._directories["/data"] = SimpleNamespace(remove=lambda: done.append("/data"))
    leave_shared_hardware([instance], [])
    assert done == [*removed, *(["unmounted"] if shared else [])]
    leave_shared_hardware([instance], [])
    assert done.count("/data") == len(removed), "each once"


def test_a_disk_that_cannot_be_unmounted_makes_the_instance_unusable(instance, cleared):
    volume = volume_on(instance, shared="module")

    def busy():
        raise FilesystemError("/mnt/vol-1 is busy")

    volume.unmount = busy
    leave_shared_hardware([instance], [volume])
    assert left_instance(instance).unusable == "/mnt/vol-1 is busy"


def test_nothing_is_asked_of_a_stopped_instance(instance, cleared):
    volume = volume_on(instance, shared="module")
    instance._stopped = True
    leave_shared_hardware([instance], [volume])
    assert volume.calls == []


def test_initialised_disks_are_remembered_for_the_next_test(instance, monkeypatch):
    store = {
        "InstanceStorageInfo": {
            "Disks": [{"Count": 2, "SizeInGB": 1, "Type": "ssd"}],
            "NvmeSupport": "required",
        }
    }
    limits = InstanceLimits.from_describe({"InstanceType": "c5d.large", **store})
    monkeypatch.setattr(
        "pytest_cloudbench.hosts.devices.find_instance_store",
        lambda host, count: [BlockDevice(f"/dev/nvme{each}n1", Size(10**9)) for each in range(count)],
    )
    instance._launched = replace(instance.launched, limits=limits)
    instance._provider.refresh = lambda launched: launched
    instance.instance_store[1].initialisation = "all written"
    left = left_instance(instance)
    assert left.store_initialised == (None, "all written")
    later = Instance(instance._provider, left, 1.0)
    later._host = instance._host
    assert [disk.initialisation for disk in later.instance_store] == [None, "all written"]
    volume = volume_on(instance, shared="module")
    volume.initialisation = "all read"
    created = left_volume(volume.created, volume)
    assert Volume(later, created).initialisation == "all read"
    assert left_volume(replace(created, shared=""), None).shared == ""
