"""A host over SSM Run Command, for accounts that forbid SSH: no port is open, no key is needed.

The SSM agent runs a script as root and returns at most the first 24,000 characters of what it wrote. So the script
carries the command and its input as text, runs the command as the login user, and frames how it ended: the exit code,
and both outputs compressed, with their lengths and a checksum. Longer output stays in a file on the host, which is
then read through an S3 bucket, or in pieces.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import re
import shlex
import time
import uuid
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

from pytest_cloudbench.hosts.errors import ConnectionDropped, HostUnreachable, LoginRefused
from pytest_cloudbench.hosts.host import Command, CommandResult, Host, command_line
from pytest_cloudbench.hosts.shell_host import ShellHost

_DIRECTORY = "/var/tmp/cloudbench-ssm-"  # noqa: S108 - made with mode 700, and its name cannot be guessed
_OUTPUT_CHARS = 23_500
"""A frame and its head must fit into the 24,000 characters of GetCommandInvocation."""
_SENT_CHARS = 40_000
"""Maximum input in one command. SSM API Reference, SendCommand: a document, with its parameters, has at most 64 KB."""
_FORGOTTEN_MINUTES = 1440
_SHOWN_CHARS = 200
_TRANSFER_S = 120.0
_LOOK_S = 5.0
_LOGIN_GRACE_S = 60.0
_LOGIN_PAUSE_S = 1.0

_RUN = """\
dir={directory}
umask 077
# The agent runs a script again if its host restarted meanwhile: a command runs once at most.
if ! mkdir $dir; then
    echo cloudbench-ssm interrupted
    exit
fi
if ! entry=$(getent passwd {user}); then
    rm -rf $dir $dir.*
    echo cloudbench-ssm no-user
    exit
fi
IFS=: read -r user x uid gid x home shell <<END
$entry
END
cat {parts} - <<'END' | base64 -d | gzip -dc > $dir/input
{input}
END
line=$(head -c {line_bytes} $dir/input)
tail -c +$(({line_bytes} + 1)) $dir/input > $dir/stdin
[ "$uid" = "$(id -u)" ] || set -- setpriv --reuid "$uid" --regid "$gid" --init-groups
(
    umask 022
    cd "$home" 2> /dev/null || cd /
    exec "$@" env -i HOME="$home" USER="$user" LOGNAME="$user" SHELL="$shell" \\
        PATH=/usr/local/bin:/usr/bin:/bin sh -c "$line"
) < $dir/stdin > $dir/stdout 2> $dir/stderr
code=$?
cat $dir/stdout $dir/stderr | gzip -c | base64 -w 0 > $dir/frame
sum=$(sha256sum < $dir/frame)
set -- $(stat -c %s $dir/stdout $dir/stderr $dir/frame)
echo cloudbench-ssm $code $1 $2 $3 ${{sum%% *}}
if [ $3 -le {output_chars} ]; then
    cat $dir/frame
    rm -rf $dir
