"""A host from outside the package: the recipe of docs/extending.md runs fio on this machine without SSH."""

import shutil
import sys

import pytest
from recipes import code_blocks

# Here, because modules that are loaded while `pytester` is in use are forgotten at its end.
from pytest_cloudbench import Host, HostDirectory, HostError, ShellHost

QUIET = ("-p", "no:cacheprovider", "-p", "no:benchmark")
needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed on this machine")


@pytest.fixture
def local_host(pytester, monkeypatch):
    conftest, _ = code_blocks("A host")
    pytester.makepyfile(local_host_recipe=conftest)
    pytester.syspathinsert()
    import local_host_recipe

    yield local_host_recipe.LocalHost("this machine", user="root")
    del sys.modules["local_host_recipe"]


def _is_a_host(host: ShellHost) -> Host:
    """A type checker accepts the base class as the protocol."""
    return host


@needs_fio
def test_the_recipe_measures_on_this_machine_and_replays(pytester):
    conftest, test = code_blocks("A host")
    pytester.makeconftest(conftest)
    pytester.makepyfile(test_it=test)
    recorded = pytester.runpytest_inprocess(*QUIET, "--cloudbench-evidence=kept", "-rA")
    recorded.assert_outcomes(passed=1)
    replayed = pytester.runpytest_inprocess(*QUIET, "--cloudbench-replay=kept", "-rA")
    replayed.assert_outcomes(passed=1)
    replayed.stdout.fnmatch_lines(["cloudbench replays *"])


def test_it_runs_commands(local_host):
    from pytest_cloudbench import CommandFailed, HostError

    assert local_host.run(["printf", "%s", "it's $HOME"]).stdout == "it's $HOME"
    assert local_host.run(["cat"], stdin=b"in\0put").stdout_bytes == b"in\0put"
    with pytest.raises(CommandFailed, match=r"this machine.*exit code 3"):
        local_host.run(["sh", "-c", "exit 3"])
    with pytest.raises(HostError, match=r"did not end within 0\.2 s"):
        local_host.run(["sleep", "2"], timeout_s=0.2)


def test_it_runs_detached_jobs_with_files(local_host):
    job = local_host.start_job(["sh", "-c", "rev word > reversed; echo done"], files={"word": b"tluaf\n"})
    try:
        pieces = []
        state = job.wait(10, on_output=pieces.append)
        assert (state.running, state.exit_code, "".join(pieces)) == (False, 0, "done\n")
        assert job.fetch(["reversed", "missing"]) == {"reversed": b"fault\n"}
    finally:
        job.kill()
        job.cleanup()
    assert local_host.run(["ls", job.directory], check=False).exit_code != 0


def test_its_tools_are_found(local_host):
    assert local_host.ensure_tool("sh").endswith("/sh")


@pytest.mark.parametrize("name", ["missing", "file", "relative"])
def test_a_target_must_be_a_directory_that_the_user_can_write_to(local_host, tmp_path, name):
    (tmp_path / "file").write_text("")
    path = "relative" if name == "relative" else str(tmp_path / name)
    with pytest.raises(HostError, match=f"{name} on this machine is not a directory"):
        HostDirectory(local_host, path).prove_writable()
