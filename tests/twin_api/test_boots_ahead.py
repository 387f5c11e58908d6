"""An instance that was launched ahead of its test boots while no session measures; any other boots at once."""

import fcntl
import threading

import pytest
from region_calls import RecordingPlane, until

from pytest_cloudbench.limits.region_settings import AHEAD_TAG, turnstile
from pytest_cloudbench.session.measuring import Measuring
from pytest_cloudbench.twin import measurements
from pytest_cloudbench.twin.regions import RECORD_NAME
from pytest_cloudbench.twin.slots import Slot

AHEAD = {"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": AHEAD_TAG, "Value": "true"}]}]}


@pytest.fixture
def plane(tmp_path):
    made = RecordingPlane()
    made.slot = Slot(0, tmp_path)
    made.slot.directory.mkdir()
    return made


@pytest.fixture
def measuring(plane, monkeypatch):
    record = plane.slot.directory / RECORD_NAME
    record.write_text("{}")
    monkeypatch.setattr(measurements.os, "sched_getaffinity", lambda _: {0, 1})
    return Measuring(record)


def test_it_boots_after_the_last_of_the_measurements(calls, plane, measuring):
    with measuring.measurement():
        with measuring.measurement():
            early = calls.launch(wait=False, **AHEAD)
            now = calls.launch()
        assert calls.instance(early)["State"]["Name"] == "pending"
        assert [instance_id for _, instance_id, *_ in plane.named("boot")] == [now]
    calls.wait_state(early, "running")


def test_boots_that_begin_together_do_not_wait_for_a_measurement_between_them(calls, plane, measuring):
    plane.gates["boot"] = threading.Event()
    first = calls.launch(wait=False, **AHEAD)
    until(lambda: plane.named("boot"), "the first boot")
    thread = threading.Thread(target=lambda: measuring.measurement().__enter__())
    thread.start()
    second = calls.launch(wait=False, **AHEAD)
    until(lambda: len(plane.named("boot")) == 2, "the second boot")
    plane.gates["boot"].set()
    calls.wait_state(first, "running")
    calls.wait_state(second, "running")
    thread.join(10)
    assert not thread.is_alive()


def test_a_measurement_begins_after_the_boot(calls, plane, measuring):
    plane.gates["boot"] = threading.Event()
    early = calls.launch(wait=False, **AHEAD)
    until(lambda: plane.named("boot"), "the boot")
    began = threading.Event()

    def measure():
        with measuring.measurement():
            began.set()

    thread = threading.Thread(target=measure)
    thread.start()
    assert not began.wait(0.2)
    plane.gates["boot"].set()
    assert began.wait(10)
    thread.join()
    calls.wait_state(early, "running")


def test_no_measurement_begins_before_a_boot_that_waits(calls, plane, measuring):
    """Else sessions whose measurements overlap would leave no moment for it."""
    booted = threading.Event()
    began_after_boot = []

    def measure():
        with Measuring(measuring._file).measurement():
            began_after_boot.append(booted.is_set())

    plane.gates["boot"] = booted
    thread = threading.Thread(target=measure)
    with measuring.measurement():
        early = calls.launch(wait=False, **AHEAD)
        until(lambda: is_locked(turnstile(measuring._file)), "a boot that waits")
        thread.start()
        thread.join(0.2)
    until(lambda: plane.named("boot"), "the boot")
    booted.set()
    thread.join(10)
    assert began_after_boot == [True]
    calls.wait_state(early, "running")
    assert not is_locked(turnstile(measuring._file))


def is_locked(path):
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def test_it_can_be_terminated_before_it_boots(calls, plane, measuring):
    with measuring.measurement():
        early = calls.launch(wait=False, **AHEAD)
        calls.ec2.terminate_instances(InstanceIds=[early])
        calls.wait_state(early, "terminated")
    assert not plane.named("boot")


def test_a_machine_with_a_processor_for_it_boots_it_at_once(calls, measuring, monkeypatch):
    monkeypatch.setattr(measurements.os, "sched_getaffinity", lambda _: set(range(4)))
    with measuring.measurement():
        calls.launch(**AHEAD)


def test_without_the_record_nothing_waits(calls, measuring):
    (measuring._file).unlink()
    with measuring.measurement():
        calls.launch(**AHEAD)
