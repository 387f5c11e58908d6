"""A command on a host behaves the same by every way to the host."""

from __future__ import annotations

import time

import pytest
from local_agent import each_way

from pytest_cloudbench.hosts.errors import CommandFailed, CommandTimedOut
from pytest_cloudbench.hosts.shell_host import ShellHost


@each_way
def test_a_command_gives_output_and_exit_code(host: ShellHost) -> None:
    result = host.run(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
    assert result.argv[0] == "sh"
    assert 0 < result.seconds < 30


@each_way
@pytest.mark.parametrize("word", ["a b", "$HOME", "it's", '"', "*", "; reboot", "-n", "ü", "a\nb", "\\"])
def test_words_arrive_unchanged(host: ShellHost, word: str) -> None:
    assert host.run(["printf", "%s", word]).stdout == word


@each_way
def test_a_string_is_refused_as_a_command(host: ShellHost) -> None:
    with pytest.raises(TypeError, match="a list of words"):
        host.run("uname -a")


@each_way
def test_commands_run_in_english_with_sbin_in_the_path(host: ShellHost) -> None:
    said = host.run(["sh", "-c", "echo $LC_ALL; echo $PATH"]).stdout.splitlines()
    assert said[0] == "C"
    assert {"/usr/sbin", "/sbin", "/usr/local/sbin"} <= set(said[1].split(":"))


@each_way
def test_the_error_of_a_failed_command_names_it_and_its_host(host: ShellHost) -> None:
    with pytest.raises(CommandFailed) as caught:
        host.run(["ls", "/does/not/exist"])
    assert "on instance i-0test, `ls /does/not/exist` ended with exit code 2" in str(caught.value)
    assert "No such file or directory" in str(caught.value)
    assert caught.value.exit_code == 2


@each_way
def test_large_input_and_output_flow_at_once(host: ShellHost) -> None:
    data = bytes(range(256)) * 20_000
    assert host.run(["cat"], stdin=data).stdout_bytes == data


@each_way
def test_a_command_killed_by_a_signal_is_a_failure_not_a_dropped_connection(host: ShellHost) -> None:
    with pytest.raises(CommandFailed):
        host.run(["sh", "-c", "kill -9 $$"])


@each_way
def test_a_command_that_takes_too_long_raises_an_error(host: ShellHost) -> None:
    began = time.monotonic()
    with pytest.raises(CommandTimedOut, match=r"did not end within 0.3 s"):
        host.run(["sleep", "30"], timeout_s=0.3)
    assert time.monotonic() - began < 10
