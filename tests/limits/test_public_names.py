"""The package's own names: all are there, typed for users, and none is loaded before it is used."""

import subprocess
import sys

import pytest

import pytest_cloudbench


def loaded(code, prefix):
    """Return the modules with this prefix that a fresh process has loaded after the code."""
    show = f"; import sys; print(*sorted(name for name in sys.modules if name.startswith({prefix!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code + show], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.split()


def test_every_public_name_can_be_imported():
    assert {"Ec2", "FioCall", "Measurement", "gp3"} <= set(pytest_cloudbench.__all__)
    for name in pytest_cloudbench.__all__:
        assert getattr(pytest_cloudbench, name) is not None
        assert name in dir(pytest_cloudbench)


def test_a_star_import_takes_the_public_names():
    names: dict[str, object] = {}
    exec("from pytest_cloudbench import *", names)
    assert set(names) - {"__builtins__"} == set(pytest_cloudbench.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'gp4'"):
        pytest_cloudbench.gp4  # noqa: B018


def test_importing_the_package_loads_none_of_its_modules():
    assert loaded("import pytest_cloudbench", "pytest_cloudbench.") == []


@pytest.mark.parametrize("heavy", ["boto3", "botocore", "fabric", "pytest", "numpy", "moto"])
def test_judging_loads_nothing_heavy(heavy):
    found = loaded("import pytest_cloudbench.verdicts.reaches, pytest_cloudbench.verdicts.capped_by", heavy)
    assert [name for name in found if name == heavy or name.startswith(f"{heavy}.")] == []
