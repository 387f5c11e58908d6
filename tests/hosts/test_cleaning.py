"""What a test started on a host is ended after it, and nothing else."""

import contextlib
import os
import subprocess
import time
from pathlib import Path

import pytest

from pytest_cloudbench.hosts.cleaning import clean, note_home
from pytest_cloudbench.hosts.errors import HostError, NotOurs
from pytest_cloudbench.hosts.folders import remove_folder
from pytest_cloudbench.hosts.shell_host import ShellHost

MARK = f"CLOUDBENCH_TEST=of-the-tests-{os.getpid()}"


class ThisMachine(ShellHost):
    def execute(self, command):
        ended = subprocess.run(["sh", "-c", command.line], check=False, capture_output=True, timeout=30)
        return command.result(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture
def host():
    return ThisMachine("this machine")


def start(host, *script):
    """Start a process in the background, which outlives its command, and return its id."""
    text = "; ".join(script)
    away = f"setsid sh -c '{text}' >/dev/null 2>&1 </dev/null & echo $!"
    return int(host.run(["sh", "-c", away]).stdout)


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_marked_processes_end_and_others_stay(host):
    other = start(host, "sleep 60")
    host.mark = MARK
    marked = [start(host, "sleep 60"), start(host, "trap : TERM", "while :; do sleep 0.1; done")]
    try:
        clean(host, MARK, ours=False)
        assert [lives(each) for each in marked] == [False, False], "the second needs SIGKILL"
        assert lives(other)
        assert host.mark == MARK
    finally:
        os.kill(other, 9)


class WithSudo(ThisMachine):
    """This machine as seen by a login user who may do by sudo what `allowed` matches, a pattern of the shell."""

    def __init__(self, folder, allowed):
        super().__init__("this machine")
        self.folder = folder
        # What needs root is refused without it: the tests may run as root themselves.
        (folder / "id").write_text("#!/bin/sh\necho ${AS_ROOT:-1000}\n")
        (folder / "sudo").write_text(
            f"""#!/bin/sh
[ "$1" = -n ] && shift
case "$*" in
-l) echo "(root) NOPASSWD: {allowed}" ;;
{allowed}) AS_ROOT=0 exec "$@" ;;
*) echo "sudo: a password is required" >&2; exit 1 ;;
esac
"""
        )
        # A plain user sees no environment of root's processes.
        (folder / "grep").write_text(
            """#!/bin/sh
case "$*" in */environ*) [ "$AS_ROOT" = 0 ] || exit 1 ;; esac
exec /bin/grep "$@"
"""
        )
        for each in folder.iterdir():
            each.chmod(0o755)

    def execute(self, command):
        line = command.line.replace("PATH=", f"PATH={self.folder}:", 1)
        ended = subprocess.run(["sh", "-c", line], check=False, capture_output=True, timeout=30)
        return command.result(ended.returncode, ended.stdout, ended.stderr)


def test_processes_of_root_end_too_if_sudo_is_allowed(host, tmp_path):
    host.mark = MARK
    of_root = start(host, "sleep 60")
    try:
        clean(WithSudo(tmp_path, "*"), MARK, ours=False)
        assert not lives(of_root)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(of_root, 9)


def test_a_host_is_not_known_to_be_clean_if_sudo_is_allowed_for_some_commands(tmp_path):
    with pytest.raises(HostError, match="sudo"):
        clean(WithSudo(tmp_path, "/usr/bin/fio*"), MARK, ours=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed")
def test_a_user_without_sudo_leaves_nothing_of_root(host, monkeypatch):
    def as_nobody(command):
        argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", command.line]
        ended = subprocess.run(argv, check=False, capture_output=True, timeout=30, cwd="/")
        return command.result(ended.returncode, ended.stdout, ended.stderr)

    monkeypatch.setattr(host, "execute", as_nobody)
    host.mark = MARK
    marked = start(host, "sleep 60")
    clean(host, MARK, ours=False)
    assert not lives(marked)


def test_a_host_without_anything_marked_is_clean_at_once(host):
    began = time.monotonic()
    clean(host, MARK, ours=False)
    assert time.monotonic() - began < 10


def test_a_failure_is_told(host):
    host.execute = lambda command: command.result(1, b"", b"processes survive SIGKILL: 12\n")
    with pytest.raises(HostError, match="processes survive SIGKILL: 12"):
        clean(host, MARK, ours=False)


class OwnNamespaces(ShellHost):
    """A host with processes, mounts, users and a /var/tmp of its own, on this machine's kernel."""

    def __init__(self, holder):
        super().__init__("namespaces", address="here", user="cleaned")
        self.holder = holder

    def execute(self, command):
        enter = ["nsenter", "-t", self.holder, "-m", "-p", "sh", "-c", command.line]
        ended = subprocess.run(enter, check=False, capture_output=True, timeout=30)
        return command.result(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture
def launched(tmp_path):
    """A host that may be cleaned as one of the run's own, with a home whose files are noted."""
    if os.geteuid() != 0:
        pytest.skip("mounts need root")
    home, users = tmp_path / "home", tmp_path / "passwd"
    home.mkdir()
    (home / "of-the-image").touch()
    users.write_text(Path("/etc/passwd").read_text() + f"cleaned:x:0:0::{home}:/bin/sh\n")
    begin = (
        f"mount -t tmpfs none /var/tmp && mount --bind {users} /etc/passwd && echo ready && exec sleep 600"
    )
    own = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", begin]
    with subprocess.Popen(own, stdout=subprocess.PIPE, text=True) as unshared:
        try:
            assert unshared.stdout.readline() == "ready\n"
            pid = unshared.pid
            host = OwnNamespaces(Path(f"/proc/{pid}/task/{pid}/children").read_text().strip())
            note_home(host)
            yield host, home
        finally:
            unshared.kill()


JOBS = "/var/tmp/cloudbench-cleaned"


@pytest.mark.embedded
def test_new_files_are_removed_and_those_of_the_image_stay(launched):
    host, home = launched
    host.run(["sh", "-c", f"mkdir -p {JOBS}/job {home}/new/below; touch {home}/new/below/file"])
    clean(host, MARK, ours=True)
    assert [each.name for each in home.iterdir()] == ["of-the-image"]
    assert not host.run(["sh", "-c", f"ls -d {JOBS} || :"]).stdout


@pytest.mark.embedded
@pytest.mark.parametrize("at", ["{home}/data", "{home}/a b", "{home}", JOBS, f"{JOBS}/job", "/var/tmp"])
@pytest.mark.parametrize("kind", ["another file system", "a directory"])
def test_what_is_mounted_is_never_removed(launched, tmp_path, at, kind):
    host, home = launched
    at, precious = at.format(home=home), tmp_path / "precious"
    precious.mkdir()
    if kind == "another file system":
        host.run(["mount", "-t", "tmpfs", "none", str(precious)])
    host.run(["sh", "-c", f"mkdir -p {precious}/job '{at}'; touch {precious}/file {precious}/job/file"])
    (home / "new").touch()
    host.run(["mount", "--bind", str(precious), at])
    with pytest.raises(HostError, match=r"mounted|at first"):
        clean(host, MARK, ours=True)
    files = ["file", "job", "job/file"]
    found = host.run(["sh", "-c", f"cd {precious} && find . -mindepth 1 | sort | cut -c 3-"]).stdout.split()
    assert found == files
    assert (home / "new").exists(), "nothing at all was removed"


@pytest.mark.embedded
def test_a_home_that_other_machines_may_use_is_not_noted(launched, tmp_path):
    host, home = launched
    host.run(["mount", "-t", "proc", "none", str(home)])
    with pytest.raises(HostError, match="other machines"):
        note_home(host)


@pytest.mark.embedded
def test_the_folder_of_a_load_is_not_removed_while_something_is_mounted_in_it(launched, tmp_path):
    host, _ = launched
    folder, precious = tmp_path / "my data" / "cloudbench-0123456789ab", tmp_path / "precious"
    for each in (folder / "a b", precious):
        each.mkdir(parents=True)
    (folder / ".owner").touch()
    (precious / "file").touch()
    host.run(["mount", "--bind", str(precious), str(folder / "a b")])
    with pytest.raises(NotOurs, match="is mounted"):
        remove_folder(host, str(folder))
    assert (precious / "file").exists()
    host.run(["umount", str(folder / "a b")])
    remove_folder(host, str(folder))
    assert not folder.exists()
