"""The permissions that docs/aws.md lists are those of the API calls that the code makes, no more and no fewer."""

import ast
import gc
import re
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

ROOT = Path(__file__).resolve().parents[2]
SERVICES = {name: name for name in ("ec2", "ssm", "sts", "cloudwatch", "pricing")} | {
    "service-quotas": "servicequotas"
}
"""The prefix of a service's permissions by the name of its client."""
BY_A_PARAMETER = {"ec2:CreateTags": "TagSpecifications"}
"""Permissions that no call of that name needs, but a parameter of others, and that parameter."""


@pytest.fixture
def no_finalizers():
    """Python 3.11 fails to parse if a finalizer that the garbage collection calls parses too (CPython gh-106905)."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def named_in_the_code(no_finalizers):
    """Every string of the code that reaches AWS (the embedded region's own does not), and every parameter's name."""
    found = set()
    for path in (ROOT / "pytest_cloudbench").rglob("*.py"):
        if "twin" in path.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.keyword) and node.arg:
                found.add(node.arg)
    return found


def test_the_listed_permissions_are_those_of_the_calls(named_in_the_code):
    session = botocore.session.get_session()
    made = {
        f"{prefix}:{operation}"
        for service, prefix in SERVICES.items()
        for operation in session.get_service_model(service).operation_names
        if xform_name(operation) in named_in_the_code
    }
    made |= {name for name, parameter in BY_A_PARAMETER.items() if parameter in named_in_the_code}
    section = (ROOT / "docs" / "aws.md").read_text().partition("## Permissions")[2].partition("\n## ")[0]
    listed = re.findall(
        rf"\b(?:{'|'.join(SERVICES.values())}):\w+", "\n".join(re.findall(r"^    .*$", section, re.MULTILINE))
    )
    assert len(listed) == len(set(listed))
    assert set(listed) == made
