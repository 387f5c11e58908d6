from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
_KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIGKRH2Gg7Ml9U5ROtSPsKlb0fbjpiX8dqP0KxYyCQq0J"
_TEST = "def test_nothing(): pass"


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--cloudbench-jump=ada@", "*--cloudbench-jump: invalid bastion 'ada@'*user@host*"),
        ("--cloudbench-jump=-oProxyCommand=x", "*--cloudbench-jump:*-oProxyCommand*"),
        ("--cloudbench-proxy-command=nc %x", "*--cloudbench-proxy-command:*'%x'*%i*"),
        ("--cloudbench-host-key=SHA256:short", "*--cloudbench-host-key:*SHA256:short*"),
    ],
)
def test_a_way_that_cannot_be_read_is_refused_at_the_start(pytester, option, words):
    pytester.makepyfile(_TEST)
    result = pytester.runpytest(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([words])


def test_a_bastion_and_a_proxy_command_exclude_each_other(pytester):
    pytester.makepyfile(_TEST)
    result = pytester.runpytest("--cloudbench-jump=bastion", "--cloudbench-proxy-command=nc %h %p")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cloudbench-jump*--cloudbench-proxy-command*"])


@pytest.mark.parametrize("way", ["--cloudbench-jump=bastion", "--cloudbench-proxy-command=nc %h %p"])
def test_ssm_excludes_the_ways_of_ssh(pytester, way):
    pytester.makepyfile(_TEST)
    result = pytester.runpytest("--cloudbench-access=ssm", way)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cloudbench-access=ssm opens no SSH connection*"])


def test_the_ini_file_is_named(pytester):
    pytester.makeini("[pytest]\ncloudbench_jump = ada@bastion:port\n")
    pytester.makepyfile(_TEST)
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cloudbench_jump in the ini file: invalid bastion*"])


def test_ways_that_can_be_read_are_accepted(pytester):
    pytester.makepyfile(_TEST)
    pytester.makeini(f"[pytest]\ncloudbench_host_key = ssh-ed25519 {_KEY}\n")
    pytester.runpytest("--cloudbench-jump=ada@bastion:2222,10.0.0.5").assert_outcomes(passed=1)


def test_the_shown_commands_are_accepted(pytester):
    pytester.makepyfile(_TEST)
    shown = re.findall(
        r"^```sh\n(pytest .*?)^```$", (DOCS / "access.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(shown) >= 2
    for command in shown:
        pytester.runpytest(*shlex.split(command.replace("\\\n", ""))[1:]).assert_outcomes(passed=1)
