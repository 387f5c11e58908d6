"""Compare the wall time of a fio run through the plugin with the same command by hand over the same connection."""

from __future__ import annotations

import argparse
import sys

from pytest_session import run_session

TEST = """
import statistics
import time

import pytest
from pytest_cloudbench import io2

ROUNDS, RUNTIME_S = {rounds}, {runtime}
BY_HAND = "cd $(mktemp -d) && {{}} > /dev/null && cat result.json && rm -r $PWD"


def seconds(call):
    began = time.monotonic()
    call()
    return time.monotonic() - began


@pytest.mark.ec2_instance("c5.18xlarge")
@pytest.mark.ebs_volume(io2(size_gib=80, iops=6_000))
def test_it(ec2_instance, ebs_volume, fio):
    def through_the_plugin():
        return fio(ebs_volume, rw="randread", bs="4k", iodepth=16, numjobs=4, runtime=RUNTIME_S)

    # The first run also examines the host and loads libraries.
    command = through_the_plugin().command
    by_hand = ["sh", "-c", BY_HAND.format(command)]
    over = []
    for _ in range(ROUNDS):
        plugin_s = seconds(through_the_plugin)
        hand_s = seconds(lambda: ec2_instance.host.run(by_hand, sudo=True, timeout_s=RUNTIME_S + 60))
        over.append(plugin_s - hand_s)
        print(f"through the plugin {{plugin_s:.2f}} s, by hand {{hand_s:.2f}} s: {{over[-1]:+.3f}} s")
    print(f"median {{statistics.median(over):+.3f}} s; required: at most 0.12 s")
"""


def main() -> None:
    """Run both in turn on one volume."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runtime", type=int, default=10)
    options = parser.parse_args()
    sys.exit(run_session(TEST.format(rounds=options.rounds, runtime=options.runtime)).returncode)


if __name__ == "__main__":
    main()
