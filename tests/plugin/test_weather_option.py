"""The weather of the embedded region's API: as an option, in the ini file, for `twin up`, and of a kept region."""

from __future__ import annotations

import pytest

from pytest_cloudbench import cli, launcher
from pytest_cloudbench.launcher import RegionRecord, RegionUnavailable

TEST = """
import pytest

@pytest.mark.ec2_instance("m5.large")
def test_it(ec2_instance):
    pass
"""
RECORD = RegionRecord("http://127.0.0.1:1", "us-east-1", "A", "S", "198.18.0.1/32", 1, 3)


@pytest.fixture
def started_with(pytester, monkeypatch):
    """Run a test with options, and return the arguments with which it wants to start a region."""
    monkeypatch.setattr(launcher, "kept_region", lambda: None)
    started = []

    def start(given):
        started.append(given)
        raise RegionUnavailable("not in this test")

    monkeypatch.setattr(launcher, "start_leased_region", start)
    pytester.makepyfile(TEST)

    def run(*options):
        pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)
        return started.pop()

    return run


def test_the_region_is_started_under_the_requested_weather(started_with):
    assert started_with() == []
    assert started_with("--cloudbench-twin-weather=aws") == ["--weather", "aws"]
    assert started_with("--cloudbench-twin-weather=aws, speed=20,seed=3") == [
        "--weather",
        "aws,seed=3,speed=20",
    ]


def test_the_ini_file_names_a_weather_or_a_file_beside_it(pytester, started_with):
    pytester.makeini("[pytest]\ncloudbench_twin_weather = bad-day.toml\n")
    (pytester.path / "bad-day.toml").write_text('lost-answers = "2%"\nthrottle = true\n', encoding="utf-8")
    assert started_with() == ["--weather", "throttle=100%,lost-answers=2%"]
    assert started_with("--cloudbench-twin-weather=errors=1%") == ["--weather", "errors=1%"]


@pytest.mark.parametrize("weather", ["rain", "errors=2", "gone.toml"])
def test_unknown_weather_is_a_usage_error_before_anything_is_collected(pytester, weather):
    result = pytester.runpytest_inprocess(f"--cloudbench-twin-weather={weather}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--cloudbench-twin-weather*{weather.partition('=')[0]}*"])


def test_weather_is_refused_on_aws(pytester):
    pytester.makepyfile("def test_it():\n    pass\n")
    result = pytester.runpytest_inprocess("--cloudbench-cloud=aws", "--cloudbench-twin-weather=aws")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*AWS*leave out --cloudbench-twin-weather*"])


def test_a_kept_region_under_another_weather_is_refused(monkeypatch):
    kept = RegionRecord(**{**vars(RECORD), "weather": "aws,seed=3"})
    monkeypatch.setattr(launcher, "kept_region", lambda: kept)
    assert launcher.kept_region_with(weather="aws,seed=3") is kept
    assert launcher.kept_region_with() is kept
    with pytest.raises(RegionUnavailable) as refusal:
        launcher.kept_region_with(weather="errors=1%")
    for word in ("slot 3", "--cloudbench-twin-weather=aws,seed=3", "twin up --weather errors=1%"):
        assert word in str(refusal.value)


def test_up_starts_a_region_under_weather_and_prints_the_option(monkeypatch, capsys):
    started = []

    def start(arguments):
        started.append(arguments)
        return RegionRecord(**{**vars(RECORD), "weather": "aws"})

    monkeypatch.setattr(launcher, "kept_region", lambda: None)
    monkeypatch.setattr(launcher, "start_kept_region", start)
    assert cli.main(["twin", "up", "--weather", "aws"]) == 0
    assert started == [["--weather", "aws"]]
    said = capsys.readouterr().out.splitlines()
    assert any("--cloudbench-twin-weather=aws" in line for line in said)
    assert all(line.startswith(("#", "export ")) for line in said)
    with pytest.raises(SystemExit):
        cli.main(["twin", "up", "--weather", "rain"])
    assert "rain" in capsys.readouterr().err
    assert len(started) == 1
