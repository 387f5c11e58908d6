"""How long hardware lives: scopes of markers, --cloudbench-reuse, and factories for wider fixtures."""

import re

import pytest

# Loaded here so that the sessions inside these tests do not load them again: classes would exist twice.
import pytest_cloudbench.resources.ec2
import pytest_cloudbench.resources.shared_hardware
import pytest_cloudbench.session.recording
import pytest_cloudbench.session.replaying  # noqa: F401

CLOUD = """
import dataclasses, datetime, itertools
from pytest_cloudbench import (
    Attachment, CreatedVolume, ImageFacts, InstanceLimits, LaunchedInstance, Provider, ShellHost, Size, TeardownReport,
)
from pytest_cloudbench.resources.facts import KeptInstance

def note(*words):
    with open("events", "a") as file:
        print(*words, file=file)

class Host(ShellHost):
    def execute(self, command):
        return command.result(0, b"done\\n", b"")

class Toy(Provider):
    label, region, run_id = "toy", "here", "run-1"

    def __init__(self):
        self.numbers = itertools.count(1)

    def limits(self, instance_type):
        return InstanceLimits.from_describe({"InstanceType": instance_type}, date="2026-11")

    def launch_many(self, launches, *, placement_group=None):
        made = tuple(
            LaunchedInstance(
                f"i-{next(self.numbers)}", each.type, self.limits(each.type), ImageFacts(login_user="admin"),
                tags={"cloudbench:run": self.run_id},
            )
            for each in launches
        )
        note("launch", *(each.id for each in made))
        return made

    def refresh(self, instance):
        return dataclasses.replace(instance, earlier_tests=0)

    def stop(self, instance, *, force=False):
        return instance

    def host(self, instance, *, connect_timeout_s):
        return Host(str(instance), address="here", user="admin")

    def create_volumes(self, specs, zone=None, *, instance, name="", snapshot=None):
        made = tuple(
            CreatedVolume(f"vol-{next(self.numbers)}", each, "a", Size.from_gib(each.size_gib), "available")
            for each in specs
        )
        note("create", *(each.id for each in made))
        return made

    def attach_all(self, volumes, instance, *, card=None):
        return tuple(
            dataclasses.replace(each, attachment=Attachment(each.id, instance.id, "/dev/sdf", "attached"))
            for each in volumes
        )

    def detach(self, volume):
        note("detach", volume.id)
        return volume

    def modify_volume(self, volume, spec, *, until="completed", timeout_s=3600.0):
        return dataclasses.replace(volume, spec=spec)

    def keep(self, instances, *, test):
        note("keep", *(each.id for each in instances))
        return tuple(
            KeptInstance(each.id, each.type, datetime.datetime.now(), "ssh", "reap") for each in instances
        )

    def release(self, resources):
        note("release", *sorted(each.id for each in resources))

    def close(self):
        note("close")
        return TeardownReport()

def pytest_cloudbench_provider(config, name):
    return Toy if name == "toy" else None

def pytest_runtest_logreport(report):
    if report.when == "call":
        note("ran", report.nodeid.split("::", 1)[1])
"""
HEAD = "import pytest\nfrom pytest_cloudbench import gp3\n"
QUIET = ("-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:allure_pytest", "-p", "no:randomly")


@pytest.fixture
def run(pytester):
    """Run a module's tests on the toy cloud; without evidence unless an option says so."""
    pytester.makeconftest(CLOUD)

    def run(body, *options):
        pytester.makepyfile(test_it=HEAD + body)
        given = " ".join(options)
        off = () if "evidence" in given or "replay" in given else ("--cloudbench-evidence=off",)
        cloud = () if "replay" in given else ("--cloudbench-cloud=toy",)
        return pytester.runpytest_inprocess(*QUIET, *cloud, *off, *options, no_reraise_ctrlc=True)

    return run


@pytest.fixture
def events(pytester):
    def events(*kinds):
        lines = [line.split() for line in (pytester.path / "events").read_text().splitlines()]
        return [line for line in lines if not kinds or line[0] in kinds]

    return events


def all_released(events):
    created = [each for line in events("launch", "create") for each in line[1:]]
    released = [each for line in events("release") for each in line[1:]]
    assert sorted(released) == sorted(created), "each once"
    return True


FORTY = """
@pytest.mark.parametrize("number", range(40))
@pytest.mark.ec2_instance("m5.large"{scope})
def test_it(ec2_instance, number):
    ec2_instance.run(["true"])
"""


