"""The job's command line on the host and the files it needs there: a Python program, or dd in a shell loop.

The loop needs a POSIX shell and coreutils, starts one process per file, and writes the same record as the program
(record.py). It reports progress when it gets a signal once a second, so watching costs nothing per file. Its clock is
/proc/uptime, which a shell reads without starting a process: hundredths of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_cloudbench.workloads.create_files.job import CHUNK, FilesJob

PROGRAM = "create_files.py"
LOOP = "create_files.sh"


def job_files(method: str) -> dict[str, bytes]:
    """Return the files that the job needs on the host, by name."""
    if method == "dd":
        return {LOOP: SCRIPT.encode()}
    return {PROGRAM: Path(__file__).with_name("program.py").read_bytes()}


def job_argv(
    job: FilesJob, method: str, folder: str, *, python: str | None, stats: Sequence[str]
) -> tuple[str, ...]:
    """Return the command, to be run in the directory that holds `job_files`.

    folder: created by the job; it must not exist. python: path of the host's Python 3, for the method "python".
    stats: files in /sys with the counters of the devices below the folder's file system.
    """
    count, size, per_folder = str(job.count), str(job.size.bytes), str(job.per_folder or 0)
    if method == "dd":
        return ("sh", LOOP, folder, count, size, job.content, job.sync, per_folder, dd_operands(job), *stats)
    # -I: the login user's environment and home must not change the imports.
    argv = [python or "python3", "-I", PROGRAM, folder, "--count", count, "--size", size]
    argv += ["--content", job.content, "--sync", job.sync]
    if job.workers > 1:
        argv += ["--workers", str(job.workers)]
    if job.per_folder is not None:
        argv += ["--per-folder", per_folder]
    for each in stats:
        argv += ["--stat", each]
    return tuple(argv)


SCRIPT = """\
#!/bin/sh
# Usage: create_files.sh FOLDER COUNT SIZE CONTENT SYNC PER_FOLDER DD_OPERANDS [STAT...]
folder=$1 count=$2 size=$3 content=$4 sync=$5 per_folder=$6 operands=$7
shift 7
stats=$*
job=$PWD
began=0 ios0=0 bytes0=0 made=0 well=yes sampler=

# Called often, so it starts no process and returns its results in variables.
look() {
    read -r up rest < /proc/uptime
    now=${up%.*}${up#*.}
    past=$((now - began))
    hundredths=$((past % 100))
    case $hundredths in ?) hundredths=0$hundredths ;; esac
    seconds=$((past / 100)).$hundredths
    ios=- bytes=-
    [ -n "$stats" ] || return
    ios=$((-ios0)) bytes=$((-bytes0))
    for each in $stats; do
        read -r reads merged read_sectors read_ms writes merged sectors rest < "$each"
        ios=$((ios + writes)) bytes=$((bytes + sectors * 512))
    done
}
print_progress() {
    echo "$1 $seconds $made $((made * size)) $ios $bytes"
}
print_marker() {
    [ ! -e "$folder/$1" ] || echo "$1 $(stat -c %.9Y "$folder/$1")"
}
stop_sampler() {
    [ -n "$sampler" ] || return
    { kill "$sampler"; wait "$sampler"; } 2> /dev/null
}
fail() {
    stop_sampler
    echo "failed 0 $1"
    echo done
    exit 1
}

trap 'stop_sampler; exit 130' INT TERM
trap '[ $began = 0 ] || { look; print_progress at; }' USR1

echo "tool $(dd --version 2> /dev/null | head -n 1)"
mkdir -- "$folder" || fail "the folder cannot be made"
# Reserves space for the record: this directory may be on the file system that is being filled.
head -c 65536 /dev/zero > ballast
input=/dev/zero
if [ "$content" = random ]; then
    input=$job/block
    head -c "$size" /dev/urandom > block || fail "the random content cannot be made"
fi
# Started before cd, so it does not keep the file system busy; its sleep ends with it.
loop=$$
(
    trap '{ kill $pause; wait $pause; } 2> /dev/null; exit' TERM
    while sleep 1 & pause=$!; wait $pause && kill -s USR1 $loop 2> /dev/null; do :; done
) &
sampler=$!
cd -- "$folder" || fail "the folder cannot be entered"
# Writes older data in the page cache first; the counters would include it.
sync -f . || fail "sync -f does not work"
if [ -n "$stats" ]; then
    look
    ios0=$ios bytes0=$bytes
fi
touch "$folder/start"
look
began=$now
while [ $made -lt "$count" ]; do
    if [ "$per_folder" -gt 0 ] && [ $((made % per_folder)) -eq 0 ]; then
        within=$folder/folder$((made / per_folder + 1))
        { mkdir -- "$within" && cd -- "$within"; } || { well=no; break; }
    fi
    dd if="$input" of="file$((made + 1))" $operands status=none || {
        well=no
        rm -f "file$((made + 1))"
        break
    }
    made=$((made + 1))
done
look
[ $well = no ] || touch "$folder/end"
rm -f "$job/ballast"
print_progress written
print_marker start
print_marker end
times > "$job/times"
{ read -r own_user own_system; read -r user system; } < "$job/times"
echo "times $own_user $own_system $user $system"
[ $well = yes ] || echo "failed 0 the file number $((made + 1)) cannot be made"
if [ "$sync" != none ]; then
    sync -f "$folder" &
    syncing=$!
    # The signal for progress interrupts the wait.
    while wait $syncing; code=$?; [ $code -gt 128 ] && kill -0 $syncing 2> /dev/null; do :; done
    [ $code -le 128 ] || { wait $syncing; code=$?; }
    look
    if [ $code -eq 0 ]; then
        echo "synced $seconds $ios $bytes"
    else
        echo "unsynced 0 sync -f ended with exit code $code"
        well=no
    fi
fi
stop_sampler
echo done
[ $well = yes ]
"""


def dd_operands(job: FilesJob) -> str:
    """Return dd's operands for one file of the job."""
    size = job.size.bytes
    if size <= CHUNK.bytes:
        words = f"bs={size} count=1"
    elif size % CHUNK.bytes == 0:
        words = f"bs={CHUNK.bytes} count={size // CHUNK.bytes}"
    else:
        words = f"bs={CHUNK.bytes} count={size} iflag=count_bytes"
    return f"{words} conv=fsync" if job.sync == "each" else words
