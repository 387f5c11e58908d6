"""The pool of hardware that tests share: who gets what again, and what is removed."""

import dataclasses
import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench import gp3
from pytest_cloudbench.hosts.errors import CommandFailed, HostUnreachable
from pytest_cloudbench.hosts.shell_host import ShellHost
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import (
    Attachment,
    CreatedVolume,
    ImageFacts,
    Launch,
    LaunchedInstance,
    PlacementGroup,
    TeardownReport,
)
from pytest_cloudbench.resources.provider import Provider
from pytest_cloudbench.resources.shared_hardware import CREATING, SharedHardware, Stock


class Cloud(Provider):
    """A cloud in memory, which remembers what was created, what there is, and what runs."""

    run_id = "run-1"

    def __init__(self):
        self.launched, self.there, self.states, self.detached = [], set(), {}, []
        self.numbers = itertools.count()
        self.unreachable = False
        self.unclean = False
        self.commands = []

    def limits(self, instance_type):
        return InstanceLimits.from_describe({"InstanceType": instance_type})

    def launch_many(self, launches, *, placement_group=None):
        made = [self._new(launch, placement_group) for launch in launches]
        return tuple(made)

    def _new(self, launch, group):
        name = f"i-{len(self.launched)}"
        self.launched.append(launch)
        self.there.add(name)
        self.states[name] = "running"
        return LaunchedInstance(
            name,
            launch.type,
            self.limits(launch.type),
            ImageFacts(login_user="admin"),
            placement_group=group and str(group),
            tags={"cloudbench:run": self.run_id},
        )

    def refresh(self, instance):
        if instance.id not in self.there:
            raise CloudError(f"{instance} is gone")
        return dataclasses.replace(instance, state=self.states[instance.id], shared="", earlier_tests=0)

    def stop(self, instance, *, force=False):
        return dataclasses.replace(instance, state="stopped")

    def host(self, instance, *, connect_timeout_s):
        return Host(self, str(instance))

    def create_placement_group(self, strategy="cluster", *, name=""):
        made = PlacementGroup("group", f"pg-{len(self.there)}", strategy)
        self.there.add(made.id)
        return made

    def create_volumes(self, specs, zone=None, *, instance, name="", snapshot=None):
        made = [
            CreatedVolume(f"vol-{next(self.numbers)}", spec, "a", Size.from_gib(spec.size_gib), "available")
            for spec in specs
        ]
        self.there |= {each.id for each in made}
        return tuple(made)

    def attach_all(self, volumes, instance, *, card=None):
        return tuple(
            dataclasses.replace(each, attachment=Attachment(each.id, instance.id, "/dev/sdf", "attached"))
            for each in volumes
        )

    def detach(self, volume):
        self.detached.append(volume.id)
        return dataclasses.replace(volume, attachment=None)

    def modify_volume(self, volume, spec, *, until="completed", timeout_s=3600.0):
        return dataclasses.replace(volume, spec=spec)

    def release(self, resources):
        for each in resources:
            self.there.remove(each.id)  # nothing is removed twice

    def close(self):
        return TeardownReport()


class Host(ShellHost):
    def __init__(self, cloud, label):
        super().__init__(label, address="here", user="admin")
        self.cloud = cloud

    def connect(self, timeout_s=None):
        if self.cloud.unreachable:
            raise HostUnreachable("nobody answers")

    def execute(self, command):
        self.cloud.commands.append(command)
        return command.result(1 if self.cloud.unclean else 0, b"", b"a process survives")


@pytest.fixture
def cloud():
    return Cloud()


@pytest.fixture
def told():
    return []


@pytest.fixture
def pool(told):
    return SharedHardware("module", tell=told.append)


def launch(pool, instance_type="m5.large", name="", **options):
    return pool.launch(instance_type, name=name, **options)


def volume_on(pool, instance, spec=None):
    created = pool.create_volumes([spec or gp3(size_gib=1)], instance=instance, name="n")
    return pool.attach_all(created, instance)[0]


def test_the_next_test_gets_the_same_instance_whatever_their_names(cloud, pool):
    pool.turn(cloud)
    first = launch(pool, name="one")
    pool.release([first])
    pool.turn(cloud)
    second = launch(pool, name="two")
    assert (second.id, len(cloud.launched)) == (first.id, 1)
    assert (first.shared, first.earlier_tests) == ("module", 0)
    assert (second.shared, second.earlier_tests) == ("module", 1)
    assert pool.refresh(second).earlier_tests == 1
    assert any("second test on this instance" in each for each in second.conditions)
    assert not any("test on this" in each for each in first.conditions)


def test_one_test_gets_two_instances(cloud, pool):
    pool.turn(cloud)
    assert launch(pool).id != launch(pool).id


