"""Names in Terraform: outputs and resource addresses, from files and from a program that stands in for Terraform."""

from __future__ import annotations

import contextlib
import json
import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.aws.terraform import Terraform, TerraformError, parse_name, parse_terraform

OUTPUTS = {
    "db_id": {"sensitive": False, "type": "string", "value": "i-0aaaaaaaaaaaaaaaa"},
    "db_ids": {
        "sensitive": False,
        "type": ["tuple", ["string", "string"]],
        "value": ["i-0bbbbbbbbbbbbbbbb", "i-0cccccccccccccccc"],
    },
    "by_role": {
        "value": {"db": {"id": "i-0dddddddddddddddd", "type": "m5.large"}, "a b": "i-0eeeeeeeeeeeeeeee"}
    },
    "password": {"sensitive": True, "type": "string", "value": "hunter2-hunter2"},
    "nothing": {"value": None},
}
PROVIDER = 'provider["registry.terraform.io/hashicorp/aws"]'
STATE = {
    "version": 4,
    "terraform_version": "1.9.5",
    "serial": 12,
    "lineage": "d4cd1b2e-7a3f-4a69-8f0e-0d3a51a4a1c5",
    "outputs": {"db_id": OUTPUTS["db_id"]},
    "resources": [
        {
            "mode": "managed",
            "type": "aws_instance",
            "name": "db",
            "provider": PROVIDER,
            "instances": [
                {
                    "schema_version": 1,
                    "attributes": {"id": "i-01111111111111111", "ami": "ami-1"},
                    "private": "e30=",
                }
            ],
        },
        {
            "module": 'module.fleet["a.b"]',
            "mode": "managed",
            "type": "aws_instance",
            "name": "web",
            "provider": PROVIDER,
            "instances": [
                {"index_key": 0, "attributes": {"id": "i-02222222222222222"}},
                {"index_key": 1, "attributes": {"id": "i-03333333333333333"}},
            ],
        },
        {
            "mode": "managed",
            "type": "aws_ebs_volume",
            "name": "data",
            "provider": PROVIDER,
            "instances": [{"index_key": "log", "attributes": {"id": "vol-04444444444444444"}}],
        },
        {
            "mode": "data",
            "type": "aws_instance",
            "name": "db",
            "provider": PROVIDER,
            "instances": [{"attributes": {"id": "i-05555555555555555"}}],
        },
    ],
    "check_results": None,
}


@pytest.mark.parametrize(
    ("content", "name", "its_id"),
    [
        (OUTPUTS, "db_id", "i-0aaaaaaaaaaaaaaaa"),
        (OUTPUTS, "db_ids[1]", "i-0cccccccccccccccc"),
        (OUTPUTS, "by_role.db", "i-0dddddddddddddddd"),
        (OUTPUTS, 'by_role["db"].id', "i-0dddddddddddddddd"),
        (OUTPUTS, 'by_role["a b"]', "i-0eeeeeeeeeeeeeeee"),
        (STATE, "db_id", "i-0aaaaaaaaaaaaaaaa"),
        (STATE, "aws_instance.db", "i-01111111111111111"),
        (STATE, "aws_instance.db.id", "i-01111111111111111"),
        (STATE, "data.aws_instance.db", "i-05555555555555555"),
        (STATE, 'module.fleet["a.b"].aws_instance.web[1]', "i-03333333333333333"),
        (STATE, 'aws_ebs_volume.data["log"]', "vol-04444444444444444"),
        (STATE, "aws_ebs_volume.data", "vol-04444444444444444"),
    ],
)
def test_a_name_leads_to_its_id(content, name, its_id, tmp_path):
    assert parse_terraform(json.dumps(content), "it").find(name) == its_id
    file = tmp_path / "terraform.tfstate"
    file.write_text(json.dumps(content))
    assert Terraform(file).find(name) == its_id


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (OUTPUTS, "web_id", "has no 'web_id': it has db_id, db_ids"),
        (OUTPUTS, "db_ids", "not one id: it has 2 values: add an index"),
        (OUTPUTS, "db_ids[2]", "does not exist: it has 2 values"),
        (OUTPUTS, "db_id[0]", "does not exist: it is a str"),
        (OUTPUTS, "by_role", 'not one id: it has 2 values, by "db", "a b"'),
        (OUTPUTS, "password.x", "does not exist"),
        (OUTPUTS, "nothing", "it is empty"),
        (STATE, 'module.fleet["a.b"].aws_instance.web', "it has 2 values, by 0, 1"),
        (STATE, "aws_instance.cache", "has no 'aws_instance.cache': it has db_id, aws_instance.db"),
        (OUTPUTS, "db id", "invalid Terraform name 'db id'"),
        ({"version": 3, "modules": []}, "db_id", "state file of version 3"),
        ({"format_version": "1.0", "values": {}}, "db_id", "something else than outputs"),
        ({"version": 4, "resources": [{"type": "aws_instance"}]}, "db_id", "cannot be read"),
        ([], "db_id", "is a JSON list"),
    ],
)
def test_a_name_without_one_id_is_refused_without_showing_values(content, name, said):
    with pytest.raises(TerraformError) as error:
        parse_terraform(json.dumps(content), "it").find(name)
    assert said in str(error.value)
    assert "hunter2" not in str(error.value)


KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES = st.recursive(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    lambda inner: st.lists(inner, min_size=1) | st.dictionaries(KEYS, inner, min_size=1),
    max_leaves=8,
)


def paths(value, steps=""):
    if isinstance(value, str):
        yield steps, value
    for index, inner in enumerate(value) if isinstance(value, list) else ():
        yield from paths(inner, f"{steps}[{index}]")
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from paths(inner, f"{steps}[{json.dumps(key)}]")


@given(st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_-]*", fullmatch=True), VALUES, min_size=1))
def test_every_text_in_an_output_is_found_by_its_path(outputs):
    text = json.dumps({name: {"value": value} for name, value in outputs.items()})
    names = parse_terraform(text, "it")
    for name, value in outputs.items():
        for steps, found in paths(value):
            assert names.find(name + steps) == found


@given(st.text() | st.from_regex(r'([a-z.\[\]0"\\]|\\u00e9)*', fullmatch=True))
def test_any_text_is_a_name_or_refused_as_one(text):
    with contextlib.suppress(TerraformError):
        steps = parse_name(text)
        assert steps
        assert isinstance(steps[0], str)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["id", "value"]), inner),
    max_leaves=10,
)
RESOURCE = st.dictionaries(st.sampled_from(["module", "mode", "type", "name", "instances"]), JSON)


@given(
    st.text()
    | JSON.map(json.dumps)
    | st.fixed_dictionaries(
        {"version": st.just(4)}, optional={"outputs": JSON, "resources": JSON | st.lists(RESOURCE)}
    ).map(json.dumps)
)
def test_any_content_is_read_or_refused(text):
    with contextlib.suppress(TerraformError):
        assert parse_terraform(text, "it").find("a.b[0]")


PROGRAM = """\
#!/bin/sh
set -e
case "$*" in
    "output -json") cat outputs.json ;;
    "state pull") cat state.json ;;
    *) echo "unexpected: $*" >&2; exit 1 ;;
esac
echo "$*" >> asked
"""


@pytest.fixture
def configuration(tmp_path, monkeypatch):
    """A directory with a Terraform configuration, and a program that answers as Terraform does."""
    programs, folder = tmp_path / "bin", tmp_path / "infrastructure"
    programs.mkdir()
    folder.mkdir()
    (programs / "terraform").write_text(PROGRAM)
    (programs / "terraform").chmod(0o755)
    (folder / "outputs.json").write_text(json.dumps(OUTPUTS))
    (folder / "state.json").write_text(json.dumps(STATE))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return folder


def test_a_directory_is_asked_for_its_outputs_and_only_then_for_its_state(configuration):
    terraform = Terraform(configuration)
    assert terraform.find("db_ids[0]") == "i-0bbbbbbbbbbbbbbbb"
    assert terraform.find("db_id") == "i-0aaaaaaaaaaaaaaaa"
    assert (configuration / "asked").read_text().splitlines() == ["output -json"]
    assert terraform.find("aws_instance.db") == "i-01111111111111111"
    assert (configuration / "asked").read_text().splitlines() == ["output -json", "state pull"]


def test_a_program_that_fails_is_quoted(configuration):
    (configuration / "outputs.json").unlink()
    with pytest.raises(
        TerraformError, match=r"`terraform output -json` in .* failed with exit code \d+: .*outputs.json"
    ):
        Terraform(configuration).find("db_id")


def test_a_directory_needs_a_program_and_a_file_must_be_there(configuration, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TerraformError, match="neither terraform nor tofu is on the PATH"):
        Terraform(configuration).find("db_id")
    with pytest.raises(TerraformError, match="No such file"):
        Terraform(tmp_path / "none.json").find("db_id")


@pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed")
def test_terraform_itself_answers_so(tmp_path):
    (tmp_path / "terraform.tfstate").write_text(json.dumps(STATE))
    terraform = Terraform(tmp_path)
    assert terraform.find("db_id") == "i-0aaaaaaaaaaaaaaaa"
    assert terraform.find("aws_instance.db") == "i-01111111111111111"
    assert terraform.find('module.fleet["a.b"].aws_instance.web[1]') == "i-03333333333333333"
