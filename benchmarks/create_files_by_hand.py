"""Files created through the plugin against the same files created by what a person types into the same host.

Both run in turn on one volume, each time on a new file system, so that neither works beside what the kernel still
does about files that were removed; who is first changes from round to round. Compared are files per second between
the marker files made before the first and after the last, and the time until a sync of the file system is through.
Two ways of typing it: a few lines of Python, and dd in a loop, which starts a process for every file.

The ratio is taken round by round, since what else the machine does changes from one to the next; the median of the
ratios comes with the interval that holds it with 95 %. Where the wanted figure lies inside, the machine was too busy
to tell. Processor time depends less on that; the plugin's is that of the processes that create the files, without its
looks at them, by hand it is that of the whole line.
"""

from __future__ import annotations

import argparse
import sys

from pytest_session import run_session

TEST = '''
import math
import shlex
import statistics
import subprocess
import time

import pytest
from pytest_cloudbench import io2

WANTED = 0.95
PYTHON = """python3 -c '
import os
block = os.urandom(4096)
for number in range(1, {count} + 1):
    file = os.open("file%d" % number, os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(file, block)
    os.close(file)
'"""
DD = "for i in $(seq 1 {count}); do dd if=/dev/zero of=file$i bs=4k count=1 2> /dev/null; done"
TYPED = (
    "mkdir by-hand && cd by-hand && sync -f . && touch start && {{ {{loop}}; }} && touch end && sync -f . && "
    "touch synced && stat -c %.9Y start end synced && times > times && cat times"
)


def by_hand(instance, key_file, folder, loop):
    """What a person types: files per second until written, and until on the device."""
    launched = instance.launched
    options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    command = f"cd {{shlex.quote(folder)}} && " + TYPED.replace("{{loop}}", loop)
    ssh = ["ssh", "-i", str(key_file), *options, f"{{launched.login_user}}@{{launched.address}}", command]
    text = subprocess.run(ssh, check=True, capture_output=True, text=True).stdout
    start, end, synced, *cpu = text.split()
    minutes_and_seconds = (word.rstrip("s").split("m") for word in cpu)
    cpu_s = sum(60 * float(minutes) + float(seconds) for minutes, seconds in minutes_and_seconds)
    return float(end) - float(start), float(synced) - float(start), cpu_s


def by_plugin(create_files, data, count, method):
    content = "zero" if method == "dd" else "random"
    run = create_files(data, count=count, size="4k", method=method, content=content, keep=True)
    return run.markers_s, run.on_device_s, run.generator.cpu_percent_total / 100 * run.elapsed_s


def interval(ratios):
    """Where the median lies with at least 95 %, by the order of the values alone; all of them where they are few."""
    ordered, count = sorted(ratios), len(ratios)
    beyond, outside = 0, 2 * 0.5**count
    while outside <= 0.05:
        beyond += 1
        outside += 2 * math.comb(count, beyond) * 0.5**count
    cut = max(0, beyond - 1)
    return ordered[cut], ordered[count - 1 - cut]


@pytest.mark.ec2_instance("c5.18xlarge")
@pytest.mark.ebs_volume(io2(size_gib=80, iops=80_000))
@pytest.mark.parametrize(("method", "count", "rounds"), {ways})
def test_it(ec2_instance, ebs_volume, create_files, tmp_path, method, count, rounds):
    key_file = tmp_path / "key"
    key_file.touch(mode=0o600)
    key_file.write_text(ec2_instance.launched.private_key)
    loop = (PYTHON if method == "python" else DD).replace("{{count}}", str(count))

    def plugin():
        return by_plugin(create_files, ebs_volume.mounted("{filesystem}", overwrite=True), count, method)

    def hand():
        data = ebs_volume.mounted("{filesystem}", overwrite=True)
        return by_hand(ec2_instance, key_file, data.path, loop)

    taken = {{plugin: [], hand: []}}
    print()
    for number in range(rounds + 1):
        for way in (plugin, hand) if number % 2 else (hand, plugin):
            taken[way].append(way())
        if number == 0:  # the first touches memory of this machine that nobody has touched before
            continue
        plugin_s, hand_s = taken[plugin][-1], taken[hand][-1]
        print(
            f"{{count:,}} files of 4 KiB by {{method}}: plugin {{count / plugin_s[0]:,.0f}} files/s, by hand "
            f"{{count / hand_s[0]:,.0f}} files/s, ratio {{hand_s[0] / plugin_s[0]:.3f}}; until on the device "
            f"{{plugin_s[1]:.2f}} s and {{hand_s[1]:.2f}} s; processor {{plugin_s[2]:.2f}} s and {{hand_s[2]:.2f}} s"
        )
    for number, what in enumerate(("speed until written", "speed until on the device", "processor time")):
        pairs = list(zip(taken[plugin], taken[hand], strict=True))[1:]
        ratios = [theirs[number] / mine[number] for mine, theirs in pairs]
        low, high = interval(ratios)
        said = "held" if low >= WANTED else "missed" if high < WANTED else "undecided on this machine as busy as it is"
        print(
            f"by {{method}}, {{what}}: ratio {{statistics.median(ratios):.3f}} ({{low:.3f}} to {{high:.3f}} over "
            f"{{len(ratios)}} rounds); wanted: at least {{WANTED}}: {{said}}"
        )
'''


def main() -> None:
    """Run both in turn on one volume, in each of the ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--dd-files", type=int, default=2_000, help="by dd, a process each; 0 leaves it out")
    parser.add_argument("--filesystem", choices=("xfs", "ext4"), default="xfs")
    options = parser.parse_args()
    ways = [("python", options.files, options.rounds), ("dd", options.dd_files, options.rounds)]
    test = TEST.format(ways=[way for way in ways if way[1]], filesystem=options.filesystem, count="{count}")
    sys.exit(run_session(test).returncode)


if __name__ == "__main__":
    main()
