"""Workers of pytest-xdist use one region, whose hosts and volumes are removed once."""

from __future__ import annotations

import pytest
from inner_runs import command_of, finish, region_of, start_pytest, wait_until

pytestmark = pytest.mark.embedded

BESIDE = """
import os
import time

import boto3
import pytest


def running(access):
    client = boto3.client(
        "ec2", endpoint_url=access.endpoint_url, region_name=access.region,
        aws_access_key_id=access.access_key, aws_secret_access_key=access.secret_key,
    )
    pages = client.get_paginator("describe_instances").paginate()
    return [one["InstanceId"] for page in pages for each in page["Reservations"] for one in each["Instances"]]


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.parametrize("number", [1, 2])
def test_the_other_worker_s_instance_is_there(number, ec2_instance, _cloudbench_access):
    print("WORKER", os.environ["PYTEST_XDIST_WORKER"], ec2_instance.run(["hostname"]).stdout)
    deadline = time.monotonic() + 60
    while len(set(running(_cloudbench_access))) < 2:
        assert time.monotonic() < deadline, "this region has one instance"
        time.sleep(0.05)
"""


def test_two_workers_share_one_region_that_ends_with_the_session(tmp_path):
    process = start_pytest(tmp_path, BESIDE, "-n", "2", "-rP")
    wait_until(lambda: region_of(process.pid) or process.poll() is not None, "the start of a region")
    region = region_of(process.pid)
    ended = finish(process, tmp_path)
    assert ended.code == 0, ended.output
    workers = {line.split()[1] for line in ended.output.splitlines() if line.startswith("WORKER")}
    assert workers == {"gw0", "gw1"}
    assert region
    assert not any(command_of(pid) for pid in region)


LOADS = """
from datetime import datetime

import pytest
from pytest_cloudbench import gp3


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=1))
@pytest.mark.parametrize("number", [1, 2])
def test_load(number, ebs_volume, fio):
    run = fio(ebs_volume, rw="randread", iodepth=1, runtime=2)
    print("LOAD", datetime.fromisoformat(run.started_at).timestamp())
"""


def test_one_worker_at_a_time_measures_on_the_embedded_region(tmp_path):
    ended = finish(start_pytest(tmp_path, LOADS, "-n", "2", "-rP"), tmp_path)
    assert ended.code == 0, ended.output
    first, second = sorted(float(line.split()[1]) for line in ended.output.splitlines() if "LOAD " in line)
    assert second - first >= 2, ended.output
