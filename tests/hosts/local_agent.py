"""A model of SSM Run Command for this machine: scripts really run, within the documented limits of the service."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import subprocess
import threading
from typing import Any

import pytest

from pytest_cloudbench.hosts.errors import ConnectionDropped, HostUnreachable
from pytest_cloudbench.hosts.ssm import SsmHost, Written

each_way = pytest.mark.parametrize("host", ["ssh", "ssm"], indirect=True)
"""Runs a test on this machine by SSH, and by the model of SSM."""
STDOUT_CHARS, STDERR_CHARS = 24_000, 8_000
DOCUMENT_BYTES = 64 * 1024


class LocalAgent:
    """Runs scripts as SSM does. `sent` has every script that ran, `reach_s` how long each could wait for the agent.

    lost: how many of the next results are lost, after their scripts have ended. repeated: each script runs twice, as
    after a restart of the host.
    """

    def __init__(self, bucket: str = "") -> None:
        self.bucket = bucket
        self.sent: list[str] = []
        self.stored: list[str] = []
        self.reach_s: list[float] = []
        self.online = True
        self.lost = 0
        self.repeated = False
        self._started: list[threading.Thread] = []

    def wait_until_online(self, timeout_s: float) -> None:
        if not self.online:
            raise HostUnreachable("the SSM agent is not online")

    def run(self, script: str, *, timeout_s: float, reach_s: float, through_bucket: bool = False) -> Written:
        assert len(script.encode()) < DOCUMENT_BYTES
        self.wait_until_online(reach_s)
        self.sent.append(script)
        self.reach_s.append(reach_s)
        stdout, stderr = _run(script, timeout_s)
        if self.repeated:
            stdout, stderr = _run(script, timeout_s)
        if self.lost:
            self.lost -= 1
            raise ConnectionDropped("it is unknown how the command ended")
        if through_bucket:
            assert self.bucket
            self.stored.append(stdout)
            return Written(stdout, stderr)
        return Written(stdout[:STDOUT_CHARS], stderr[:STDERR_CHARS])

    def start(self, script: str) -> None:
        def work() -> None:
            with contextlib.suppress(TimeoutError):
                _run(script, 20)

        self._started.append(threading.Thread(target=work))
        self._started[-1].start()

    def finish(self) -> None:
        """Wait for the scripts that nobody waits for."""
        for thread in self._started:
            thread.join()

    def connect(self, **changes: Any) -> SsmHost:
        """Return this machine as a host; keywords replace those of `SsmHost`."""
        options = {"address": "127.0.0.1", "user": getpass.getuser(), "reconnect_timeout_s": 10.0}
        return SsmHost("instance i-0test", self, **(options | changes))


def _run(script: str, timeout_s: float) -> tuple[str, str]:
    running = subprocess.Popen(
        ["sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        env={"PATH": os.environ["PATH"], "AGENT": "local"},
        start_new_session=True,
    )
    try:
        return running.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        raise TimeoutError from None
