"""A replayed session: an evidence folder answers in place of the cloud, hosts and workloads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest

from pytest_cloudbench.evidence.plain_values import WorkloadRequest, call_arguments
from pytest_cloudbench.evidence.replay import NotRecorded, Replay, ReplayedTest
from pytest_cloudbench.hosts.host import REPEATABLE_OPERATIONS, Command, CommandResult, Host
from pytest_cloudbench.hosts.shell_host import ShellHost
from pytest_cloudbench.reports.properties import add_changed_verdict
from pytest_cloudbench.resources.facts import LaunchedInstance
from pytest_cloudbench.resources.provider import READ_ONLY_CALLS, InterceptedProvider, Provider
from pytest_cloudbench.resources.shared_hardware import CREATING
from pytest_cloudbench.session.keeper import Keeper

if TYPE_CHECKING:
    from pytest_cloudbench.verdicts.verdict import Verdict

T = TypeVar("T")


class Replaying(Keeper):
    """Answers a session's tests from their records; a pytest plugin."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._replay = Replay(folder)
        self._borrowing = ""
        config.pluginmanager.register(self, "cloudbench-replay")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Start each attempt of a test at the start of its record."""
        self._replay.begin(item.nodeid)

    def cloud(
        self,
        item: pytest.Item,
        opened: Callable[[], Provider],
        shared: Callable[[Provider], Provider],
        running: Callable[[], pytest.Item] | None = None,
    ) -> Provider:
        """Return a provider that answers as the real one did; nothing is opened."""
        if running is None:
            return shared(ReplayedCloud(lambda: self._record(item)))
        self._borrowing = item.nodeid
        return shared(ReplayedCloud(lambda: self._record(running())))

    def prepared(self, item: pytest.Item, name: str, target: Any, run: Callable[[], T]) -> T:
        """Return the recorded result."""
        test = self._record(item)
        result: T = test.operation(target.host.label, name, [target], repeatable=False)
        return result

    def workload(self, item: pytest.Item, request: WorkloadRequest, run: Callable[[], T]) -> T:
        """Return the recorded measurement, or raise the recorded error."""
        result: T = self._replay.test(item.nodeid).workload(request)
        return result

    def _record(self, item: pytest.Item) -> ReplayedTest:
        """Return a test's record. It may borrow answers if the test creates objects that outlive it.

        In the recording an earlier test may have created them, which may not be replayed now.
        """
        test = self._replay.test(item.nodeid)
        if item.nodeid == self._borrowing:
            test.borrow_from(lambda: self._replay.before(item.nodeid))
        return test

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_verdict(self, item: pytest.Item, verdict: Verdict) -> None:
        """Report a verdict whose outcome differs from the recorded one."""
        then = self._replay.test(item.nodeid).verdict_then(verdict)
        if then is not None:
            add_changed_verdict(item, then)


class ReplayedCloud(InterceptedProvider):
    """Answers every call of a provider by its name and arguments, and returns hosts that are replayed."""

    def __init__(self, running: Callable[[], ReplayedTest]) -> None:
        self._running = running
        test = running()
        called = {entry.get("name") for entry in test.recorded.of_kind("call")}
        # Until 2026-11, only the first of several repeats on the same hardware recorded its creation.
        self.has_own_hardware = not called.isdisjoint(CREATING)
        noted = next(iter(test.recorded.evidence.clouds), {})
        self.label, self.region, self.endpoint, self.run_id = (
            str(noted.get(name) or "") for name in ("label", "region", "endpoint", "cloud_run")
        )

    def host(self, instance: LaunchedInstance, *, connect_timeout_s: float) -> Host:
        """Return a host that answers as the real one did."""
        return ReplayedHost(self._running, instance)

    def release(self, resources: object) -> None:
        """Do nothing: nothing was created."""

    def _intercept(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        arguments = call_arguments(args, kwargs)
        return self._running().call(name, arguments, repeatable=name in READ_ONLY_CALLS)


class ReplayedHost(ShellHost):
    """Answers every operation and command on a host from its record; nothing is connected."""

    def __init__(self, running: Callable[[], ReplayedTest], instance: LaunchedInstance) -> None:
        super().__init__(str(instance), address=instance.address or "", user=instance.login_user)
        self._running = running

    def execute(self, command: Command) -> CommandResult:
        """Return how the command ended when it was recorded. Raises NotRecorded."""
        exit_code, stdout, stderr, seconds = self._running().command(
            self.label, list(command.argv), sudo=command.sudo
        )
        return CommandResult(command.argv, stdout, stderr, exit_code, seconds, stdout.encode())

    def perform(self, name: str, arguments: Sequence[Any], run: Callable[[], T]) -> T:
        """Return what the operation returned when it was recorded, or raise its error."""
        repeatable = name in REPEATABLE_OPERATIONS
        result: T = self._running().operation(self.label, name, list(arguments), repeatable=repeatable)
        return result

    def start_job(self, argv: Sequence[str], **_: Any) -> NoReturn:
        """Raise NotRecorded: the files of a test's own jobs are not kept."""
        raise NotRecorded(f"the job `{' '.join(argv)}` on {self.label} is not replayed: only workloads are")
