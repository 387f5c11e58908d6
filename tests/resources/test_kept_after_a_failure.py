"""What a factory and a pool do with hardware that stays after a failed test: nothing."""

import dataclasses
from datetime import datetime, timezone

import pytest

from pytest_cloudbench import gp3
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.resources.ec2 import Ec2, close_factories
from pytest_cloudbench.resources.errors import NotOffered
from pytest_cloudbench.resources.facts import (
    Attachment,
    CreatedVolume,
    ImageFacts,
    KeptInstance,
    LaunchedInstance,
    TeardownReport,
)
from pytest_cloudbench.resources.provider import Provider
from pytest_cloudbench.resources.shared_hardware import CREATING, SharedHardware, Stock


class Cloud(Provider):
    """A cloud in memory, whose hosts never answer."""

    def __init__(self):
        self.there = set()
        self.detached = []

    def limits(self, instance_type):
        return InstanceLimits.from_describe({"InstanceType": instance_type})

    def launch_many(self, launches, *, placement_group=None):
        made = []
        for launch in launches:
            name = f"i-{len(self.there)}"
            self.there.add(name)
            made.append(LaunchedInstance(name, launch.type, self.limits(launch.type), ImageFacts()))
        return tuple(made)

    def create_volumes(self, specs, zone=None, *, instance, name="", snapshot=None):
        made = []
        for spec in specs:
            made.append(
                CreatedVolume(f"vol-{len(self.there)}", spec, "a", Size.from_gib(spec.size_gib), "available")
            )
            self.there.add(made[-1].id)
        return tuple(made)

    def attach_all(self, volumes, instance, *, card=None):
        return tuple(
            dataclasses.replace(each, attachment=Attachment(each.id, instance.id, "/dev/sdf", "attached"))
            for each in volumes
        )

    def detach(self, volume):
        self.detached.append(volume.id)
        return volume

    def refresh(self, instance):
        return instance

    def host(self, instance, *, connect_timeout_s):
        raise NotOffered("no host")

    def keep(self, instances, *, test):
        now = datetime.now(timezone.utc)
        return tuple(KeptInstance(each.id, each.type, now, "ssh", "reap") for each in instances)

    def release(self, resources):
        self.there -= {each.id for each in resources}

    def close(self):
        return TeardownReport()


@pytest.fixture
def cloud():
    return Cloud()


def test_a_factory_releases_only_what_is_not_kept(cloud):
    factory = Ec2(cloud, test_name="test_bad")
    instance = factory.launch("m5.large")
    volume = factory.create_volume(gp3(size_gib=1), instance)
    [(kept, facts)] = factory.keep()
    assert (kept, facts.id) == (instance, instance.id)
    later = factory.launch("m5.large")
    factory.close()
    assert cloud.there == {instance.id, volume.id}
    assert later.id not in cloud.there
    assert cloud.detached == []


def test_a_pool_gives_kept_hardware_to_no_other_test_and_does_not_remove_it(cloud):
    pool = SharedHardware("session", shares=CREATING - {"create_volumes"})
    shared = Ec2(pool.turn(cloud), test_name="test_bad")
    instance = shared.launch("m5.large")
    own = Ec2(cloud, test_name="test_bad")
    volume = own.create_volume(gp3(size_gib=1), instance)
    assert [each.id for each, _ in shared.keep()] == [instance.id]
    own.leave_volumes_of([instance])
    for factory in (own, shared):
        factory.close()
    again = Ec2(pool.turn(cloud), test_name="test_next").launch("m5.large")
    assert again.id != instance.id
    pool.end()
    assert cloud.there == {instance.id, volume.id}
    assert cloud.detached == []


def test_the_volume_of_a_module_stays_on_a_kept_instance_of_the_session(cloud):
    stock = Stock()
    session, module = SharedHardware("session", stock), SharedHardware("module", stock)
    wide = Ec2(session.turn(cloud), test_name="test_bad")
    narrow = Ec2(module.turn(cloud), test_name="test_bad")
    instance = wide.launch("m5.large")
    volume = narrow.create_volume(gp3(size_gib=1), instance)
    wide.keep()
    narrow.leave_volumes_of([instance])
    close_factories([narrow, wide])
    module.end()
    session.end()
    assert cloud.there == {instance.id, volume.id}
    assert cloud.detached == []


def test_without_instances_nothing_is_asked(cloud):
    assert Ec2(cloud, test_name="test_bad").keep() == []
