"""A session that is replayed: no cloud, no hosts; everything is answered from an evidence folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

from pytest_cloudbench.evidence.kept_values import call_arguments
from pytest_cloudbench.evidence.replay import NotRecorded, Replay, ReplayedTest
from pytest_cloudbench.session.session import OTHERWISE_PROPERTY

if TYPE_CHECKING:
    from pytest_cloudbench.aws.cloud import Cloud
    from pytest_cloudbench.hosts.command import CommandResult
    from pytest_cloudbench.hosts.connection import HostConnection
    from pytest_cloudbench.verdicts.verdict import Verdict

T = TypeVar("T")

_QUESTIONS = ("check", "limits", "place", "image", "identity", "refresh", "console", "remaining")
_LOOKS = ("read_", "find_", "prove_", "inspect_", "refuse_", "instance_store")
"""What only asks, as its name says: asked once more than when it was recorded, it is answered as the last time."""


class Replaying:
    """Answers a session's tests from their records."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._replay = Replay(folder)
        config.pluginmanager.register(self, "cloudbench-replay")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Each attempt of a test begins at the start of its record."""
        self._replay.begin(item.nodeid)

    def cloud(self, item: pytest.Item, opened: Callable[[], Cloud]) -> Cloud:
        """A control plane that answers as the real one did."""
        return cast("Cloud", ReplayedCloud(self._replay.test(item.nodeid)))

    def host(self, item: pytest.Item, address: str, **how: Any) -> HostConnection:
        """A host that answers as the real one did."""
        return cast("HostConnection", ReplayedHost(self._replay.test(item.nodeid), address, **how))

    def prepared(self, item: pytest.Item, name: str, target: Any, run: Callable[[], T]) -> T:
        """What preparing it gave."""
        test = self._replay.test(item.nodeid)
        result: T = test.operation(target.runner.label, name, [target], repeatable=False)
        return result

    def workload(
        self,
        item: pytest.Item,
        name: str,
        target: object,
        arguments: Mapping[str, Any],
        run: Callable[[], T],
    ) -> T:
        """What it measured then; its errors are raised again."""
        result: T = self._replay.test(item.nodeid).workload(name, target, arguments)
        return result

    def part_measured(self, item: pytest.Item, measurement: Any) -> None:
        """Nothing is kept of a replay."""

    def measured_as(self, item: pytest.Item) -> str | None:
        """Nothing is kept of a replay."""
        return None

    def verdict(self, item: pytest.Item, verdict: Verdict, of: str | None) -> None:
        """Say where it is another one than when it was measured."""
        then = self._replay.test(item.nodeid).verdict_then(verdict)
        if then is not None:
            item.user_properties.append(
                (OTHERWISE_PROPERTY, f"judged otherwise than then, when it was {then}")
            )


class ReplayedCloud:
    """Answers every call of the control plane by its name and arguments."""

    def __init__(self, test: ReplayedTest) -> None:
        self._test = test

    @property
    def region(self) -> str:
        """The region that was measured in."""
        return str(self._noted.get("region", ""))

    @property
    def endpoint(self) -> str:
        """The endpoint it had."""
        return str(self._noted.get("endpoint", ""))

    @property
    def answers(self) -> tuple[()]:
        """None: they are in the evidence."""
        return ()

    @property
    def _noted(self) -> dict[str, Any]:
        return next(iter(self._test.recorded.evidence.clouds), {})

    def release(self, resources: object) -> None:
        """There is nothing to give back."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            arguments = call_arguments(args, kwargs)
            return self._test.call(name, arguments, repeatable=name.startswith(_QUESTIONS))

        return call


class ReplayedHost:
    """Answers every operation and command on a host; nothing is connected."""

    def __init__(
        self,
        test: ReplayedTest,
        address: str,
        *,
        user: str = "",
        label: str | None = None,
        connect_timeout_s: float = 0.0,
        reconnect_timeout_s: float = 0.0,
        **_: Any,
    ) -> None:
        self.address = address
        self.user = user
        self.label = label or f"host {address}"
        self.listener = None
        self.connect_timeout_s = connect_timeout_s
        self.reconnect_timeout_s = reconnect_timeout_s
        self._test = test
        self._tools: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<{self.label} {self.user}@{self.address}, replayed>"

    def connect(self, timeout_s: float | None = None) -> None:
        """Nothing is connected."""

    def close(self) -> None:
        """Nothing is connected."""

    def drop(self) -> None:
        """Nothing is connected."""

    def forget_boot(self) -> None:
        """Nothing is connected."""

    def run(
        self,
        argv: Sequence[str],
        *,
        sudo: bool = False,
        check: bool = True,
        timeout_s: float = 60.0,
        idempotent: bool = False,
        stdin: bytes | None = None,
        heard: bool = True,
    ) -> CommandResult:
        """How the command ended then. Raises CommandFailed, NotRecorded."""
        from pytest_cloudbench.hosts.command import CommandResult, checked_argv
        from pytest_cloudbench.hosts.errors import CommandFailed

        words = checked_argv(argv)
        exit_code, stdout, stderr, seconds = self._test.command(self.label, list(words), sudo=sudo)
        if check and exit_code != 0:
            raise CommandFailed(self.label, words, exit_code, stdout, stderr)
        return CommandResult(words, stdout, stderr, exit_code, seconds, stdout.encode())

    def perform(self, name: str, arguments: list[Any], run: Callable[[], T]) -> T:
        """What the piece of work gave then."""
        result: T = self._test.operation(self.label, name, arguments, repeatable=name.startswith(_LOOKS))
        return result

    def start_job(self, argv: Sequence[str], *, name: str = "job", **_: Any) -> Any:
        """Raise NotRecorded: what a job of the test's own left behind is not kept."""
        raise NotRecorded(f"the job `{' '.join(argv)}` on {self.label} is not replayed: only workloads are")

    def ensure_tool(self, name: str) -> str:
        """Path of the tool on the host, as it was found then."""
        from pytest_cloudbench.hosts.tools import ensure_tool

        if name not in self._tools:
            self._tools[name] = ensure_tool(cast("HostConnection", self), name)
        return self._tools[name]
