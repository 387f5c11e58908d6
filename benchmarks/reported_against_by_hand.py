"""Compare the plugin's figure with that of the same fio command run by hand on the same host.

Both run in turn, with 4 s of ramp and 10 s of measurement each, so that differences at the start of a load do not
count.
"""

from __future__ import annotations

import argparse
import sys

from pytest_session import run_session

TEST = '''
import json
import statistics
import subprocess

import pytest
from pytest_cloudbench import io2

ROUNDS = {rounds}


def by_hand(instance, key_file, device):
    """Run fio by ssh, as a user would."""
    command = (
        f"sudo fio --name=hand --filename={{device}} --rw={{RW}} --bs={{BS}} --iodepth=16 --numjobs=16 "
        "--ioengine=libaio --direct=1 --time_based --runtime=10 --ramp_time=4 --group_reporting --output-format=json"
    )
    launched = instance.launched
    options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    ssh = ["ssh", "-i", str(key_file), *options, f"{{launched.login_user}}@{{launched.address}}", command]
    text = subprocess.run(ssh, check=True, capture_output=True, text=True).stdout
    job = json.loads(text[text.index("{{") :])["jobs"][0]
    return job["read"]["iops"] + job["write"]["iops"]


RW, BS = "randread", "4k"


@pytest.mark.ec2_instance("c5.18xlarge")
@pytest.mark.ebs_volume(io2(size_gib=80, iops={iops}))
def test_it(ec2_instance, ebs_volume, fio, tmp_path):
    key_file = tmp_path / "key"
    key_file.touch(mode=0o600)
    key_file.write_text(ec2_instance.launched.private_key)
    ratios = []
    for _ in range(ROUNDS):
        reported = fio(ebs_volume, rw=RW, bs=BS, iodepth=16, numjobs=16, runtime=10, ramp_time=4).iops
        typed = by_hand(ec2_instance, key_file, ebs_volume.path)
        ratios.append(reported / typed)
        print(f"reported {{reported:,.0f}} IOPS, by hand {{typed:,.0f}} IOPS, ratio {{ratios[-1]:.4f}}")
    print(f"median ratio {{statistics.median(ratios):.4f}}; required: within 0.5 % of 1")
'''


def main() -> None:
    """Run both in turn on one volume."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iops", type=int, default=80_000)
    options = parser.parse_args()
    sys.exit(run_session(TEST.format(rounds=options.rounds, iops=options.iops)).returncode)


if __name__ == "__main__":
    main()
