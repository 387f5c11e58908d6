"""Hosts that are there already and have no API: which one a test gets, its loads, and what they leave."""

import getpass
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from own_ssh import add_to_agent, own_key

from pytest_cloudbench import NotOffered, gp3, recorded_limits
from pytest_cloudbench.fixtures.found_hosts import allowed_devices, read_host_marker
from pytest_cloudbench.hosts.errors import HostUnreachable, LoginRefused, NotOurs, ToolMissing
from pytest_cloudbench.hosts.inventory import InventoryHost
from pytest_cloudbench.hosts.shell_host import ShellHost
from pytest_cloudbench.limits.quantities import Iops
from pytest_cloudbench.plain_hosts import PlainHosts
from pytest_cloudbench.resources.errors import ExistingHardware
from pytest_cloudbench.resources.facts import ALLOWED_DEVICES_TAG
from pytest_cloudbench.resources.instance import NoPromise
from pytest_cloudbench.resources.markers import BadMarker
from pytest_cloudbench.resources.plain_host import HostPair, PlainHost
from pytest_cloudbench.workloads.errors import TargetError, WorkloadRefused
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.run import run_fio
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.run import run_iperf3

DOCS = Path(__file__).resolve().parents[2] / "docs"
LIMITS = recorded_limits(
    iops=500, throughput="100 MiB/s", network="400 Mbit/s", source="its data sheet", date="2026-11"
)


def inventory_host(sshd, name="db1", **changes):
    login = {
        "address": "127.0.0.1",
        "port": sshd.port,
        "user": getpass.getuser(),
        "private_key_file": str(sshd.directory / "login_key"),
        "host_key": sshd.key("host_key.pub").strip(),
    }
    return InventoryHost(name, **(login | changes))


@pytest.fixture
def opened(sshd):
    """Opens a host of a provider; it is closed at the end of the test."""
    hosts = []

    def open_host(provider=None, limits=None, **changes):
        provider = provider or PlainHosts([inventory_host(sshd, **changes)])
        for launched in provider.find_hosts():
            hosts.append(PlainHost(provider, launched, limits))
        return hosts[-1]

    yield open_host
    for each in hosts:
        each.close()


def provider_of(*names, group="db"):
    return PlainHosts([InventoryHost(name, name, groups=(group,)) for name in names])


def found(provider, *names, **options):
    return [each.id for each in provider.find_hosts(names, **options)]


def test_a_test_gets_the_first_hosts_or_those_that_it_names():
    provider = PlainHosts(
        [InventoryHost("web1", "10.0.0.1", groups=("web",)), *provider_of("db1", "db2")._hosts.values()]
    )
    assert found(provider) == ["web1"]
    assert found(provider, group="db") == ["db1"]
    assert found(provider, group="db", count=2) == ["db1", "db2"]
    assert found(provider, "db2", "web1", count=2) == ["db2", "web1"]


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        (("db9",), {}, "'db9'"),
        ((), {"group": "web"}, "0 hosts in the group 'web'"),
        ((), {"count": 3}, "2 hosts in all"),
    ],
)
def test_a_host_that_is_not_there_is_refused_with_those_that_are(names, options, words):
    with pytest.raises(ExistingHardware, match=words) as refused:
        provider_of("db1", "db2").find_hosts(names, **options)
    assert "db1, db2" in str(refused.value)


def test_nothing_is_launched_created_or_restarted(opened):
    provider = provider_of("db1")
    with pytest.raises(NotOffered):
        provider.launch("m5.large")
    host = opened()
    with pytest.raises(NotOffered):
        provider.create_volumes([gp3(size_gib=1)], instance=host.launched)
    for change in (host.stop, host.reboot):
        with pytest.raises(ExistingHardware):
            change()
    assert provider.close().clean


def test_a_host_knows_only_the_limits_that_a_test_states(opened):
    bare, stated = opened(), opened(limits=LIMITS)
    for figure in ("iops", "throughput", "network_peak", "network_baseline", "ebs_iops", "ebs_throughput"):
        with pytest.raises(NoPromise, match="host db1"):
            getattr(bare, figure)
    assert (stated.iops.limit, stated.iops.owner) == (Iops(500), "host db1")
    assert stated.iops.source == "its data sheet"
    pair = HostPair(stated, opened())
    (ceiling,) = pair.envelope(streams=4).ceilings
    assert (ceiling.owner, str(ceiling.limit)) == ("host db1", "400 Mbit/s")
    assert HostPair(bare, opened()).envelope(streams=1).ceilings == ()


