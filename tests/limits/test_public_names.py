"""The package's own names: all there, and none loaded before it is asked for."""

import subprocess
import sys

import pytest

import pytest_cloudbench


def test_every_public_name_is_there():
    for name in pytest_cloudbench.__all__:
        assert getattr(pytest_cloudbench, name) is not None
        assert name in dir(pytest_cloudbench)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'gp4'"):
        pytest_cloudbench.gp4  # noqa: B018


def test_importing_the_package_loads_none_of_its_rooms():
    code = (
        "import sys, pytest_cloudbench; "
        "print([name for name in sys.modules if name.startswith('pytest_cloudbench.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_judging_loads_nothing_heavy():
    code = (
        "import sys, pytest_cloudbench.verdicts.reaches, pytest_cloudbench.verdicts.capped_by; "
        "print(sorted({'boto3', 'botocore', 'fabric', 'pytest', 'numpy', 'moto'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
