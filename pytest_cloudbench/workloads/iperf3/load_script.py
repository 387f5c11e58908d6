"""The shell script that is one end of a run: its iperf3 processes side by side, started together.

It needs sh, coreutils and grep; the live line besides ip (iproute2) and sed, and goes without where these
are missing.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.plan import ProcessShare
from pytest_cloudbench.workloads.iperf3.tool import CONNECT_TIMEOUT_SINCE, HostIperf3
from pytest_cloudbench.workloads.pace import RunTime

CONNECT_WITHIN_MS = 10_000


def server_command(iperf3: HostIperf3, port: int, time: RunTime) -> tuple[str, ...]:
    """A server for one client: it ends with it."""
    # A server keeps its own interval: the client's does not reach it.
    return (iperf3.path, "-s", "-1", "-p", str(port), "-i", f"{time.interval_s:g}", "--json")


def client_command(
    iperf3: HostIperf3, job: Iperf3Job, share: ProcessShare, time: RunTime, *, address: str, port: int
) -> tuple[str, ...]:
    """A client with its share of the streams, for the time that really passes."""
    words = [iperf3.path, "-c", address, "-p", str(port), "-t", str(time.duration_s)]
    words += ["-i", f"{time.interval_s:g}", "-P", str(share.streams), "--json"]
    if iperf3.version >= CONNECT_TIMEOUT_SINCE:
        words += ["--connect-timeout", str(CONNECT_WITHIN_MS)]
    if time.omit_s:
        words += ["-O", str(time.omit_s)]
    for asked, option in (
        (job.udp, "-u"),
        (job.reverse, "-R"),
        (job.bidirectional, "--bidir"),
        (job.no_delay, "-N"),
        (job.zerocopy, "-Z"),
    ):
        if asked:
            words.append(option)
    if share.stream_bits is not None:
        words += ["-b", str(share.stream_bits)]
    if job.mss is not None:
        words += ["-M", str(job.mss)]
    if job.window is not None:
        words += ["-w", str(job.window.bytes)]
    if job.length is not None:
        words += ["-l", str(job.length.bytes)]
    if job.congestion is not None:
        words += ["-C", job.congestion]
    if job.dscp is not None:
        words += ["-S", str(job.dscp << 2)]  # the type of service holds the code point in its upper six bits
    return tuple(words)


SCRIPT_FILE = "load"
CODES_FILE = "exit_codes"
"""One line with the exit code of each process; it is there once all have ended."""
PIDS_FILE = "pids"

_SAMPLED_EVERY_S = 1
_GUARDED_EVERY_S = 5

_LOAD = """\
#!/bin/sh
pids=
begin() {{
    number=$1; shift
    "$@" > "process-$number.json" 2> "process-$number.err" &
    pids="$pids $!"
}}
nap() {{
    sleep "$1" & napping=$!
    wait "$napping"
}}
{sampling}
# Nobody may be left who would end this: a client that never comes, a network that never comes back.
guard() {{
    trap 'kill "$napping" 2> /dev/null; exit 0' TERM
    left={limit_s}
    while [ "$left" -gt 0 ]; do
        nap {step_s}
        left=$((left - {step_s}))
        sample
    done
    kill -s INT $(cat {pids}) 2> /dev/null
    nap 10
    kill -s KILL $(cat {pids}) 2> /dev/null
}}
# Before any trap is set here: a child that is ended before it has its own would run this script's instead.
guard & guard=$!
# An interrupt is for the iperf3 processes, which then write what they have; this script waits for that.
trap : INT TERM
sample
{commands}
echo "$pids" > {pids}
codes=
for pid in $pids; do
    wait "$pid"; code=$?
    # A signal to this script ends the wait, not the process.
    while kill -0 "$pid" 2> /dev/null; do wait "$pid"; code=$?; done
    codes="$codes $code"
done
echo "$codes" > {codes}.new && mv {codes}.new {codes}
kill "$guard" 2> /dev/null
wait "$guard" 2> /dev/null
exit 0
"""

_NO_SAMPLE = "sample() { :; }"

_SAMPLE = """\
# The bytes that the interface on the way to the server has received and sent, by the shell alone; the time
# alone where that interface is not known.
device=$(ip -o route get {address} 2> /dev/null | sed -n 's/.* dev \\([^ ]*\\).*/\\1/p')
sample() {{
    read -r up _ < /proc/uptime
    [ -n "$device" ] || {{ echo "$up"; return 0; }}
    while read -r name rx _ _ _ _ _ _ _ tx _; do
        [ "$name" = "$device:" ] && echo "$up $rx $tx"
    done < /proc/net/dev
    return 0
}}"""

LISTENING = f"""\
# Usage: DIRECTORY TENTHS PORT... (hexadecimal). Exits 0 once the job's processes listen on all ports, 1 when they
# do not within that time, 2 when they have ended before.
directory=$1 left=$2
shift 2
ours() {{
    # Somebody else may listen on a port that was free a moment ago: the socket must be one of these processes'.
    grep -h "^ *[0-9]*: [0-9A-F]*:$1 [0-9A-F:]* 0A " /proc/net/tcp /proc/net/tcp6 2> /dev/null |
        while read -r _ _ _ _ _ _ _ _ _ inode _; do
            for pid in $pids; do
                ls -l "/proc/$pid/fd" 2> /dev/null | grep -q "socket:.$inode.$" && echo yes
            done
        done
}}
while :; do
    pids=$(cat "$directory/{PIDS_FILE}" 2> /dev/null)
    missing=
    for port in "$@"; do
        [ -n "$(ours "$port")" ] || missing="$missing $port"
    done
    [ -z "$missing" ] && exit 0
    [ -f "$directory/{CODES_FILE}" ] && exit 2
    [ "$left" -gt 0 ] || exit 1
    left=$((left - 1))
    sleep 0.1
done
"""


def load_script(
    commands: Sequence[Sequence[str]], *, limit_s: int, sample_way_to: str | None = None
) -> bytes:
    """A script that runs `commands` side by side and ends with the last of them.

    Process N leaves process-N.json and process-N.err (N from 1), all together their exit codes. After
    `limit_s` they are interrupted, then killed. sample_way_to: also write once a second "UPTIME RECEIVED
    SENT" (seconds, bytes) of the interface that leads to this address, "UPTIME" where none is found.
    """
    begin = [f"begin {number} {shlex.join(command)}" for number, command in enumerate(commands, 1)]
    sampling = _NO_SAMPLE if sample_way_to is None else _SAMPLE.format(address=shlex.quote(sample_way_to))
    return _LOAD.format(
        sampling=sampling,
        limit_s=limit_s,
        step_s=_GUARDED_EVERY_S if sample_way_to is None else _SAMPLED_EVERY_S,
        commands="\n".join(begin),
        codes=CODES_FILE,
        pids=PIDS_FILE,
    ).encode()


def process_files(number: int) -> tuple[str, str]:
    """Names of the output and of the error text of process `number` (from 1)."""
    return f"process-{number}.json", f"process-{number}.err"
