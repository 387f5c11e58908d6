"""Hosts by URLs and inventories: what is read, which variable wins, and what is refused with a sentence."""

import contextlib
import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.hosts.inventory import BadInventory, InventoryHost, parse_inventory, parse_url

INI = """\
# as Ansible has it
ssh://root@10.0.0.9:2222  cloudbench_devices=/dev/sdb,/dev/sdc
lone ansible_host=10.0.0.1

[db]
db1 ansible_host=db1.example.com ansible_port=2200
db2 ansible_ssh_private_key_file="~/keys/db 2"   # the second

[db:vars]
ansible_user = postgres
team = storage

[web]
web1 ansible_user=www

[all:vars]
ansible_user=ec2-user
cloudbench_address=192.168.0.1

[site:children]
db
web
"""
YAML = """\
all:
  vars:
    ansible_user: ec2-user
    cloudbench_address: 192.168.0.1
  children:
    site:
      children:
        db:
          hosts:
            db1: {ansible_host: db1.example.com, ansible_port: 2200}
            db2: {ansible_ssh_private_key_file: ~/keys/db 2}
          vars: {ansible_user: postgres, team: storage}
        web:
          hosts:
            web1: {ansible_user: www}
"""
LISTED = {
    "_meta": {
        "hostvars": {
            "db1": {"ansible_host": "db1.example.com", "ansible_port": 2200},
            "db2": {"ansible_ssh_private_key_file": "~/keys/db 2"},
            "web1": {"ansible_user": "www"},
        }
    },
    "all": {
        "children": ["ungrouped", "site"],
        "vars": {"ansible_user": "ec2-user", "cloudbench_address": "192.168.0.1"},
    },
    "site": {"children": ["db", "web"]},
    "db": {"hosts": ["db1", "db2"], "vars": {"ansible_user": "postgres"}},
    "web": {"hosts": ["web1"]},
}


@pytest.mark.parametrize(
    ("text", "name", "address", "port", "user"),
    [
        ("ssh://db1", "db1", "db1", None, ""),
        ("ssh://root@db1:22", "db1", "db1", 22, "root"),
        ("ssh://me@127.0.0.1:2201/", "127.0.0.1:2201", "127.0.0.1", 2201, "me"),
        ("ssh://[2001:db8::1]:2201", "[2001:db8::1]:2201", "2001:db8::1", 2201, ""),
    ],
)
def test_a_url_names_a_host(text, name, address, port, user):
    assert parse_url(text) == InventoryHost(name, address, port, user)


@pytest.mark.parametrize(
    "text", ["db1", "http://db1", "ssh://", "ssh://db1:", "ssh://db1:0", "ssh://db1:65536", "ssh://db1/data"]
)
def test_what_is_no_url_of_a_host_is_refused(text):
    with pytest.raises(BadInventory):
        parse_url(text)


def test_a_password_is_refused_and_not_shown():
    with pytest.raises(BadInventory, match="passwords are not used") as refused:
        parse_url("ssh://root:hunter22@db1")
    assert "hunter22" not in str(refused.value)


def by_name(hosts):
    return {host.name: host for host in hosts}


def test_an_ini_inventory_is_read():
    hosts = by_name(parse_inventory(INI, "hosts"))
    assert list(hosts) == ["10.0.0.9:2222", "lone", "db1", "db2", "web1"]
    assert hosts["10.0.0.9:2222"].devices == ("/dev/sdb", "/dev/sdc")
    assert (hosts["10.0.0.9:2222"].address, hosts["10.0.0.9:2222"].port) == ("10.0.0.9", 2222)
    assert (hosts["lone"].address, hosts["lone"].user) == ("10.0.0.1", "ec2-user")
    assert hosts["db2"].private_key_file == "~/keys/db 2"


def with_suffix(suffix):
    return {".ini": INI, ".yml": YAML, ".json": json.dumps(LISTED)}[suffix]


