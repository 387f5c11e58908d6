"""The shell script of one end of a run, which starts its iperf3 processes together, and their command lines.

The script needs sh, coreutils and grep. Samples for the live line also need ip (iproute2) and sed, and are left out
if these are missing.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from pytest_cloudbench.workloads.iperf3.plan import Plan, ProcessShare
from pytest_cloudbench.workloads.iperf3.tool import CONNECT_TIMEOUT_SINCE

CONNECT_WITHIN_MS = 10_000
SCRIPT_FILE = "load"
CODES_FILE = "exit_codes"
"""One line with the exit code of each process, written once all have ended."""
PIDS_FILE = "pids"
_SAMPLED_EVERY_S = 1
_GUARDED_EVERY_S = 5


def server_command(plan: Plan, port: int) -> tuple[str, ...]:
    """Return the command of a server for one client; it ends with that client."""
    # A server needs its own interval: the client does not send its own.
    return (plan.server.path, "-s", "-1", "-p", str(port), "-i", f"{plan.time.interval_s:g}", "--json")


def client_command(plan: Plan, share: ProcessShare, port: int) -> tuple[str, ...]:
    """Return the command of a client with its share of the streams, for the real time."""
    job, time = plan.job, plan.time
    words = [plan.client.path, "-c", plan.path.server_address, "-p", str(port), "-t", str(time.duration_s)]
    words += ["-i", f"{time.interval_s:g}", "-P", str(share.streams), "--json"]
    if plan.client.version >= CONNECT_TIMEOUT_SINCE:
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
    for option, value in (
        ("-b", share.stream_bits),
        ("-M", job.mss),
        ("-w", job.window and job.window.bytes),
        ("-l", job.length and job.length.bytes),
        ("-C", job.congestion),
        ("-S", None if job.dscp is None else job.dscp << 2),  # the upper six bits of the type of service
    ):
        if value is not None:
            words += [option, str(value)]
    return tuple(words)


_LOAD = """\
#!/bin/sh
pids=
begin() {{
    number=$1; shift
    "$@" > "process-$number.json" 2> "process-$number.err" &
    pids="$pids $!"
}}
nap() {{
    sleep "$1" &
    wait "$!"
}}
{sampling}
# Ends the processes after the limit, for the case that nobody else can: the client never connects, or the network
# never recovers.
guard() {{
    trap 'kill "$!" 2> /dev/null; exit 0' TERM
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
# Started before any trap is set here: until a child has its own trap, a signal would run this script's.
guard & guard=$!
# An interrupt is meant for the iperf3 processes, which then write their results; this script waits for them.
trap : INT TERM
sample
{wait}{commands}
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
# Prints the uptime and the bytes received and sent by the interface that leads to the server; only the uptime if that
# interface is unknown. Starts no process.
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
# Usage: DIRECTORY TENTHS PORT... (hexadecimal). Exits 0 once the job's processes listen on all ports, 1 if they do not
# listen in time, 2 if they ended before.
directory=$1 left=$2
shift 2
ours() {{
    # Another process may listen on a port that was free a moment ago: check that the socket belongs to this job.
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
    commands: Sequence[Sequence[str]],
    *,
    limit_s: int,
    sampled_address: str | None = None,
    start_in_s: float = 0.0,
) -> bytes:
    """Return a script that runs `commands` side by side and ends with the last of them.

    Process N (from 1) writes process-N.json and process-N.err; the exit codes go into one file. After `limit_s` the
    processes are interrupted, then killed. sampled_address: also write "UPTIME RECEIVED SENT" (seconds, bytes) once a
    second for the interface that leads to this address, or "UPTIME" if there is none. start_in_s: wait so long first.
    """
    begin = [f"begin {number} {shlex.join(command)}" for number, command in enumerate(commands, 1)]
    sampling = _NO_SAMPLE if sampled_address is None else _SAMPLE.format(address=shlex.quote(sampled_address))
    return _LOAD.format(
        sampling=sampling,
        limit_s=limit_s,
        step_s=_GUARDED_EVERY_S if sampled_address is None else _SAMPLED_EVERY_S,
        commands="\n".join(begin),
        wait=f"nap {start_in_s:.3f}\n" if start_in_s else "",
        codes=CODES_FILE,
        pids=PIDS_FILE,
    ).encode()


def process_files(number: int) -> tuple[str, str]:
    """Return the file names of the output and of the error text of process `number` (from 1)."""
    return f"process-{number}.json", f"process-{number}.err"
