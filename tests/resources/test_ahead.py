"""Instances launched ahead: who gets them, what is released, and what happens if there is no room for them."""

import threading
from dataclasses import replace

import pytest

from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.resources.ahead import Ahead, Need
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import ImageFacts, Launch, LaunchedInstance, PlacementGroup

LARGE, SMALL = "c5.18xlarge", "t2.medium"


def launched(type, number, group):
    limits = InstanceLimits.from_describe({"InstanceType": type})
    return LaunchedInstance(f"i-{number:017x}", type, limits, ImageFacts(), placement_group=group)


def need(*types, name="test", strategy=None):
    return Need(tuple(Launch(type, name=name) for type in types), strategy)


class Waiting:
    """A provider whose launches last until `run` is set; it notes them, and what is released."""

    label, region, endpoint, run_id = "waiting", "nowhere", "", "run"

    def __init__(self):
        self.run = threading.Event()
        self.run.set()
        self.asked = []
        self.released = []
        self.refuses = {}
        self.known = {}
        self.made_ahead = set()
        self.cancelled = threading.local()
        self.going = 0
        self.on_launch = lambda: None

    def launch(self, type, *, placement_group=None, **options):
        return self.launch_many([Launch(type, **options)], placement_group=placement_group)[0]

    def launch_many(self, launches, *, placement_group=None):
        self.asked.append([(each.type, bool(each.ahead)) for each in launches])
        self.on_launch()
        event = getattr(self.cancelled, "event", None)
        self.going += 1
        while not self.run.wait(0.01):
            if event is not None and event.is_set():
                self.going -= 1
                raise CloudError("interrupted")
        self.going -= 1
        if error := self.refuses.get(tuple(each.type for each in launches)):
            raise error
        made = []
        for each in launches:
            number = len(self.known) + 1
            group = getattr(placement_group, "name", placement_group)
            made.append(launched(each.type, number, group))
            self.known[made[-1].id] = made[-1]
            if each.ahead:
                self.made_ahead.add(made[-1].id)
        return tuple(made)

    def refresh(self, instance):
        return self.known[instance.id]

    @staticmethod
    def full():
        raise CloudError("no room", code="Full")

    def create_placement_group(self, strategy="cluster", *, name=""):
        return PlacementGroup(f"group of {name}", "pg-1", strategy)

    def release(self, resources):
        self.released += [each.id for each in resources]

    def end_on(self, event):
        self.cancelled.event = event

    @property
    def running(self):
        return set(self.known) - set(self.released)


@pytest.fixture
def provider():
    return Waiting()


@pytest.fixture
def said():
    return []


@pytest.fixture
def ahead(provider, said):
    made = Ahead(provider, shortages=["Full"], say=said.append, end_waits_on=provider.end_on)
    yield made
    provider.run.set()
    made.end()


def test_a_test_gets_the_instance_that_was_launched_for_it(provider, ahead):
    ahead.expect(None, [need(LARGE, name="test_later")])
    ahead.expect(need(LARGE, name="test_later"), [])
    mine = ahead.launch(LARGE, name="test_later[1]")
    assert provider.asked == [[(LARGE, True)]]
    assert provider.known[mine.id] == replace(mine, waited_s=0.0)
    ahead.end()
    assert provider.released == []


def test_its_test_waits_for_a_launch_that_goes_on(provider, ahead):
    provider.run.clear()
    ahead.expect(None, [need(LARGE)])
    ahead.expect(need(LARGE), [])
    got = []
    taker = threading.Thread(target=lambda: got.append(ahead.launch(LARGE)))
    taker.start()
    taker.join(0.1)
    assert not got
    provider.run.set()
    taker.join(10)
    assert [each.type for each in got] == [LARGE]
    assert len(provider.asked) == 1


def test_other_needs_are_launched_as_asked(provider, ahead):
    ahead.expect(None, [need(LARGE)])
    ahead.expect(need(LARGE), [])
    assert ahead.launch(LARGE, market="spot").type == LARGE
    assert provider.asked.count([(LARGE, False)]) == 1


def test_a_test_leaves_to_the_next_what_was_launched_for_that(provider, ahead):
    ahead.expect(need(LARGE, name="one"), [need(LARGE, name="two")])
    first = ahead.launch(LARGE, name="one")
    ahead.expect(need(LARGE, name="two"), [need(LARGE, name="three")])
    second = ahead.launch(LARGE, name="two")
    other = ahead.launch(LARGE, name="two")
    ahead.expect(need(LARGE, name="three"), [])
    third = ahead.launch(LARGE, name="three")
    assert len(provider.known) == 4
    assert provider.made_ahead == {second.id, third.id}
    assert provider.running == {first.id, second.id, other.id, third.id}


def test_what_comes_no_more_is_released_and_the_rest_stays(provider, ahead):
    ahead.expect(None, [need(LARGE), need(SMALL)])
    ahead.expect(need(SMALL), [need(LARGE)])
    assert len(provider.asked) == 2
    ahead.expect(need(SMALL), [])
    small = ahead.launch(SMALL)
    ahead.end()
    assert provider.running == {small.id}


def test_the_end_releases_what_nobody_took_and_what_is_being_launched(provider, ahead):
    ahead.expect(need(LARGE), [need(LARGE)])
    ahead.launch(LARGE)
    ahead.expect(None, [need(LARGE), need(SMALL)])
    ahead.end()
    assert len(provider.running) == 1


def test_the_end_does_not_wait_for_a_launch_that_can_be_interrupted(provider, ahead):
    provider.run.clear()
    ahead.expect(None, [need(LARGE)])
    ahead.end()
    assert provider.running == set()