@pytest.mark.parametrize(
    ("scope", "options", "launches"),
    [
        ("", (), 40),
        (", scope='function'", (), 40),
        (", scope='class'", (), 40),
        (", scope='module'", (), 1),
        (", scope='session'", (), 1),
        ("", ("--cloudbench-reuse",), 1),
        (", scope='function'", ("--cloudbench-reuse",), 40),
    ],
)
def test_forty_tests_launch_as_often_as_their_scope_needs(run, events, scope, options, launches):
    run(FORTY.format(scope=scope), *options).assert_outcomes(passed=40)
    assert len(events("launch")) == launches
    assert [line[1] for line in events("ran")] == [f"test_it[{number}]" for number in range(40)]
    assert all_released(events)


CLASSES = """
class Shared:
    @pytest.mark.ec2_instance("m5.large", scope="class")
    @pytest.mark.ebs_volume(gp3(size_gib=1), scope="class")
    def test_volume(self, ec2_instance, ebs_volume):
        pass

    @pytest.mark.ec2_instance("m5.large", scope="class")
    @pytest.mark.ebs_volume(gp3(size_gib=1), scope="class")
    def test_volume_again(self, ec2_instance, ebs_volume):
        assert ebs_volume.created.earlier_tests == 1

class TestOne(Shared): pass
class TestTwo(Shared): pass
"""


def test_a_class_has_its_own_hardware_which_ends_with_it(run, events):
    run(CLASSES).assert_outcomes(passed=4)
    assert events() == [
        *(["launch", "i-1"], ["create", "vol-2"]),
        *(["ran", "TestOne::test_volume"], ["ran", "TestOne::test_volume_again"]),
        ["release", "i-1", "vol-2"],
        *(["launch", "i-3"], ["create", "vol-4"]),
        *(["ran", "TestTwo::test_volume"], ["ran", "TestTwo::test_volume_again"]),
        *(["release", "i-3", "vol-4"], ["close"]),
    ]


def test_a_volume_of_a_class_leaves_the_instance_of_its_module(run, events):
    run(CLASSES.replace('"m5.large", scope="class"', '"m5.large", scope="module"')).assert_outcomes(passed=4)
    assert events("launch", "create", "detach", "release") == [
        *(["launch", "i-1"], ["create", "vol-2"], ["detach", "vol-2"], ["release", "vol-2"]),
        *(["create", "vol-3"], ["detach", "vol-3"], ["release", "vol-3"], ["release", "i-1"]),
    ]


@pytest.mark.parametrize("replayed", [False, True])
def test_a_modified_volume_of_a_module_is_not_used_again_on_the_instance_of_the_session(
    run, events, replayed
):
    body = """
@pytest.mark.parametrize("number", range(3))
@pytest.mark.ec2_instance("m5.large", scope="session")
@pytest.mark.ebs_volume(gp3(size_gib=1), scope="module")
def test_it(ec2_instance, ebs_volume, number):
    assert ec2_instance.launched.earlier_tests == number
    assert ebs_volume.created.earlier_tests == (0, 1, 0)[number]
    assert ebs_volume.spec.iops == 3_000
    if number == 1:
        ebs_volume.modify(iops=4_000)
"""
    run(body, "--cloudbench-evidence=kept").assert_outcomes(passed=3)
    assert [line[1:] for line in events("create")] == [["vol-2"], ["vol-3"]]
    assert events("detach") == [["detach", "vol-2"], ["detach", "vol-3"]]
    assert all_released(events)
    if replayed:
        run(body, "--cloudbench-replay=kept").assert_outcomes(passed=3)


def test_volumes_end_before_the_wider_instance_that_they_are_on(run, events):
    run(
        """
@pytest.mark.ec2_instance("m5.large", scope="session")
@pytest.mark.ebs_volume(gp3(size_gib=1))
def test_it(ec2_instance, ebs_volume, ec2):
    ec2.create_volume(gp3(size_gib=1), ec2.launch("m5.xlarge"))
    ec2_instance.stop()
"""
    ).assert_outcomes(passed=1)
    assert [line[1:] for line in events("release")] == [["i-3", "vol-2", "vol-4"], ["i-1"]]


def test_an_error_while_a_test_ends_leaves_nothing_behind(run, events, pytester):
    result = run(
        """
@pytest.fixture
def broken(ec2_instance, ec2, monkeypatch):
    for each in (ec2_instance, ec2.launch("m5.xlarge"), ec2.launch("c5.large")):
        each.run(["true"])
        each.close = each.remove_folders = lambda: 1 / 0

@pytest.mark.ec2_instance("m5.large", scope="module")
@pytest.mark.ebs_volume(gp3(size_gib=1))
def test_it(broken, ebs_volume): pass
"""
    )
    result.assert_outcomes(passed=1, errors=1)
    assert all_released(events)