@pytest.mark.timed
def test_a_load_in_a_directory_is_measured_and_leaves_nothing(opened, tmp_path):
    (tmp_path / "theirs").write_text("rows")
    host = opened(limits=LIMITS)
    data = host.directory(str(tmp_path))
    assert host.directory(str(tmp_path)) is data
    job = FioJob.of("randwrite", "4k", size="8m", rate_iops=500, iodepth=2, runtime=3)
    run = run_fio(data, job)
    assert run.target == f"{tmp_path} on host db1"
    assert run.reaches(data.iops)
    assert [each.limit for each in run.envelope.ceilings] == [data.iops.limit, data.throughput.limit]
    assert Path(data.prefilled("1m").path).parent == Path(data.path)
    refused = FioJob.of("write", "1m", size="900000g", runtime=1)
    with pytest.raises(TargetError, match="free"):
        run_fio(data, refused)
    with pytest.raises(WorkloadRefused):
        run_fio(data, FioJob.of("randread", "4k", size="8m", runtime=1, no_such_option=1))
    host.close()
    assert [each.name for each in tmp_path.iterdir()] == ["theirs"]


@pytest.mark.timed
def test_without_limits_there_are_figures(opened, tmp_path):
    run = run_fio(
        opened().directory(str(tmp_path)), FioJob.of("randread", "16k", size="4m", rate_iops=300, runtime=3)
    )
    assert run.reaches("280 IOPS")
    assert not run.envelope.ceilings


class WithoutRoot(ShellHost):
    """This machine as a user who is nobody and has no sudo."""

    def execute(self, command):
        assert "sudo" not in command.line.split()
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", command.line]
        ended = subprocess.run(nobody, check=False, input=command.stdin or b"", capture_output=True)
        return command.result(ended.returncode, ended.stdout, ended.stderr)


class Nobodys(PlainHosts):
    def host(self, instance, *, connect_timeout_s):
        return WithoutRoot(str(instance), user="nobody")


@pytest.mark.timed
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root to become nobody")
def test_a_load_in_a_directory_needs_no_root(opened):
    with tempfile.TemporaryDirectory(prefix="of-nobody-") as data:
        os.chmod(data, 0o777)
        host = opened(Nobodys([InventoryHost("db1", "127.0.0.1")]))
        run = run_fio(host.directory(data), FioJob.of("randwrite", "4k", size="4m", rate_iops=400, runtime=2))
        assert run.reaches("360 IOPS")
        host.close()
        assert os.listdir(data) == []


def test_a_directory_must_be_there_and_writable(opened, tmp_path):
    with pytest.raises(NotOurs, match="missing on host db1 is not a directory"):
        opened().directory(str(tmp_path / "missing"))


def test_a_folder_that_cannot_be_removed_is_named_in_a_warning(opened, tmp_path):
    host = opened()
    data = host.directory(str(tmp_path))
    (Path(data.path) / ".owner").unlink()
    with pytest.warns(UserWarning, match=r"cloudbench-.* remove it there yourself"):
        host.close()


def test_a_directory_in_memory_is_named_as_such(opened):
    memory = Path("/dev/shm")
    if not memory.is_dir():
        pytest.skip("this machine has no /dev/shm")
    data = opened().directory(str(memory))
    assert any("in memory (tmpfs)" in each for each in data.conditions)


def test_a_missing_tool_is_not_installed_unless_that_is_allowed(opened):
    host = opened().host
    with pytest.raises(ToolMissing, match="--cloudbench-install-tools"):
        host.ensure_tool("no-such-tool-of-cloudbench")


def test_a_wrong_key_and_a_wrong_port_are_one_sentence_each(sshd, opened):
    with pytest.raises(LoginRefused, match="host db1"):
        opened(private_key_file=str(sshd.directory / "stranger_key")).host.connect()
    with pytest.raises(ExistingHardware, match="private key file"):
        opened(private_key_file=str(sshd.directory / "missing_key")).host.connect()
    wrong = opened(port=1)
    wrong._connect_timeout_s = 0.2
    with pytest.raises(HostUnreachable, match=r"whether `ssh -p 1 .*127\.0\.0\.1` works"):
        wrong.host.connect()


def test_a_given_key_leaves_the_user_s_own_login_in_force(sshd, opened, home, ssh_agent):
    """~/.ssh/config and known_hosts hold, and the agent has the key of an encrypted file."""
    kind, blob, _ = sshd.key("host_key.pub").split()
    (home / "lab_hosts").write_text(f"lab-key {kind} {blob}\n")
    (home / "config").write_text(
        f"Host lab\n HostName 127.0.0.1\n Port {sshd.port}\n HostKeyAlias lab-key\n"
        " UserKnownHostsFile ~/.ssh/lab_hosts\n"
    )
    lab = {"address": "lab", "port": None, "host_key": ""}
    assert opened(**lab).host.run(["echo", "in"]).stdout == "in\n"
    key = str(own_key(home, sshd, passphrase="12345", name="db_key"))
    with pytest.raises(LoginRefused, match=f"ssh-add {key}"):
        opened(**lab, private_key_file=key).host.connect()
    add_to_agent(sshd)
    assert opened(**lab, private_key_file=key).host.run(["echo", "in"]).stdout == "in\n"