def test_a_launch_that_failed_is_asked_again_by_its_test(provider, ahead):
    provider.refuses[LARGE,] = CloudError("no", code="Odd")
    ahead.expect(None, [need(LARGE)])
    ahead.expect(need(LARGE), [])
    with pytest.raises(CloudError, match="no"):
        ahead.launch(LARGE)
    assert provider.asked == [[(LARGE, True)], [(LARGE, False)]]
    ahead.expect(None, [need(LARGE), need(SMALL)])
    ahead.expect(need(SMALL), [])
    assert ahead.launch(SMALL).type == SMALL
    assert provider.asked[2:] == [[(SMALL, True)]]


def test_an_instance_that_ended_while_it_waited_is_replaced(provider, ahead):
    ahead.expect(None, [need(LARGE)])
    while not provider.known:
        pass
    [(early, instance)] = provider.known.items()
    provider.known[early] = replace(instance, state="terminated")
    ahead.expect(need(LARGE), [])
    assert ahead.launch(LARGE).id != early
    assert provider.released == [early]


def test_the_group_that_a_test_has_is_not_released(provider, ahead):
    pair = need(LARGE, SMALL, strategy="cluster")
    ahead.expect(None, [pair])
    ahead.expect(pair, [])
    group = ahead.create_placement_group("cluster")
    ahead.end()
    assert group.id not in provider.released


def test_without_room_everything_ahead_is_released_and_it_is_said_once(provider, ahead, said):
    ahead.expect(need(SMALL), [need(LARGE)])
    while not provider.known:
        pass
    provider.refuses[SMALL,] = CloudError("no room", code="Full")
    with pytest.raises(CloudError, match="no room"):
        ahead.launch(SMALL)
    assert provider.running == set()
    assert provider.asked.count([(SMALL, False)]) == 2
    for _ in range(2):
        ahead.expect(None, [need(LARGE)])
    assert len(said) == 1
    assert "no room" in said[0]
    assert provider.asked.count([(LARGE, True)]) == 1


def test_a_launch_ahead_without_room_ends_the_others_too(provider, ahead, said):
    provider.refuses[LARGE,] = CloudError("no room", code="Full")
    ahead.expect(None, [need(SMALL), need(LARGE)])
    ahead.end()
    assert provider.running == set()
    assert len(said) == 1


def test_a_cluster_pair_gets_its_group_and_both_instances(provider, ahead):
    pair = need(LARGE, SMALL, name="test_pair", strategy="cluster")
    ahead.expect(None, [pair])
    ahead.expect(pair, [])
    group = ahead.create_placement_group("cluster", name="test_pair")
    client, server = ahead.launch_many([Launch(LARGE), Launch(SMALL)], placement_group=group)
    assert (client.placement_group, server.placement_group) == (group.name, group.name)
    assert provider.asked == [[(LARGE, True), (SMALL, True)]]


def test_a_group_that_was_taken_without_its_instances_is_not_given_again(provider, ahead):
    pair = need(LARGE, SMALL, strategy="cluster")
    ahead.expect(None, [pair])
    ahead.expect(pair, [])
    ahead.create_placement_group("cluster")
    ahead.expect(None, [])
    ahead.end()
    assert provider.running == set()


def test_a_test_without_a_cluster_creates_its_own_group(provider, ahead):
    ahead.expect(None, [need(LARGE, SMALL, name="ahead", strategy="cluster")])
    assert ahead.create_placement_group("cluster", name="mine").name == "group of mine"


def test_a_test_gets_the_group_of_its_own_instances(provider, ahead):
    mine, other = need(SMALL, LARGE, strategy="cluster"), need(LARGE, SMALL, name="other", strategy="cluster")
    ahead.expect(mine, [other])
    assert ahead.create_placement_group("cluster", name="mine").name == "group of mine"


class LockWithHook:
    """A lock before whose next acquisition something else happens."""

    def __init__(self, lock):
        self.lock = lock
        self.before = None

    def __enter__(self):
        before, self.before = self.before, None
        if before is not None:
            before()
        self.lock.acquire()

    def __exit__(self, *error):
        self.lock.release()


def test_what_a_test_claims_while_the_rest_is_released_stays(provider, ahead):
    ahead.expect(None, [need(LARGE)])
    ahead.expect(need(LARGE), [])
    claimed = []
    ahead._lock = lock = LockWithHook(ahead._lock)

    def claim_before_the_release():
        provider.on_launch = provider.full
        lock.before = lambda: claimed.append(ahead.launch(LARGE).id)
        provider.full()

    provider.on_launch = claim_before_the_release
    with pytest.raises(CloudError, match="no room"):
        ahead.launch(SMALL)
    assert provider.released == []
    assert provider.running == set(claimed)


def test_a_claimed_group_stays_when_the_rest_is_released(provider, ahead):
    pair = need(LARGE, SMALL, strategy="cluster")
    ahead.expect(None, [pair])
    ahead.expect(pair, [])
    group = ahead.create_placement_group("cluster")
    provider.refuses[SMALL,] = CloudError("no room", code="Full")
    with pytest.raises(CloudError, match="no room"):
        ahead.launch(SMALL)
    assert provider.released == []
    assert len(ahead.launch_many([Launch(LARGE), Launch(SMALL)], placement_group=group)) == 2


def test_a_launch_again_waits_until_what_was_ahead_is_gone(provider, ahead):
    provider.run.clear()
    ahead.expect(need(SMALL), [need(LARGE)])
    while not provider.going:
        pass
    provider.on_launch = lambda: provider.run.set() if not provider.going else provider.full()
    assert ahead.launch(SMALL).type == SMALL
