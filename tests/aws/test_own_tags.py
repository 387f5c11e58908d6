"""A project's own tags are on everything that a run creates, from the call that creates it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench import gp3
from pytest_cloudbench.aws.account_settings import AccountSettings
from pytest_cloudbench.limits.account_values import LONGEST_KEY, LONGEST_VALUE, MOST_OWN_TAGS, parse_tags

WORDS = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters=",="), min_size=1, max_size=40
)
OWN_KEYS = WORDS.filter(lambda key: not key.lower().startswith(("aws:", "cloudbench:")) and key != "Name")


@given(st.dictionaries(OWN_KEYS, st.one_of(st.just(""), WORDS), max_size=MOST_OWN_TAGS))
def test_tags_are_read_as_they_are_written(tags):
    assert parse_tags(",".join(f"{key}={value}" for key, value in tags.items())) == tags
    assert parse_tags("\n".join(f" {key} = {value} " for key, value in tags.items())) == tags


def test_only_the_first_equals_sign_ends_a_key():
    assert parse_tags("query=a=b, team=storage") == {"query": "a=b", "team": "storage"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("team", "key=value"),
        ("=storage", "key=value"),
        ("team=a,team=b", "twice"),
        ("Name=mine", "reserved"),
        ("aws:team=a", "reserved"),
        ("AWS:team=a", "reserved"),
        ("cloudbench:run=other", "reserved"),
        ("k" * (LONGEST_KEY + 1) + "=v", "129 characters"),
        ("k=" + "v" * (LONGEST_VALUE + 1), "257 characters"),
        ("team=a\tb", "control character"),
        (",".join(f"k{number}=v" for number in range(MOST_OWN_TAGS + 1)), "too many"),
    ],
)
def test_invalid_tags_are_refused(text, why):
    with pytest.raises(ValueError, match=why):
        parse_tags(text)


def test_the_longest_tags_are_taken():
    assert parse_tags("k" * LONGEST_KEY + "=" + "v" * LONGEST_VALUE)


@pytest.mark.parametrize("where", ["option", "ini"])
def test_invalid_tags_end_the_session_before_anything_is_created(pytester, where):
    pytester.makepyfile("def test_it(ec2_instance): pass")
    if where == "ini":
        pytester.makeini("[pytest]\ncloudbench_tags = aws:team=a")
    result = pytester.runpytest(*(["--cloudbench-tags=aws:team=a"] if where == "option" else []))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cloudbench[-_]tags*aws:team*reserved*"])


def test_everything_a_run_creates_has_the_own_tags(make_cloud, access, ec2):
    own = {"team": "storage", "cost-centre": "4711"}
    cloud = make_cloud(replace(access, settings=AccountSettings(tags=own)))
    instance = cloud.launch("c5.large")
    [volume] = cloud.create_volumes([gp3(size_gib=1)], instance=instance)
    snapshot = cloud.create_snapshot(volume)
    described = [
        *ec2.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"],
        *ec2.describe_volumes(Filters=[{"Name": "tag:cloudbench:run", "Values": [cloud.run_id]}])["Volumes"],
        *ec2.describe_snapshots(SnapshotIds=[snapshot.id])["Snapshots"],
        *ec2.describe_key_pairs(Filters=[{"Name": "tag:cloudbench:run", "Values": [cloud.run_id]}])[
            "KeyPairs"
        ],
        *ec2.describe_security_groups(Filters=[{"Name": "tag:cloudbench:run", "Values": [cloud.run_id]}])[
            "SecurityGroups"
        ],
    ]
    assert len(described) == 6, "an instance, two volumes, a snapshot, a key pair, a security group"
    for each in described:
        tags = {tag["Key"]: tag["Value"] for tag in each["Tags"]}
        assert own.items() <= tags.items()
        assert tags["cloudbench:run"] == cloud.run_id