@pytest.mark.parametrize("suffix", [".ini", ".yml", ".json"])
def test_the_nearest_variable_wins_in_every_form(suffix):
    """A host's own, then its group's, then the group's around it, then those of all."""
    hosts = by_name(parse_inventory(with_suffix(suffix), f"hosts{suffix}"))
    assert (hosts["db1"].user, hosts["web1"].user) == ("postgres", "www")
    assert (hosts["db1"].address, hosts["db1"].port) == ("db1.example.com", 2200)
    assert hosts["db2"].load_address == "192.168.0.1"
    assert set(hosts["db1"].groups) >= {"db", "site"}
    assert "web" not in hosts["db1"].groups


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("db[01:10]", "ranges"),
        ("db1 ansible_connection=local", "ansible_connection=local"),
        ("db1 ansible_password=hunter22", "ansible_password is not supported"),
        ("db1 ansible_ssh_common_args='-J bastion'", "~/.ssh/config"),
        ("db1 ansible_host={{ip}}", "templates"),
        ("db1 ansible_port=ssh", "not a port"),
        ("db1:2222", "ansible_port="),
        ("db1 ansible_host", "not a variable"),
        ("db1 'ansible_host=x", "line 1"),
        ("db1 cloudbench_devices=sdb", "not a path of a device"),
        ("db1 cloudbench_adress=10.0.0.1", "cloudbench_address"),
        ("[db:kids]\ndb1", "unknown section"),
        ("[db", "invalid section"),
        ("[a:children]\nb\n[b:children]\na\n[a]\ndb1", "contains itself"),
        ("ssh://root@db1\ndb1", "named twice"),
        ("# nothing", "no hosts"),
        ("#!/usr/bin/env python", "is a program"),
        ("$ANSIBLE_VAULT;1.1;AES256", "ansible-vault"),
    ],
)
def test_what_is_not_supported_is_refused_with_its_place(line, words):
    with pytest.raises(BadInventory) as refused:
        parse_inventory(line, "inventory")
    assert words in str(refused.value)
    assert "inventory" in str(refused.value) or words == "named twice"
    assert "hunter22" not in str(refused.value)


@pytest.mark.parametrize(
    "text", ["- db1", "all: [db1]", "all: {hosts: [db1]}", "all: {host: {db1: }}", "all: !vault x", "a: b: c"]
)
def test_yaml_of_another_shape_is_refused(text):
    with pytest.raises(BadInventory, match=r"hosts\.yml"):
        parse_inventory(text, "hosts.yml")


def test_an_empty_value_of_yaml_is_left_out():
    text = "db: {hosts: {db1: {ansible_user: , ansible_port: }}, vars: {ansible_user: ada}}"
    (host,) = parse_inventory(text, "hosts.yml")
    assert (host.user, host.port) == ("ada", None)


NAMES = st.from_regex(r"[a-z][a-z0-9_.-]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("all", "ungrouped")
)
WORDS = st.from_regex(r"[A-Za-z0-9/~._ -]{1,12}", fullmatch=True).map(str.strip).filter(bool)
VARIABLES = st.fixed_dictionaries(
    {},
    optional={"ansible_host": NAMES, "ansible_port": st.integers(1, 65_535).map(str), "ansible_user": WORDS},
)


@given(
    st.dictionaries(NAMES, st.dictionaries(NAMES, VARIABLES, min_size=1, max_size=4), min_size=1, max_size=4)
)
def test_ini_and_yaml_of_the_same_inventory_are_the_same(groups):
    """Groups of hosts with variables of their own; a host may be in several groups."""
    lines = []
    for group, hosts in groups.items():
        lines.append(f"[{group}]")
        lines += [
            " ".join([name, *(f"'{key}={value}'" for key, value in of.items())]) for name, of in hosts.items()
        ]
    content = {group: {"hosts": hosts} for group, hosts in groups.items()}
    by_ini = parse_inventory("\n".join(lines), "hosts")
    assert by_ini == parse_inventory(yaml.safe_dump(content, sort_keys=False), "hosts.yml")
    assert {host.name for host in by_ini} == {name for hosts in groups.values() for name in hosts}


@given(st.text(max_size=200), st.sampled_from(["hosts", "hosts.yml"]))
def test_any_text_is_read_or_refused(text, place):
    with contextlib.suppress(BadInventory):
        assert parse_inventory(text, place)


@given(st.text(max_size=60))
def test_any_url_is_read_or_refused(text):
    with contextlib.suppress(BadInventory):
        host = parse_url(f"ssh://{text}")
        assert host.name
        assert host.port is None or 0 < host.port < 65_536
