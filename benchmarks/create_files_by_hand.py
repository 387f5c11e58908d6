"""Compare files created through the plugin with the same files created by a command line on the same host.

Both run in turn on one volume, each time on a new file system, because the kernel may still be busy with removed files.
The order changes from round to round. The benchmark compares the files per second between two marker files, the time
until a sync of the file system ends, and the CPU time. There are two command lines: a few lines of Python, and dd in a
loop, which starts one process per file.

The ratio is computed per round, because the machine's other load changes between rounds. The median of the ratios is
shown with its 95 % interval. If the required ratio lies inside the interval, the machine was too busy to decide. CPU
time depends less on other load. The plugin's is that of the processes that create the files, without polling; by hand
it is that of the whole command line.
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

REQUIRED = 0.95
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
    """Run the command line; return the seconds until written, until on the device, and of CPU time."""
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
    """Return the 95 % interval of the median by order statistics; the whole range for few values."""
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
        if number == 0:  # the first round uses memory of this machine for the first time
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
        outcome = "held" if low >= REQUIRED else "missed" if high < REQUIRED else "undecided: this machine is too busy"
        print(
            f"by {{method}}, {{what}}: ratio {{statistics.median(ratios):.3f}} ({{low:.3f}} to {{high:.3f}} over "
            f"{{len(ratios)}} rounds); required: at least {{REQUIRED}}: {{outcome}}"
        )
'''


def main() -> None:
    """Run both in turn on one volume, for each method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument(
        "--dd-files", type=int, default=2_000, help="files created by dd, one process each; 0: none"
    )
    parser.add_argument("--filesystem", choices=("xfs", "ext4"), default="xfs")
    options = parser.parse_args()
    ways = [("python", options.files, options.rounds), ("dd", options.dd_files, options.rounds)]
    test = TEST.format(ways=[way for way in ways if way[1]], filesystem=options.filesystem, count="{count}")
    sys.exit(run_session(test).returncode)


if __name__ == "__main__":
    main()