@pytest.mark.timed
def test_a_pair_is_measured_over_the_address_for_loads(opened, sshd):
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed on this machine")
    client = opened()
    server = opened(name="db2", load_address="127.0.0.2")
    pair = HostPair(client, server)
    assert (pair.server_address, pair.label) == ("127.0.0.2", "host db1 -> host db2")
    run = run_iperf3(pair, Iperf3Job.of(duration=2, bitrate="40 Mbit/s"))
    assert run.reaches("36 Mbit/s")
    assert not run.envelope.ceilings


@pytest.mark.parametrize(
    ("text", "hosts", "expected"),
    [
        ("", ["a"], {}),
        ("/dev/sdb,/dev/disk/by-id/x", ["a"], {"a": ("/dev/sdb", "/dev/disk/by-id/x")}),
        (
            "a:/dev/sdb 10.0.0.1:22:/dev/sdc",
            ["a", "10.0.0.1:22"],
            {"a": ("/dev/sdb",), "10.0.0.1:22": ("/dev/sdc",)},
        ),
    ],
)
def test_the_owner_allows_devices_of_named_hosts(text, hosts, expected):
    assert allowed_devices(text, hosts) == expected


@pytest.mark.parametrize(
    ("text", "hosts"),
    [("/dev/sdb", ["a", "b"]), ("c:/dev/sdb", ["a"]), ("sdb", ["a"]), ("/dev/", ["a"]), ("a:", ["a"])],
)
def test_an_unclear_device_is_refused(text, hosts):
    with pytest.raises(ValueError, match=r"/dev|host"):
        allowed_devices(text, hosts)


def test_allowed_devices_travel_with_the_facts():
    provider = PlainHosts([InventoryHost("a", "a", devices=("/dev/sdb",))], allowed={"a": ("/dev/sdc",)})
    (launched,) = provider.find_hosts()
    assert launched.tags == {ALLOWED_DEVICES_TAG: "/dev/sdb /dev/sdc"}


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        (pytest.mark.host(7), "a text"),
        (pytest.mark.host("a", group="b"), "not both"),
        (pytest.mark.host(limits="fast"), "recorded_limits"),
        (pytest.mark.host("a", "b"), "by position"),
        (pytest.mark.host(names="a"), "did you mean"),
    ],
)
def test_a_bad_marker_of_a_host_is_refused(mark, words):
    with pytest.raises(BadMarker, match=words):
        read_host_marker(mark.mark, "host", ("name",))


@pytest.mark.parametrize(
    ("mark", "words"),
    [(pytest.mark.host_pair("a"), "needs client and server"), (pytest.mark.host_pair("a", "a"), "twice")],
)
def test_a_bad_marker_of_a_pair_is_refused(mark, words):
    with pytest.raises(BadMarker, match=words):
        read_host_marker(mark.mark, "host_pair", ("client", "server"))


NOTHING_OF_A_CLOUD = """
import sys

def test_no_library_of_a_cloud_was_loaded(host):
    assert not {"boto3", "botocore", "moto"} & set(sys.modules)
"""


