"""Checks of the fio options that are passed through.

Options that would break the reading of the result are refused, and so are options that the fio on the host does not
have.
"""

from __future__ import annotations

import dataclasses
import difflib
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.fio.errors import BadFioJob, FioRefused, UnknownFioOption
from pytest_cloudbench.workloads.tool_run import once_per_host

if TYPE_CHECKING:
    from pytest_cloudbench.workloads.fio.job import FioJob

_REFUSED_BECAUSE = {
    "the result is read from fio's JSON, which this would move or change": (
        "output output_format append_terse minimal terse_version bandwidth_log status_interval eta eta_newline "
        "eta_interval showcmd parse_only unified_rw_reporting percentile_list clat_percentiles lat_percentiles "
        "slat_percentiles significant_figures stats profile cmdhelp"
    ),
    "the one-second series is read from fio's logs, which this would move or change": (
        "per_job_logs log_avg_msec log_hist_msec log_max_value log_offset write_iops_log write_bw_log write_lat_log "
        "write_hist_log log_prio log_compression log_store_compressed log_unix_epoch bwavgtime log_alternate_epoch "
        "log_entries iopsavgtime disable_bw_measurement log_window_value log_hist_coarseness write_iolog"
    ),
    "the target decides what is read and written": (
        "filename directory filename_format opendir unique_filename read_iolog replay_redirect merge_blktrace_file "
        "fill_device"
    ),
    "a verdict needs one block size: use bs=": "bsrange bssplit bs_unaligned bs_is_seq_rand",
    "all jobs are reported together, which this would split": (
        "group_reporting new_group stonewall wait_for section"
    ),
    "this changes the units of fio's output": "kb_base unit_base",
    "fio runs on the target's host, in the background, and is watched there": (
        "client server remote_config daemonize idle_prof"
    ),
    "this destroys or bypasses the target's protection": (
        "allow_file_create allow_mounted_write unlink unlink_each_loop trim_percentage exec_prerun exec_postrun"
    ),
}
REFUSED = {name: reason for reason, names in _REFUSED_BECAUSE.items() for name in names.split()}
"""The options that are refused, each with the reason."""

_NEAREST = 3
_COMMON_ENGINE = "libaio"


def check_passed_through(options: Mapping[str, Any]) -> None:
    """Raise BadFioJob for an option that must not reach fio, whatever its version."""
    for name, value in options.items():
        plain = name.replace("-", "_")
        if plain in REFUSED:
            raise BadFioJob(f"fio option {name}= is not passed through: {REFUSED[plain]}")
        if not name or not all(char.isalnum() or char in "-_" for char in name) or name[0] == "-":
            raise BadFioJob(f"{name!r} is not a name of a fio option")
        option_text(name, value)


def option_text(name: str, value: Any) -> str:
    """Return a value as fio reads it: True and False as 1 and 0, sizes in bytes."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, Size):
        return str(value.bytes)
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str) and "\n" not in value and "\0" not in value:
        return value
    raise BadFioJob(f"fio option {name}={value!r}: the value must be a string, a number, a size or a bool")


_FACTS = 'fio=$(command -v fio) && echo "$fio" && "$fio" --version && nproc && uname -r'


class HostFio:
    """The fio of one host: its version and the options that it accepts."""

    def __init__(self, host: Host) -> None:
        self._host = host
        found = host.run(["sh", "-c", _FACTS], check=False, idempotent=True)
        if found.exit_code != 0:
            host.ensure_tool("fio")
            found = host.run(["sh", "-c", _FACTS], idempotent=True)
        self.path, self.version, cpus, self.kernel = found.stdout.split()
        self.host_cpus = int(cpus)
        self._options: frozenset[str] | None = None
        self._engines: dict[str, frozenset[str]] = {}

    def check(self, job: FioJob, argv: Sequence[str], *, sudo: bool = False) -> None:
        """Raise UnknownFioOption for an option that fio does not have, FioRefused for a value that it refuses.

        Nothing is read, written or started on the target. A job without further options is not checked: the check
        takes as long as the start of the run, which reports the same errors.
        """
        if not job.options and job.ioengine == _COMMON_ENGINE:
            return
        for name in job.options:
            if name not in self._known() and name not in self._of_engine(job.ioengine):
                self._check_other_name(name, job)
        self._check_values(argv, sudo=sudo)

    def _known(self) -> frozenset[str]:
        if self._options is None:
            listed = self._host.run([self.path, "--cmdhelp=all"], idempotent=True)
            self._options = parse_option_names(listed.stdout)
        return self._options

    def _of_engine(self, ioengine: str) -> frozenset[str]:
        if ioengine not in self._engines:
            asked = self._host.run([self.path, f"--enghelp={ioengine}"], check=False, idempotent=True)
            self._engines[ioengine] = parse_option_names(asked.stdout)
        return self._engines[ioengine]

    def _check_other_name(self, name: str, job: FioJob) -> None:
        asked = self._host.run([self.path, f"--cmdhelp={name}"], check=False, idempotent=True)
        canonical = parse_other_name(asked.stdout, asked.stderr, name)
        if canonical is None:
            known = self._known() | self._of_engine(job.ioengine)
            nearest = difflib.get_close_matches(name, sorted(known), n=_NEAREST, cutoff=0.5)
            raise UnknownFioOption(name, self.version, nearest)
        if canonical in REFUSED:
            raise BadFioJob(f"fio option {name}= is another name of {canonical}=: {REFUSED[canonical]}")
        if canonical == "rwmixwrite" or canonical in (field.name for field in dataclasses.fields(job)):
            raise BadFioJob(f"fio option {name}= is another name of {canonical}=: use that one")

    def _check_values(self, argv: Sequence[str], *, sudo: bool) -> None:
        asked = self._host.run(
            [self.path, "--parse-only", *[word for word in argv[1:] if not word.startswith("--output")]],
            check=False,
            sudo=sudo,
            idempotent=True,
        )
        if asked.exit_code != 0:
            words = fio_words(asked.stderr or asked.stdout)
            raise FioRefused(f"{self.version} refuses the job: {words}; it was {shlex.join(argv)}")


fio_of = once_per_host(HostFio)
"""Returns the fio of a host. It is installed if missing, and examined once."""


def parse_option_names(help_text: str) -> frozenset[str]:
    """Return the names in the listing of `fio --cmdhelp=all` or `fio --enghelp=ENGINE`."""
    names = set()
    for line in help_text.splitlines():
        words = line.split()
        if words and (":" in words[0] or (len(words) > 1 and words[1].startswith(":"))):
            names.add(words[0].rstrip(":"))
    return frozenset(names)


def parse_other_name(stdout: str, stderr: str, name: str) -> str | None:
    """Return the option that `fio --cmdhelp=NAME` describes if NAME is an alias of it, else None.

    For an unknown name fio describes the closest match, and exits with 0.
    """
    if "No such command" in stdout + stderr or "showing closest match" in stdout + stderr:
        return None
    described = stdout.split(":", 1)[0].strip()
    aliases = [
        line.split(":", 1)[1].strip() for line in stdout.splitlines() if line.strip().startswith("alias:")
    ]
    return described if described == name or name in aliases else None


def fio_words(text: str) -> str:
    """Return fio's error lines as one line, without its prefixes and repetitions."""
    lines = []
    for line in text.splitlines():
        plain = line.strip().removeprefix("fio: ")
        if plain and plain not in lines:
            lines.append(plain)
    return "; ".join(lines[-4:]) or "it gave no reason"
