"""The command: arguments of `cloudbench twin up`, without starting a region."""

import pytest

from pytest_cloudbench import __version__, launcher
from pytest_cloudbench import cli as command
from pytest_cloudbench.launcher import RegionRecord


def record(time_compression, latency="ebs"):
    return RegionRecord(
        "http://127.0.0.1:1", "us-east-1", "A", "S", "198.18.0.1/32", 1, 3, time_compression, latency
    )


@pytest.fixture
def started(monkeypatch):
    """The arguments with which regions were started."""
    calls = []

    def start(arguments):
        calls.append(arguments)
        given = dict(zip(arguments[::2], arguments[1::2], strict=True))
        return record(float(given.get("--time", 1)), given.get("--latency", "ebs"))

    monkeypatch.setattr(launcher, "kept_region", lambda: None)
    monkeypatch.setattr(launcher, "start_kept_region", start)
    return calls


def test_the_version_is_shown(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"pytest-cloudbench {__version__}\n"


def test_up_passes_the_time_factor_on_and_prints_it(started, capsys):
    assert command.main(["twin", "up", "--time", "60"]) == 0
    assert started == [["--time", "60"]]
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "# its credits drain 60 times faster than the clock: pytest --cloudbench-twin-time=60"
    assert all(line.startswith(("#", "export ")) for line in said), "it is read by a shell"


def test_up_without_a_factor_starts_no_compression(started, capsys):
    assert command.main(["twin", "up"]) == 0
    assert started == [[]]
    assert "faster" not in capsys.readouterr().out


def test_up_passes_the_latency_on_and_prints_it_unless_it_is_the_default(started, capsys):
    assert command.main(["twin", "up", "--latency", "none"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "# its storage has latency none: pytest --cloudbench-twin-latency=none"
    assert all(line.startswith(("#", "export ")) for line in said), "it is read by a shell"
    assert command.main(["twin", "up", "--latency", "ebs"]) == 0
    assert "latency" not in capsys.readouterr().out
    assert started == [["--latency", "none"], []]


def test_an_unknown_latency_is_refused(started, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["twin", "up", "--latency", "aws"])
    assert ended.value.code == 2
    assert "argument --latency: invalid choice: 'aws'" in capsys.readouterr().err
    assert not started


@pytest.mark.parametrize("factor", ["0", "3601", "fast"])
def test_a_factor_out_of_bounds_is_refused(started, capsys, factor):
    with pytest.raises(SystemExit) as ended:
        command.main(["twin", "up", "--time", factor])
    assert ended.value.code == 2
    assert f"argument --time: invalid time factor '{factor}'" in capsys.readouterr().err
    assert not started


def test_a_kept_region_is_used_unless_another_factor_is_requested(monkeypatch, capsys):
    monkeypatch.setattr(launcher, "kept_region", lambda: record(60.0))
    assert command.main(["twin", "up"]) == 0
    assert "60 times faster" in capsys.readouterr().out
    assert command.main(["twin", "up", "--time", "60"]) == 0
    assert command.main(["twin", "up", "--time", "2"]) == 3
    assert "cloudbench: the region that is kept (slot 3) runs with a factor of time of 60, not 2" in (
        capsys.readouterr().err
    )


def test_a_kept_region_is_used_unless_another_latency_is_requested(monkeypatch, capsys):
    monkeypatch.setattr(launcher, "kept_region", lambda: record(60.0, "none"))
    assert command.main(["twin", "up"]) == 0
    assert command.main(["twin", "up", "--latency", "none"]) == 0
    assert capsys.readouterr().out.count("--cloudbench-twin-latency=none") == 2
    assert command.main(["twin", "up", "--latency", "ebs"]) == 3
    assert "(slot 3) runs with latency 'none', not 'ebs': " in capsys.readouterr().err


def test_up_names_the_slot_by_which_its_region_ends(started, capsys):
    assert command.main(["twin", "up"]) == 0
    said = capsys.readouterr().out
    assert "cloudbench twin down 3" in said
    assert f"export {launcher.KEPT_VARIABLE}=http://127.0.0.1:1" in said


def test_up_replaces_a_region_that_has_ended(started, monkeypatch):
    def ended():
        raise launcher.RegionEnded("it has ended")

    monkeypatch.setattr(launcher, "kept_region", ended)
    assert command.main(["twin", "up"]) == 0
    assert started == [[]]


@pytest.fixture
def downs(monkeypatch):
    """The arguments with which the region's program was called."""
    calls = []
    monkeypatch.setattr(launcher, "twin_command", lambda *asked, needs_root: calls.append(asked) or ["true"])
    return calls


def test_down_ends_the_region_that_the_environment_names_or_the_given_slots(monkeypatch, downs):
    monkeypatch.setattr(launcher, "kept_region", lambda: record(1))
    command.main(["twin", "down"])
    command.main(["twin", "down", "5", "6"])
    monkeypatch.setattr(launcher, "kept_region", lambda: None)
    command.main(["twin", "down"])
    assert downs == [("down", "3"), ("down", "5", "6"), ("down",)]


def test_env_prints_what_up_printed(monkeypatch, capsys):
    monkeypatch.setattr(launcher, "kept_region_of_slot", {3: record(1)}.__getitem__)
    assert command.main(["twin", "env", "3"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == [f"export {name}={value}" for name, value in record(1).environment().items()]
