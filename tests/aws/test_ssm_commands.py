"""A command by SSM whose wait is interrupted in another thread is cancelled, and never sent again."""

import threading
from types import SimpleNamespace

import pytest

from pytest_cloudbench.aws.errors import Unreachable
from pytest_cloudbench.aws.ssm import InstanceCommands, SystemsManager
from pytest_cloudbench.aws.waits import OFTEN, Cancelled, cancel_waits_on


class Service:
    """Systems Manager with one command that runs on; the run is interrupted during the call `at`."""

    pace = OFTEN
    access = SimpleNamespace(is_loopback=True, ssm_bucket="")

    def __init__(self, at):
        self.at = at
        self.calls = []
        self.interrupted = threading.Event()

    def call(self, asked, service, operation, **parameters):
        self.calls.append(operation)
        if operation == self.at:
            self.interrupted.set()
        if operation == "send_command" and self.at == "list_commands":
            raise Unreachable("no answer")
        return {
            "send_command": {"Command": {"CommandId": "c-1"}},
            "get_command_invocation": {"Status": "InProgress"},
            "list_commands": {"Commands": []},
        }.get(operation, {})


@pytest.fixture
def interrupted():
    def run(at):
        service = Service(at)
        commands = InstanceCommands(
            SystemsManager(SimpleNamespace(clients=service, run_id="run-1")), SimpleNamespace(id="i-1")
        )
        cancel_waits_on(service.interrupted)
        with pytest.raises(Cancelled):
            commands.run("sleep 60", timeout_s=60, reach_s=1)
        return service.calls

    yield run
    cancel_waits_on(None)


def test_the_command_is_cancelled(interrupted):
    calls = interrupted("get_command_invocation")
    assert (calls.count("send_command"), calls[-1]) == (1, "cancel_command")


def test_the_search_for_a_command_whose_answer_was_lost_ends_too(interrupted):
    assert interrupted("list_commands") == ["send_command", "list_commands"]