def test_a_replay_of_a_kept_test_ends_as_it_did(run, events, monkeypatch):
    monkeypatch.setattr("pytest_cloudbench.fixtures.keep_failed.CLOUDS", ("toy",))
    body = """
@pytest.mark.parametrize("number", range(3))
@pytest.mark.ec2_instance("m5.large", scope="session")
@pytest.mark.ebs_volume(gp3(size_gib=1))
def test_it(ec2_instance, ebs_volume, number):
    ebs_volume.detach = lambda: ec2_instance.run(["umount"])  # the toy has no devices
    assert number != 1
"""
    run(body, "--cloudbench-keep-failed", "--cloudbench-evidence=kept").assert_outcomes(passed=2, failed=1)
    [kept] = events("keep")
    assert kept == ["keep", "i-1"]
    before = len(events())
    replayed = run(body, "--cloudbench-replay=kept")
    replayed.assert_outcomes(passed=2, failed=1)
    replayed.stdout.no_fnmatch_line("*kept after failures*")
    assert {line[0] for line in events()[before:]} == {"ran"}


def test_hardware_of_a_module_ends_with_it_and_that_of_a_session_with_the_run(run, events, pytester):
    body = """
@pytest.mark.ec2_instance("m5.large", scope="session")
def test_session(ec2_instance): pass

@pytest.mark.ec2_instance("m5.xlarge", scope="module")
def test_module(ec2_instance): pass
"""
    pytester.makepyfile(test_another=HEAD + body)
    run(body).assert_outcomes(passed=4)
    assert len(events("launch")) == 3
    assert [line[0] for line in events()].index("release") < [line[0] for line in events()].index("close")
    assert all_released(events)
    assert events("release")[-1] == ["release", "i-1"]


@pytest.mark.parametrize(
    ("body", "options", "outcomes"),
    [
        ("assert number != 1", ("-x",), {"passed": 1, "failed": 1}),
        ("assert number != 1", (), {"passed": 2, "failed": 1}),
        ("if number: raise KeyboardInterrupt", (), {"passed": 1}),
    ],
    ids=["-x", "a failure", "Ctrl-C"],
)
def test_nothing_is_left_behind(run, events, body, options, outcomes):
    result = run(
        f"""
@pytest.mark.parametrize("number", range(3))
@pytest.mark.ec2_instance("m5.large", scope="module")
@pytest.mark.ebs_volume(gp3(size_gib=1), scope="module")
def test_it(ec2_instance, ebs_volume, number):
    {body}
""",
        *options,
    )
    found = result.parseoutcomes()
    assert {name: found.get(name) for name in outcomes} == outcomes
    assert len(events("launch")) == 1
    assert all_released(events)


def test_a_failing_setup_leaves_the_hardware_to_the_next_test(run, events):
    result = run(
        """
@pytest.fixture
def broken(ec2_instance, number):
    assert number

@pytest.mark.parametrize("number", range(2))
@pytest.mark.ec2_instance("m5.large", scope="module")
def test_it(broken): pass
"""
    )
    result.assert_outcomes(errors=1, passed=1)
    assert len(events("launch")) == 1
    assert all_released(events)


def test_an_instance_that_a_test_stopped_is_released_and_told(run, events):
    result = run(
        """
@pytest.mark.parametrize("number", range(3))
@pytest.mark.ec2_instance("m5.large", scope="module")
def test_it(ec2_instance, number):
    if number == 1:
        ec2_instance.stop()
"""
    )
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*m5.large i-1 is not used by another test: it was stopped*"])
    assert [line[0] for line in events()] == [
        *("launch", "ran", "ran", "release", "launch", "ran", "release", "close")
    ]


def test_repeats_share_by_their_own_marker(run, events):
    run(
        """
@pytest.mark.cloudbench_repeats(2)
@pytest.mark.ec2_instance("m5.large", scope="module")
def test_it(ec2_instance): pass
""",
        "--cloudbench-reuse",
    ).assert_outcomes(passed=2, skipped=1)
    assert len(events("launch")) == 2


@pytest.mark.parametrize(
    ("marks", "said"),
    [
        (
            "ec2_instance('m5.large', scope='package')",
            "*scope must be 'function', 'class', 'module' or 'session'*",
        ),
        ("ec2_instance('m5.large', scope=None)", "*not None*"),
        (
            "ec2_instance('m5.large')\n@pytest.mark.ebs_volume(gp3(size_gib=1), scope='module')",
            "*ebs_volume has scope='module' and ec2_instance scope='function'*cannot outlive*",
        ),
        ("ec2_pair('m5.large', scope='run')", "*ec2_pair: scope must be*"),
    ],
)
def test_a_scope_that_cannot_be_is_refused_before_anything_is_created(run, pytester, marks, said):
    result = run(f"@pytest.mark.{marks}\ndef test_it(ec2): pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*BadMarker: @pytest.mark.{said[1:]}", *[]] if "pair" in said else [said])
    assert not (pytester.path / "events").exists()


