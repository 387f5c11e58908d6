"""Why a job on a host ended without a result: restarted, out of memory, disk full, or killed by a signal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.limits.quantities import Size

# The kernel's log needs root on most hosts. journalctl may show it if dmesg is refused.
_LOOK = """\
cd -- "$1" || exit 1
read -r boot < /proc/sys/kernel/random/boot_id
read -r line < /proc/1/stat
set -- ${line##*) }
echo "now=$boot ${20}"
[ -f boot ] && echo "then=$(cat boot)"
[ -f pid ] && echo "pid=$(cat pid)"
df -B1 --output=avail,target . | tail -n 1 | sed 's/^ */room=/'
{ sudo -n dmesg || dmesg || journalctl -k -b -q --no-pager -o short-monotonic; } 2> /dev/null |
    grep -F 'Killed process' | tail -n 200 | sed 's/^/log=/'
exit 0
"""
_KILLED = re.compile(r"\[ *(\d+\.\d+)\].*Killed process (\d+) \(([^)]+)\)")
_TICKS_PER_S = 100
"""USER_HZ, the unit of start times in /proc (proc(5))."""
_FULL = Size(1 << 20)
_COMM = 15
"""How many characters of a program's name the kernel keeps (proc(5), comm)."""


def why_ended(host: Host, directory: str, argv: Sequence[str]) -> str:
    """Return why the job in this directory ended without a result, as the end of a sentence, by one command."""
    looked = host.run(["sh", "-c", _LOOK, "sh", directory], check=False, idempotent=True)
    return cause(looked.stdout, argv)


def cause(said: str, argv: Sequence[str]) -> str:
    """Return the cause shown by the output of `_LOOK`. Of programs that the kernel killed, only those in argv count."""
    programs = {word.rpartition("/")[2][:_COMM] for word in argv}
    facts: dict[str, list[str]] = {}
    for line in said.splitlines():
        name, _, value = line.partition("=")
        facts.setdefault(name, []).append(value)
    now, then = facts.get("now", [""])[0], facts.get("then", [""])[0]
    if then and now and then != now:
        return "its host was restarted"
    since_s = _started_s(facts.get("pid", [""])[0])
    for line in facts.get("log", []):
        found = _KILLED.search(line)
        if found is not None and float(found[1]) >= since_s and found[3] in programs:
            return f"its host was out of memory, and the kernel killed {found[3]} (process {found[2]}), as its log says"
    room, _, place = facts.get("room", [""])[0].partition(" ")
    if room.isdigit() and int(room) < _FULL.bytes:
        return f"the disk of its host is full: {place.strip()} has {Size(int(room))} left"
    if then:
        return (
            "it was killed on its host, by a signal: the host was not restarted, its disk has room, and no message of "
            "the kernel about a lack of memory was found"
        )
    return "it was killed, or its host was restarted"


def _started_s(pid: str) -> float:
    """Return when a job started, in seconds since the boot, from its file "pid"; 0 if that is unknown."""
    words = pid.split()
    return int(words[1]) / _TICKS_PER_S if len(words) == 2 and words[1].isdigit() else 0.0