@pytest.mark.parametrize("options", [{"market": "spot"}, {"commands": ("true",)}, {"tenancy": "dedicated"}])
def test_other_needs_are_met_by_another_instance(cloud, pool, options):
    pool.turn(cloud)
    pool.release([launch(pool)])
    pool.turn(cloud)
    assert launch(pool, **options).earlier_tests == 0
    assert len(cloud.launched) == 2


def test_a_pair_in_a_group_is_shared_as_a_pair(cloud, pool):
    def pair(name):
        pool.turn(cloud)
        group = pool.create_placement_group("cluster", name=name)
        launches = [Launch("c5n.large", name=name)] * 2
        ends = pool.launch_many(launches, placement_group=group)
        pool.release([*ends, group])
        return [each.id for each in ends]

    assert pair("one") == pair("two")
    pool.end()
    assert cloud.there == set()


def test_volumes_are_shared_with_how_they_were_initialised(cloud, pool):
    pool.turn(cloud)
    instance = launch(pool)
    first = volume_on(pool, instance)
    pool.release([instance, dataclasses.replace(first, initialisation="all written")])
    pool.turn(cloud)
    second = volume_on(pool, launch(pool))
    assert (second.id, second.earlier_tests, second.initialisation) == (first.id, 1, "all written")
    assert "second test on this volume" in second.conditions[0]


def test_without_volumes_each_test_creates_its_own(cloud):
    pool = SharedHardware("session", shares=CREATING - {"create_volumes"}).turn(cloud)
    instance = launch(pool)
    first = volume_on(pool, instance)
    pool.release([instance, first])
    assert cloud.there == {instance.id}
    second = volume_on(pool.turn(cloud), launch(pool))
    assert second.shared == ""


@pytest.mark.parametrize("change", ["stop", "reboot", "start"])
def test_what_a_test_restarted_is_removed_and_told(cloud, pool, told, change):
    setattr(cloud, change, lambda instance, **_: instance)
    pool.turn(cloud)
    first = launch(pool)
    getattr(pool, change)(first)
    assert cloud.there == {first.id}, "the test may go on with it"
    pool.release([first])
    assert cloud.there == set()
    assert first.id in told[0]
    assert launch(pool.turn(cloud)).id != first.id


def test_a_modified_volume_leaves_the_instance_that_stays_and_is_removed(cloud, pool):
    pool.turn(cloud)
    instance = launch(pool)
    volume = volume_on(pool, instance)
    pool.modify_volume(volume, gp3(size_gib=2))
    pool.release([instance, volume])
    assert cloud.detached == [volume.id]
    assert cloud.there == {instance.id}


def test_a_lost_instance_takes_its_volumes_with_it(cloud, pool):
    pool.turn(cloud)
    instance = launch(pool)
    volume = volume_on(pool, instance)
    pool.stop(instance)
    pool.release([instance, volume])
    assert (cloud.there, cloud.detached) == (set(), [])


def test_an_instance_that_ended_by_itself_is_replaced(cloud, pool, told):
    pool.turn(cloud)
    first = launch(pool)
    pool.release([first])
    cloud.states[first.id] = "terminated"
    second = launch(pool.turn(cloud))
    assert second.id != first.id
    assert "terminated" in told[0]


def test_an_instance_that_is_gone_is_replaced(cloud, pool):
    pool.turn(cloud)
    first = launch(pool)
    pool.release([first])
    cloud.refresh = lambda instance: (_ for _ in ()).throw(CloudError("it is gone"))
    assert launch(pool.turn(cloud)).id != first.id


def test_an_unreachable_host_is_for_no_other_test(cloud, pool, told):
    pool.turn(cloud)
    first = launch(pool)
    cloud.unreachable = True
    with pytest.raises(HostUnreachable):
        pool.host(first, connect_timeout_s=1)
    pool.release([first])
    assert "nobody answers" in told[0]
    assert cloud.there == set()


def test_a_test_is_cleaned_up_after_on_each_host_that_it_used(cloud, pool):
    pool.turn(cloud)
    first, unused = launch(pool), launch(pool)
    host = pool.host(first, connect_timeout_s=1)
    host.run(["sleep", "1"])
    marked = [command for command in cloud.commands if command.mark]
    assert [command.argv for command in marked] == [("sleep", "1")]
    assert marked[0].mark in marked[0].line
    before = len(cloud.commands)
    pool.release([first, unused])
    (cleaning,) = cloud.commands[before:]
    assert marked[0].mark in cleaning.argv
    assert cleaning.sudo
    assert not cleaning.mark


def test_a_host_that_cannot_be_cleaned_is_for_no_other_test(cloud, pool, told):
    pool.turn(cloud)
    first = launch(pool)
    pool.host(first, connect_timeout_s=1)
    cloud.unclean = True
    pool.release([first])
    assert "a process survives" in told[0]
    assert cloud.there == set()