def shown_tests(data):
    """The tests that docs/hosts.md shows but for the raw device, with a directory that is there and a small load."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / "hosts.md").read_text(), re.MULTILINE | re.DOTALL)
    text = "\n".join(block for block in blocks if "host.device" not in block)
    smaller = {
        "/data": str(data),
        '"1g"': '"4m"',
        "iodepth=4,": "rate_iops=400,",
        "=30": "=3",
        "duration=10": "duration=2",
    }
    for word, other in smaller.items():
        assert word in text
        text = text.replace(word, other)
    return text


@pytest.fixture
def inventory(pytester, sshd):
    """An inventory file of two hosts and tests that use it, in the directory of a session."""
    data = pytester.mkdir("data")
    (data / "theirs").write_text("rows")
    pytester.makepyfile(test_it=shown_tests(data) + NOTHING_OF_A_CLOUD)
    host = inventory_host(sshd)
    words = {
        "ansible_host": host.address,
        "ansible_port": host.port,
        "ansible_user": host.user,
        "ansible_ssh_private_key_file": host.private_key_file,
        "cloudbench_host_key": host.host_key,
    }
    given = "\n".join(f"{name}={value}" for name, value in words.items())
    return pytester.makefile(".ini", hosts=f"[db]\ndb1\ndb2\n[db:vars]\n{given}\n"), data


@pytest.mark.timed
def test_sessions_on_hosts_are_recorded_replayed_and_compared(pytester, inventory):
    """No cloud is opened; a later run is compared with the first, and a replay needs neither host nor inventory."""
    hosts, data = inventory
    quiet = ("-p", "no:cacheprovider", "-p", "no:benchmark", "-rA")
    given = f"--cloudbench-hosts={hosts.name}"
    first = pytester.runpytest_subprocess(
        *quiet, given, "--cloudbench-evidence=first", "--junitxml=first.xml"
    )
    first.assert_outcomes(passed=6)
    assert [each.name for each in data.iterdir()] == ["theirs"]
    gate = ("--cloudbench-baseline=first", "--cloudbench-regression=50%", "--cloudbench-evidence=second")
    second = pytester.runpytest_subprocess(*quiet, given, *gate, "-k", "test_random_reads")
    # Whether this machine's latency differs is not a matter of this test.
    second.stdout.fnmatch_lines(["*in 1 earlier run*"])
    hosts.unlink()
    shutil.rmtree(data)
    replayed = pytester.runpytest_subprocess(*quiet, "--cloudbench-replay=first")
    replayed.assert_outcomes(passed=6)
    replayed.stdout.fnmatch_lines(["cloudbench replays *measured in hosts*"])
    run = json.loads(
        next(iter((pytester.path / "first" / "journals").glob("main*"))).read_text().splitlines()[0]
    )
    assert (run["options"]["cloud"], run["options"]["pace"]) == ("hosts", "full")
    assert "host db1" in (pytester.path / "first.xml").read_text()


def test_a_session_without_hosts_says_how_to_name_one(pytester):
    pytester.makepyfile("def test_it(host): ...")
    done = pytester.runpytest("-p", "no:cacheprovider")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*--cloudbench-hosts=ssh://user@host*"])


def test_the_fixture_of_another_plugin_is_left_alone(pytester):
    """pytest-testinfra has a fixture of this name, which stays its own unless hosts are named here."""
    pytester.makeconftest(
        """
        import pytest

        class Testinfra:
            @pytest.fixture
            def host(self):
                return "of testinfra"

        def pytest_configure(config):
            config.pluginmanager.register(Testinfra(), "pytest11.testinfra")
        """
    )
    pytester.makepyfile("def test_it(host): assert host == 'of testinfra'")
    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=1)
    pytester.makepyfile("def test_it(host): assert host.id == 'db1'")
    named = pytester.runpytest("-p", "no:cacheprovider", "--cloudbench-hosts=ssh://db1.invalid")
    named.stdout.fnmatch_lines(["*HostUnreachable*db1.invalid*"])


def test_ssm_may_be_the_way_to_instances_beside_hosts(pytester):
    pytester.makepyfile("def test_it(): pass")
    options = ["--cloudbench-hosts=ssh://a", "--cloudbench-access=ssm", "--cloudbench-cloud=aws"]
    pytester.runpytest("-p", "no:cacheprovider", *options).assert_outcomes(passed=1)


@pytest.mark.parametrize("folder", ["group_vars", "host_vars"])
def test_variables_beside_an_inventory_are_refused_and_not_ignored(pytester, folder):
    pytester.makepyfile("def test_it(): pass")
    pytester.mkdir(folder)
    pytester.makefile(".ini", hosts="[db]\ndb1\n")
    pytester.makefile(".json", hosts='{"_meta": {"hostvars": {}}, "db": {"hosts": ["db1"]}}')
    done = pytester.runpytest("-p", "no:cacheprovider", "--cloudbench-hosts=hosts.ini")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*hosts.ini*{folder}*ansible-inventory*--list*"])
    pytester.runpytest("-p", "no:cacheprovider", "--cloudbench-hosts=hosts.json").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--cloudbench-hosts=db1"], "neither ssh://user@host"),
        (["--cloudbench-hosts=ssh://a,ssh://a"], "named twice"),
        (["--cloudbench-hosts=ssh://a", "--cloudbench-access=ssm"], "of EC2 instances"),
        (
            [
                "--cloudbench-hosts=ssh://a",
                "--cloudbench-hosts=ssh://b",
                "--cloudbench-allow-device=/dev/sdb",
            ],
            "2 hosts",
        ),
    ],
)
def test_bad_hosts_are_refused_before_anything_is_collected(pytester, options, words):
    done = pytester.runpytest("-p", "no:cacheprovider", *options)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*--cloudbench-*{words}*"])
