"""The lease of instances: the timer in the instance, its renewal, and what ends with it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.aws import lease
from pytest_cloudbench.aws.lease import LEASE_TAG, lease_end, parse_lease, timer_command
from pytest_cloudbench.aws.user_data import LARGEST_BYTES, cloud_config, new_host_key


@given(st.floats(lease.SHORTEST_LEASE_S, lease.LONGEST_LEASE_S))
def test_a_lease_in_range_is_read_in_seconds(seconds):
    assert parse_lease(f"{seconds:.3f}s") == pytest.approx(seconds, abs=0.001)


@pytest.mark.parametrize("text", ["0.5s", "4s", "200h", "-1h", "1", "90", "1,5h", "soon", ""])
def test_a_lease_out_of_range_or_without_a_unit_is_refused(text):
    with pytest.raises(ValueError, match=r"lease|duration|unit"):
        parse_lease(text)


def test_every_boot_begins_a_lease():
    text = cloud_config(new_host_key(), ["touch /tmp/x"], lease_s=90.2)
    config = json.loads(text.partition("\n")[2])
    assert config["bootcmd"] == [timer_command(90.2)]
    assert config["bootcmd"][0][-1] == "91"
    assert len(text) < LARGEST_BYTES / 4  # the rest is for the test's commands


class Instance:
    """The timer of an instance as processes of this machine, without systemd; ``poweroff`` writes a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.off = folder / "off"
        self._command("poweroff", f"echo > {self.off}")

    def _command(self, name: str, line: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (self.folder / name).chmod(0o755)

    def run(self, argv: list[str]) -> None:
        here = [
            word.replace(lease._END, str(self.folder / "end")).replace(
                "/run/systemd", f"{self.folder}/systemd"
            )
            for word in argv
        ]
        environment = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        subprocess.run(here, check=True, env=environment, timeout=10)

    def wait_until_off(self, limit_s: float) -> float:
        """Return how many seconds it took."""
        began = time.monotonic()
        while not self.off.exists():
            assert time.monotonic() - began < limit_s, "it did not power off"
            time.sleep(0.02)
        return time.monotonic() - began

    def with_systemd(self, works: bool) -> None:
        (self.folder / "systemd" / "system").mkdir(parents=True)
        line = 'echo "$@" > "${0%/*}/unit"; while [ "$1" != /bin/sh ]; do shift; done; setsid "$@" &'
        self._command("systemd-run", line if works else "exit 1")


@pytest.fixture
def instance(tmp_path):
    return Instance(tmp_path)


def test_an_instance_powers_off_when_its_lease_ends(instance):
    began = time.time()
    instance.run(timer_command(1.0))
    instance.wait_until_off(15)
    assert time.time() - began >= 0.9  # whole seconds of the clock


def test_a_renewed_lease_ends_later(instance):
    instance.run(timer_command(2.0))
    renewed = time.time()
    instance.run(["sh", "-c", lease._RENEW, "sh", "4"])
    instance.wait_until_off(20)
    assert time.time() - renewed >= 2.9


@pytest.mark.parametrize("works", [True, False])
def test_the_timer_is_a_service_of_systemd_if_that_runs(instance, works):
    instance.with_systemd(works)
    instance.run(timer_command(1.0))
    instance.wait_until_off(15)
    assert (instance.folder / "unit").exists() == works


def test_the_tag_is_a_time_in_utc():
    end = datetime.fromisoformat(lease_end(3600))
    assert end.utcoffset() == timedelta(0)
    assert abs((end - datetime.now(timezone.utc)).total_seconds() - 3600) < 5
    assert LEASE_TAG == "cloudbench:lease-until"
