"""Instances behind a bastion: one instance is the bastion, and another session reaches its own through it."""

from __future__ import annotations

import dataclasses
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_cloudbench import Instance

pytestmark = pytest.mark.embedded

_IN_THIS_REGION = """
from pytest_cloudbench import launcher

launcher.kept_region_with = lambda *asked: launcher.RegionRecord.from_json({record!r})
"""

_BEHIND = """
import pytest
from pytest_cloudbench import gp3

HERE = ["sh", "-c", "echo $SSH_CONNECTION"]

@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=1))
def test_behind(ec2_instance, ebs_volume, fio):
    print("FROM", ec2_instance.run(HERE).stdout)
    assert fio(ebs_volume, rw="randread", bs="4k", rate_iops=300, runtime=2).reaches("270 IOPS")
    ec2_instance.reboot()
    print("FROM", ec2_instance.run(HERE).stdout)
"""


@pytest.mark.ec2_instance("t3.micro")
def test_a_session_reaches_its_instances_through_a_bastion(
    ec2_instance: Instance, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    bastion, access = ec2_instance.launched, request.getfixturevalue("_cloudbench_access")
    own = tmp_path / ".ssh"
    own.mkdir()
    key = own / "id_ed25519"
    key.touch(mode=0o600)
    key.write_text(bastion.private_key)
    (own / "known_hosts").write_text(f"{bastion.address} {bastion.host_public_key}\n")
    check = access.check_region  # of the region that this session has started, or of one that is kept
    record = check.args[0] if isinstance(check, functools.partial) else check.__self__.record
    (tmp_path / "conftest.py").write_text(_IN_THIS_REGION.format(record=dataclasses.asdict(record)))
    (tmp_path / "test_behind.py").write_text(_BEHIND)
    jump = f"--cloudbench-jump={bastion.login_user}@{bastion.address}"
    ended = _pytest(tmp_path, jump, f"--cloudbench-ssh-from={bastion.private_ip}/32")
    assert ended.returncode == 0, ended.stdout
    came_from = [line.split()[1] for line in ended.stdout.splitlines() if line.startswith("FROM")]
    assert came_from == [bastion.private_ip] * 2


def _pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rP", *options],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=180,
        check=False,
    )