fi
rm -rf $dir.*
"""
_SEND_PART = """\
umask 077
mkdir -p {directory}.parts
cat > {directory}.parts/{number} <<'END'
{input}
END
"""
_FORGET = """\
find {parent} -maxdepth 1 -name '{name}*' -user root -mmin +{minutes} -exec rm -rf {{}} +
"""

_HEAD = re.compile(r"cloudbench-ssm (\d+) (\d+) (\d+) (\d+) ([0-9a-f]{64})\n?")
_INTERRUPTED = "cloudbench-ssm interrupted"
_NO_USER = "cloudbench-ssm no-user"


class Written(NamedTuple):
    """The output of an ended script, complete or only its beginning, and the beginning of its stderr."""

    stdout: str
    stderr: str


class RunCommand(Protocol):
    """SSM Run Command for one instance. Its methods may be called from several threads.

    bucket: the S3 bucket for long output; "" if there is none.
    """

    @property
    def bucket(self) -> str: ...

    def wait_until_online(self, timeout_s: float) -> None:
        """Wait until the agent accepts commands. Raises HostUnreachable after `timeout_s`."""
        ...

    def run(self, script: str, *, timeout_s: float, reach_s: float, through_bucket: bool = False) -> Written:
        """Run a script as root for at most `timeout_s`, and return its output; an interrupt ends it.

        reach_s: how long the agent may take to start it. through_bucket: return the whole output.
        Raises TimeoutError, ConnectionDropped if it is unknown how the script ended, HostUnreachable if it was not run.
        """
        ...

    def start(self, script: str) -> None:
        """Start a script without waiting for its end. Raises HostUnreachable if it could not be sent."""
        ...


class Frame(NamedTuple):
    """The head of a framed result: exit code, bytes of both outputs, and length and checksum of the text with them."""

    exit_code: int
    stdout_bytes: int
    stderr_bytes: int
    chars: int
    sha256: str


class SsmHost(ShellHost):
    """A host over SSM Run Command. It is safe to use from several threads.

    A command runs at most once, in the login user's home directory as over SSH; with sudo it runs as root.
    connect_timeout_s: how long a new host may take until its agent is online. reconnect_timeout_s: the same for a host
    that has answered. boot_s: how long the rest of a boot may take after that; None if it is not waited for.
    when_booted: called with the host at the first connection after each boot.
    """

    look_s = _LOOK_S

    def __init__(
        self,
        label: str,
        service: RunCommand,
        *,
        address: str = "",
        user: str = "root",
        connect_timeout_s: float = 180.0,
        reconnect_timeout_s: float = 60.0,
        boot_s: float | None = None,
        when_booted: Callable[[Host], None] | None = None,
    ) -> None:
        super().__init__(label, address=address, user=user)
        self._service = service
        self._connect_timeout_s = connect_timeout_s
        self._reconnect_timeout_s = reconnect_timeout_s
        self._boot_s = boot_s
        self._when_booted = when_booted
        self._answered = self._booted = self._closed = False

    def connect(self, timeout_s: float | None = None) -> None:
        """Wait until the agent is online, and until the boot has ended if that is waited for.

        Raises HostUnreachable, LoginRefused if the login user does not exist, HostError if the boot failed.
        """
        self._reach(timeout_s)
        if self._boot_s is not None and not self._booted:
            self._wait_for_boot(self._boot_s)
            self._booted = True
            if self._when_booted is not None:
                self._when_booted(self)

    def reconnect(self) -> None:
        """Wait until the agent is online. Raises HostUnreachable."""
        self._service.wait_until_online(self._reconnect_timeout_s)

    def close(self) -> None:
        self._closed = True

    def expect_reboot(self) -> None:
        self._answered = self._booted = False

    def execute(self, command: Command) -> CommandResult:
        """Run the command by a script. Raises TimeoutError, ConnectionDropped, HostUnreachable, LoginRefused."""
        self._reach()
        directory = _DIRECTORY + uuid.uuid4().hex
        line = command_line(command.argv, sudo=False, mark=command.mark)
        user = "root" if command.sudo else command.user
        try:
            script = self._with_input(directory, user, line.encode(), command.stdin or b"")
            written = self._run(script, command.timeout_s)
            frame, text = _read(written, self._of(command))
        except LoginRefused:
            raise
        except BaseException:
            self._remove(directory)
            raise
        if not text and frame.chars > _OUTPUT_CHARS:
            try:
                text = self._fetched(f"{directory}/frame", frame.chars)
            finally:
                self._remove(directory)
        self._answered = True
        return command.result(frame.exit_code, *unpacked(frame, text, self._of(command)))

    def _reach(self, timeout_s: float | None = None) -> None:
        if self._closed:
            raise HostUnreachable(f"{self.label} was closed")
        if not self._answered:
            self._service.wait_until_online(self._connect_timeout_s if timeout_s is None else timeout_s)

    def _wait_for_boot(self, limit_s: float) -> None:
        """Wait for the end of the boot, which may have to create the login user first."""
        from pytest_cloudbench.hosts.boot import wait_for_boot

        deadline = time.monotonic() + _LOGIN_GRACE_S
        while True:
            try:
                return wait_for_boot(self, limit_s)
            except LoginRefused:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_LOGIN_PAUSE_S)

    def _with_input(self, directory: str, user: str, line: bytes, stdin: bytes) -> str:
        """Return the script of a command; input that is too long for it is sent in advance."""
        text = base64.b64encode(gzip.compress(line + stdin, mtime=0)).decode()
        pieces = [text[at : at + _SENT_CHARS] for at in range(0, len(text), _SENT_CHARS)]
        parts = []
        for number, piece in enumerate(pieces[:-1]):
            parts.append(f"{directory}.parts/{number}")
            part = _SEND_PART.format(directory=directory, number=number, input=piece)
            self._transfer(part)
        return _RUN.format(
            directory=directory,
            user=shlex.quote(user),
            parts=" ".join(parts),
            input=pieces[-1],
            line_bytes=len(line),
            output_chars=_OUTPUT_CHARS,
        )

    def _fetched(self, path: str, chars: int) -> str:
        """Return the content of a text file on the host, read through the bucket or in pieces."""
        if self._service.bucket:
            return self._transfer(f"cat {path}\n", through_bucket=True).stdout
        pieces = []
        for begin in range(0, chars, _OUTPUT_CHARS):
            script = f"tail -c +{begin + 1} {path} | head -c {_OUTPUT_CHARS}\n"
            pieces.append(self._transfer(script).stdout)
        return "".join(pieces)

    def _transfer(self, script: str, *, through_bucket: bool = False) -> Written:
        """Run a script that may run twice; retry it once if the connection drops."""
        try:
            return self._run(script, _TRANSFER_S, through_bucket=through_bucket)
        except ConnectionDropped:
            return self._run(script, _TRANSFER_S, through_bucket=through_bucket)

    def _run(self, script: str, timeout_s: float, *, through_bucket: bool = False) -> Written:
        # SSM may report an agent as online while its instance boots: the command then waits for the end of the boot.
        reach_s = self._reconnect_timeout_s if self._answered else self._connect_timeout_s
        return self._service.run(script, timeout_s=timeout_s, reach_s=reach_s, through_bucket=through_bucket)

    def _remove(self, directory: str) -> None:
        """Let the host remove what a command left, without waiting for it."""
        parent, _, name = _DIRECTORY.rpartition("/")
        forget = _FORGET.format(parent=parent, name=name, minutes=_FORGOTTEN_MINUTES)
        with suppress(Exception):  # the region may have ended, and the script with it
            self._service.start(f"rm -rf {directory} {directory}.*\n{forget}")

    def _of(self, command: Command) -> str:
        return f"`{' '.join(command.argv)[:_SHOWN_CHARS]}` on {self.label}"


def _read(written: Written, what: str) -> tuple[Frame, str]:
    """Return the head of a framed result and the text that follows; raises if the script wrote none.

    Raises LoginRefused if the login user does not exist, ConnectionDropped if it is unknown how the command ended.
    """
    found = _HEAD.match(written.stdout)
    if found is not None:
        code, out, err, chars, sha256 = found.groups()
        frame = Frame(int(code), int(out), int(err), int(chars), sha256)
        return frame, "".join(written.stdout[found.end() :].split())
    if written.stdout.startswith(_NO_USER):
        raise LoginRefused(f"{what} was not run: its login user does not exist there; see --cloudbench-user")
    if written.stdout.startswith(_INTERRUPTED):
        raise ConnectionDropped(f"{what} was interrupted by a restart of the host; it was not run again")
    said = (written.stderr.strip() or written.stdout.strip())[-500:]
    returned = repr(said) if said else "no output"
    raise ConnectionDropped(f"{what} ended without a result; the SSM agent returned {returned}")


def unpacked(frame: Frame, text: str, what: str) -> tuple[bytes, bytes]:
    """Return both outputs. Raises ConnectionDropped unless the text has the length and checksum in the frame."""
    if len(text) == frame.chars and hashlib.sha256(text.encode()).hexdigest() == frame.sha256:
        with suppress(binascii.Error, OSError, EOFError, zlib.error):
            data = gzip.decompress(base64.b64decode(text, validate=True))
            if len(data) == frame.stdout_bytes + frame.stderr_bytes:
                return data[: frame.stdout_bytes], data[frame.stdout_bytes :]
    raise ConnectionDropped(
        f"{what} ended with exit code {frame.exit_code}, but its output of {frame.chars:,} characters came damaged, "
        f"with {len(text):,}"
    )
