"""A recorded session: its calls reach the real cloud, hosts and workloads, and are written to evidence."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pytest_cloudbench.aws.access import is_loopback_url
from pytest_cloudbench.evidence.plain_values import WorkloadRequest, call_arguments
from pytest_cloudbench.evidence.recorded_calls import CallRecorder
from pytest_cloudbench.hosts.host import Host, HostListener
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import LaunchedInstance
from pytest_cloudbench.resources.provider import InterceptedProvider, Provider
from pytest_cloudbench.session.keeper import Keeper
from pytest_cloudbench.session.session import RECORDER_PLUGIN, new_recorder

T = TypeVar("T")


class Recording(Keeper):
    """Records all that the session's tests do. The first test creates the folder."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self.recorder = new_recorder(config, folder)
        self._calls = CallRecorder(self.recorder, _between_tests)
        self._cloud: Provider | None = None
        self._noted: set[tuple[str, str]] = set()
        config.pluginmanager.register(self.recorder, RECORDER_PLUGIN)

    def cloud(
        self,
        item: pytest.Item,
        opened: Callable[[], Provider],
        shared: Callable[[Provider], Provider],
        running: Callable[[], pytest.Item] | None = None,
    ) -> Provider:
        """Return the real provider; its calls, answers and hosts are recorded."""
        self.recorder.open()
        cloud = shared(opened())
        if self._cloud is not cloud:
            self._cloud = cloud
            cloud.listen(self._calls.answer)
            # Done before anything that could contain the account is written. The launch reports a failure better.
            if self.recorder.cleaner.redacts:
                with contextlib.suppress(CloudError):
                    self.recorder.cleaner.learn_account(cloud.identity().account)
        self.recorder.attempt(item)
        return RecordedCloud(cloud, functools.partial(self._called, cloud), self._calls)

    def begins(self, item: pytest.Item) -> None:
        """Begin the test's record."""
        self.recorder.attempt(item)

    def prepared(self, item: pytest.Item, name: str, target: Any, run: Callable[[], T]) -> T:
        """Prepare storage; record the result and the commands."""
        self.recorder.attempt(item)
        return self._calls.operation(target.host.label, name, [target], run)

    def workload(self, item: pytest.Item, request: WorkloadRequest, run: Callable[[], T]) -> T:
        """Run a workload; record its arguments, its measurement, and its commands."""
        return self.recorder.workload(item, request, run)

    def _called(self, cloud: Provider, name: str, arguments: list[Any], call: Callable[[], T]) -> T:
        result = self._calls.call(name, arguments, call)
        launched = [each for each in _each(result) if hasattr(each, "limits") and hasattr(each, "tags")]
        for instance in launched:
            self._calls.known_before("describe_instance_types", {"InstanceTypes": [instance.type]})
        if launched and (known := (cloud.label, cloud.endpoint)) not in self._noted:
            self._noted.add(known)
            with self.recorder.guarded("the region and whose the credentials are"):
                self._note_cloud(cloud, launched[0])
        return result

    def _note_cloud(self, cloud: Provider, instance: LaunchedInstance) -> None:
        self.recorder.cleaner.learn(instance.private_key)
        identity, machine = cloud.identity(), instance.machine_limits
        self.recorder.note(
            "cloud",
            label=cloud.label,
            region=cloud.region,
            endpoint=cloud.endpoint,
            on_this_machine=is_loopback_url(cloud.endpoint),
            identity={"account": identity.account, "arn": identity.arn},
            cloud_run=cloud.run_id,
            time_compression=instance.time_compression,
            modelled_latency=instance.modelled_latency,
            machine=None
            if machine is None
            else {
                "iops": machine.iops.per_second,
                "bytes_per_second": machine.throughput.bytes_per_second,
                "network_bytes_per_second": machine.network.bytes_per_second if machine.network else None,
                "room_bytes": machine.room.bytes if machine.room else None,
                "source": machine.source,
            },
        )


class RecordedCloud(InterceptedProvider):
    """A provider whose calls and hosts are recorded."""

    def __init__(
        self,
        provider: Provider,
        called: Callable[[str, list[Any], Callable[[], Any]], Any],
        listener: HostListener,
    ) -> None:
        self._provider = provider
        self._called = called
        self._listener = listener
        self.label, self.region = provider.label, provider.region
        self.endpoint, self.run_id = provider.endpoint, provider.run_id

    def host(self, instance: LaunchedInstance, *, connect_timeout_s: float) -> Host:
        """Return the instance's host; commands, jobs and operations on it are recorded."""
        host = self._provider.host(instance, connect_timeout_s=connect_timeout_s)
        host.listener = self._listener
        return host

    def _intercept(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        call = functools.partial(getattr(self._provider, name), *args, **kwargs)
        return self._called(name, call_arguments(args, kwargs), call)


def _between_tests() -> bool:
    """Return True in a thread that releases, renews, connects or launches ahead: another test may run now."""
    from pytest_cloudbench.aws.lease import RENEWING
    from pytest_cloudbench.aws.removal import RELEASING
    from pytest_cloudbench.resources.ahead import LAUNCHING
    from pytest_cloudbench.resources.instance import CONNECTING

    return threading.current_thread().name.startswith((CONNECTING, LAUNCHING, RELEASING, RENEWING))


def _each(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)