def test_a_pair_is_shared(run, events):
    run(
        """
@pytest.mark.parametrize("number", range(3))
@pytest.mark.ec2_pair("c5n.large", scope="module")
def test_it(ec2_pair, number):
    assert ec2_pair.client.launched.earlier_tests == number
"""
    ).assert_outcomes(passed=3)
    assert events("launch") == [["launch", "i-1", "i-2"]]
    assert all_released(events)


WIDE = """
@pytest.fixture(scope="module")
def instance(module_ec2):
    return module_ec2.launch("m5.large")

@pytest.fixture(scope="session")
def other(session_ec2):
    return session_ec2.launch("m5.xlarge")

def test_one(instance, other):
    assert instance.run(["hostname"]).stdout == "done\\n"
    assert (instance.launched.earlier_tests, other.launched.earlier_tests) == (0, 0)

def test_without(): pass

@pytest.mark.ec2_instance("m5.large")
def test_two(instance, ec2_instance):
    assert instance.run(["date"]).stdout == "done\\n"
    assert instance.id != ec2_instance.id
    assert instance.launched.earlier_tests == 1

class TestClass:
    @pytest.fixture(scope="class")
    def of_class(self, class_ec2):
        return class_ec2.launch("c5.large")

    def test_three(self, of_class, instance):
        assert (of_class.launched.earlier_tests, instance.launched.earlier_tests) == (0, 2)

    def test_four(self, of_class, other):
        assert (of_class.launched.earlier_tests, other.launched.earlier_tests) == (1, 1)
"""


def test_factories_for_wider_fixtures_live_as_long_as_these(run, events):
    run(WIDE).assert_outcomes(passed=5)
    assert events("launch", "release") == [
        *(["launch", "i-1"], ["launch", "i-2"], ["launch", "i-3"], ["release", "i-3"]),
        *(["launch", "i-4"], ["release", "i-4"], ["release", "i-2"], ["release", "i-1"]),
    ]
    assert all_released(events)


FOUR = FORTY.format(scope=", scope='module'").replace("range(40)", "range(4)")


@pytest.mark.parametrize("body", [WIDE, CLASSES, FOUR])
def test_a_replay_of_the_whole_run_works(run, events, body, pytester):
    recorded = run(body, "--cloudbench-evidence=kept").parseoutcomes()
    before = len(events())
    replayed = run(body, "--cloudbench-replay=kept").parseoutcomes()
    assert replayed["passed"] == recorded["passed"]
    assert {line[0] for line in events()[before:]} == {"ran"}, "no cloud was opened"


@pytest.mark.parametrize(
    ("body", "name"),
    [(CLASSES, "TestTwo and again"), (FOUR, "3"), (WIDE, "test_two")],
    ids=["class", "module", "wider fixtures"],
)
def test_a_test_on_shared_hardware_replays_by_itself(run, body, name):
    run(body, "--cloudbench-evidence=kept")
    uncounted = re.sub(r"assert .*earlier_tests.*", "pass", body)  # alone, it is the first test on them
    run(uncounted, "--cloudbench-replay=kept", "-k", name).assert_outcomes(passed=1)


def test_reuse_keeps_the_order_and_gives_one_test_two_instances(run, events):
    run(
        """
@pytest.mark.ec2_instance("m5.large")
def test_marked(ec2_instance): pass

def test_factory(ec2):
    assert ec2.launch("m5.large").id != ec2.launch("m5.large").id

@pytest.mark.ec2_instance("m5.xlarge")
def test_larger(ec2_instance): pass

@pytest.mark.ec2_instance("m5.large")
def test_marked_again(ec2_instance):
    assert ec2_instance.launched.earlier_tests == 2
""",
        "--cloudbench-reuse",
    ).assert_outcomes(passed=4)
    ran = [line[1] for line in events("ran")]
    assert ran == ["test_marked", "test_factory", "test_larger", "test_marked_again"]
    assert len(events("launch")) == 3
    assert all_released(events)


def test_workers_share_among_their_own_tests(run, events):
    pytest.importorskip("xdist")
    result = run(FOUR, "-n2")
    assert re.search("4 passed", result.stdout.str()), result.stdout.str()
    assert len(events("launch")) == 2