def test_a_machine_that_the_run_did_not_launch_keeps_the_files_in_its_home(cloud, pool):
    cloud.run_id = ""
    pool.turn(cloud)
    first = launch(pool)
    pool.host(first, connect_timeout_s=1)
    pool.release([first])
    (cleaning,) = cloud.commands
    assert not cleaning.sudo
    assert "rm " not in " ".join(cleaning.argv)


def test_what_the_test_could_not_free_is_for_no_other_test(cloud, pool, told):
    pool.turn(cloud)
    first = launch(pool)
    pool.release([dataclasses.replace(first, unusable="/mnt/x cannot be unmounted")])
    assert "cannot be unmounted" in told[0]
    assert cloud.there == set()


def test_volumes_whose_attachment_failed_are_removed(cloud, pool):
    pool.turn(cloud)
    instance = launch(pool)
    created = pool.create_volumes([gp3(size_gib=1)], instance=instance)
    cloud.attach_all = lambda *_, **__: (_ for _ in ()).throw(CloudError("attached elsewhere"))
    with pytest.raises(CloudError):
        pool.attach_all(created, instance)
    pool.release([instance, *created])
    assert cloud.there == {instance.id}


@pytest.fixture
def scopes(cloud, told):
    """Begin a test: return what it has of its session, of its module and for itself alone."""
    stock = Stock()
    pools = [
        SharedHardware("session", stock, tell=told.append),
        SharedHardware("module", stock, tell=told.append),
        SharedHardware("function", stock, shares=frozenset(), tell=told.append),
    ]
    return lambda: [pool.turn(cloud) for pool in pools]


@pytest.mark.parametrize("asked_of", ["session", "module", "function"])
@pytest.mark.parametrize("change", ["modify_volume", "detach"])
def test_a_volume_that_is_changed_by_way_of_its_instance_is_for_no_other_test(
    scopes, cloud, told, asked_of, change
):
    pools = session, module, own = scopes()
    instance = launch(session)
    volume = volume_on(module, instance)
    changer = next(pool for pool in pools if pool.scope == asked_of)
    now = getattr(changer, change)(volume, *([gp3(size_gib=2)] if change == "modify_volume" else []))
    assert now.shared == "module"
    for pool, has in ((own, []), (module, [now]), (session, [instance])):
        pool.release(has)
    assert cloud.there == {instance.id}
    assert len(told) == 1
    session, module, own = scopes()
    assert launch(session).id == instance.id
    assert volume_on(module, instance).id != volume.id


def test_an_instance_of_the_session_that_is_lost_takes_the_volumes_of_a_module_with_it(scopes, cloud):
    session, module, own = scopes()
    instance = launch(session)
    volume = volume_on(module, instance)
    session.stop(instance)
    for pool, has in ((own, []), (module, [volume]), (session, [instance])):
        pool.release(has)
    assert (cloud.there, cloud.detached) == (set(), [])


def test_a_test_has_its_own_hardware_and_volumes_beside_shared_ones(scopes, cloud):
    session, _, own = scopes()
    shared, alone = launch(session), launch(own)
    volume = volume_on(own, shared)
    assert (alone.shared, volume.shared, own.refresh(shared).shared) == ("", "", "session")
    own.release([alone, volume])
    session.release([shared])
    assert cloud.there == {shared.id}
    session.end()
    assert cloud.there == set()


def test_the_end_of_a_scope_leaves_the_hardware_of_a_wider_one(scopes, cloud):
    session, module, _ = scopes()
    instance = launch(session)
    volume = volume_on(module, instance)
    module.release([volume])
    session.release([instance])
    module.end()
    assert (cloud.there, cloud.detached) == ({instance.id}, [volume.id])
    session, module, _ = scopes()
    assert launch(session).earlier_tests == 1


@given(st.lists(st.lists(st.sampled_from(["a.large", "b.large"]), max_size=4), max_size=8))
def test_as_many_are_launched_as_one_test_has_at_once(tests):
    cloud = Cloud()
    pool = SharedHardware("session")
    for types in tests:
        pool.turn(cloud)
        got = [launch(pool, each) for each in types]
        assert [each.type for each in got] == types
        assert len({each.id for each in got}) == len(types)
        pool.release(got)
    needed = Counter()
    for types in tests:
        needed |= Counter(types)
    assert Counter(each.type for each in cloud.launched) == needed
    pool.end()
    assert cloud.there == set()


def test_a_failing_command_of_the_cleaning_is_no_error_of_the_test(cloud, pool):
    pool.turn(cloud)
    first = launch(pool)
    host = pool.host(first, connect_timeout_s=1)
    host.execute = lambda command: (_ for _ in ()).throw(CommandFailed("h", command.argv, 1, "", ""))
    pool.release([first])
    assert cloud.there == set()
