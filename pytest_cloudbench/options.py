"""The plugin's options: each a command-line option and an ini setting of the same name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_cloudbench.limits.region_settings import EBS, LATENCY_MODES, factor_words, parse_time_factor

if TYPE_CHECKING:
    from pytest_cloudbench.limits.limits_file import ProjectLimits

HOSTS = "hosts"
"""Used as the name of the cloud if a session has its own hosts and names no cloud."""
CLOUDS = ("embedded", "aws")
"""The clouds of this plugin; others are added by the hook `pytest_cloudbench_provider`."""
_NAMES = {"aws": "AWS"}
COSTS = "cloudbench-costs"
"""Name under which the costs of a session are registered with pytest; absent without prices."""
BUDGET: pytest.StashKey[Any] = pytest.StashKey()
"""The most that the session may cost (`fixtures.spending.Budget`); absent without a limit."""
UPCOMING: pytest.StashKey[Any] = pytest.StashKey()
"""Launches for upcoming tests (`fixtures.upcoming.Upcoming`); absent without --cloudbench-ahead."""
KEEP_FAILED: pytest.StashKey[Any] = pytest.StashKey()
"""Keeps the hardware of failed tests (`fixtures.keep_failed.KeepFailed`); absent without --cloudbench-keep-failed."""
OF_A_TEST: list[pytest.StashKey[Any]] = []
"""Keys that are deleted from a test's stash once the test is over. The item itself lives as long as the session."""
CLEANED_OUTPUT = "cloudbench-cleaned-output"
"""The plugin that removes secrets from what a session writes; registered once a test uses our fixtures."""
PROVIDER: pytest.StashKey[Callable[[], Any]] = pytest.StashKey()
"""Opens the provider that another plugin offers; absent for the clouds of this plugin and in a replay."""


class Option(NamedTuple):
    """One option. If its default is empty, the behaviour without it depends on other options.

    ``check`` raises ValueError for an invalid value. A ``switch`` takes no value on the command line: it is "on".
    ``value`` names the value in the help if the option's name does not. A ``repeated`` option may be given several
    times, which is the same as its values separated by commas.
    """

    name: str
    help: str
    default: str = ""
    choices: tuple[str, ...] | None = None
    check: Callable[[str], object] | None = None
    switch: bool = False
    value: str = ""
    repeated: bool = False

    @property
    def shown_value(self) -> str:
        """Placeholder for the value in the help."""
        return "|".join(self.choices) if self.choices else (self.value or self.name.upper())

    @property
    def flag(self) -> str:
        """Name on the command line."""
        return f"--cloudbench-{self.name}"

    @property
    def ini(self) -> str:
        """Name in the ini file."""
        return f"cloudbench_{self.name.replace('-', '_')}"


def parse_repeats(text: str) -> int | None:
    """Return a number of repeats, None for "". Raises ValueError for anything but a whole number from 1 to 100."""
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 100:
        raise ValueError(f"{text!r} is not a number of repeats: use a whole number from 1 to 100, such as 6")
    return int(text)


def parse_ahead(text: str) -> int:
    """Return how many launches are prepared ahead. Raises ValueError for anything but a whole number from 0 to 20."""
    if not text.isascii() or not text.isdigit() or int(text) > 20:
        raise ValueError(f"{text!r} is not a number of launches: use a whole number from 0 to 20, such as 2")
    return int(text)


def parse_max_cost(text: str) -> float | None:
    """Return an amount of money, None for "". Raises ValueError for anything but a number above zero."""
    if not text:
        return None
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not 0 < amount < float("inf"):
        raise ValueError(
            f"{text!r} is not an amount of US dollars: use a number above zero, such as 5 or 0.50"
        )
    return amount


def parse_regression(text: str) -> float | None:
    """Return the allowed regression as a share of 1, None for "". Raises ValueError if it is not like "5%"."""
    if not text:
        return None
    from pytest_cloudbench.verdicts.not_worse_than import checked_by

    return checked_by(text)


def parse_ssh_from(text: str) -> str | None:
    """Return the network that may connect by SSH, None for "". Raises ValueError for an invalid network.

    The whole internet is written "anywhere". 0.0.0.0/0 is refused: it is too easily copied from an example.
    """
    if not text:
        return None
    if text == "anywhere":
        return "0.0.0.0/0"
    from ipaddress import ip_network

    try:
        everything = ip_network(text).prefixlen == 0
    except ValueError as error:
        raise ValueError(f"invalid network {text!r} ({error}): use one such as 203.0.113.7/32") from None
    if everything:
        raise ValueError(
            f"{text} opens port 22 of the instances to the whole internet: name the network that this machine is in, "
            'or write "anywhere" if that is meant'
        )
    return text


def _account_value(parser: str) -> Callable[[str], object]:
    """Return a check by the named function of `limits.account_values`, which is imported at the first check."""

    def check(text: str) -> object:
        from pytest_cloudbench.limits import account_values

        return getattr(account_values, parser)(text)

    return check


def parse_lease(text: str) -> float:
    """Return the seconds of a lease such as "1h". Raises ValueError unless it is from 5 s to 7 days."""
    from pytest_cloudbench.limits.durations import parse_duration

    seconds = parse_duration(text)
    if not 5 <= seconds <= 7 * 86_400:
        raise ValueError(f"a lease of {text!r} is out of range: use 5s to 168h, such as 1h")
    return seconds


OPTIONS = (
    Option(
        "cloud",
        "where hosts and volumes come from: embedded, aws (which costs money), or a name that another plugin offers "
        "(default: embedded)",
        default="embedded",
    ),
    Option(
        "pace",
        "quick caps run times, ramps and file sizes to seconds, which every result states; full runs what the test "
        "says (default: quick on the embedded region, full elsewhere)",
        choices=("quick", "full"),
    ),
    Option(
        "inconclusive",
        "whether an inconclusive verdict fails or skips its test (default: fail; on the embedded region skip if this "
        "machine was the limit)",
        choices=("fail", "skip"),
    ),
    Option(
        "repeats",
        "run each test that measures N times, with one verdict over all of its repeats (default: as its marker "
        "cloudbench_repeats says, else once)",
        check=parse_repeats,
        value="N",
    ),
    Option(
        "reuse",
        "let all tests that ask for equal instances share them, with fresh volumes for each test, except repeats and "
        "tests whose marker has a scope= (default: each test launches its own)",
        switch=True,
    ),
    Option(
        "progress",
        "show the progress of a running workload; without a terminal, and with pytest-xdist, as a plain line every "
        "30 s (default: auto, not with -q; on: plain lines from the start)",
        default="auto",
        choices=("auto", "on", "off"),
    ),
    Option(
        "evidence",
        "folder for the evidence of this run, or off; {run} is the run's id, which the tag cloudbench:run of its "
        "resources has too (with pytest-xdist followed by the worker); an existing folder is refused "
        "(default: cloudbench-evidence/{run})",
        default="cloudbench-evidence/{run}",
        value="DIR",
    ),
    Option(
        "sign",
        "sign the evidence at the end of the run with this SSH key file, by ssh-keygen -Y sign",
        value="KEY",
    ),
    Option(
        "redact",
        "replace the account id, ARNs and public addresses in the evidence by pseudonyms",
        switch=True,
    ),
    Option(
        "exclusive",
        "with pytest-xdist, let one worker at a time put a load on its hosts (default: on the embedded region, whose "
        "hosts share this machine)",
        choices=("", "on", "off"),
    ),
    Option(
        "replay",
        "replay an evidence folder: the same tests judge its measurements again, without any cloud",
        value="DIR",
    ),
    Option(
        "summary",
        "write the verdicts of this run to a Markdown file, for example for a comment on a pull request",
        value="FILE",
    ),
    Option(
        "prices",
        "list: read prices from the AWS Price List API, and on the embedded region from one of its own; off; or a JSON "
        "file with hourly prices of instances and monthly prices of volumes (default: list on AWS and for a plan)",
        value="list|off|FILE",
    ),
    Option(
        "plan",
        "print what the tests would create, for how long and at what price, and what would be refused; create nothing",
        switch=True,
    ),
    Option(
        "max-cost",
        "most US dollars (or the currency of --cloudbench-prices) that the run may cost: refuse a plan above it, and "
        "skip the tests that would pass it (default: no limit)",
        check=parse_max_cost,
        value="AMOUNT",
    ),
    Option(
        "baseline",
        "compare with earlier runs: evidence folders, folders of them, or s3://bucket/prefix, separated by commas",
        value="DIR,...",
    ),
    Option(
        "regression",
        "with --cloudbench-baseline: fail every test that measures more than this share less than the earlier runs, "
        "such as 5%%",
        check=parse_regression,
        value="SHARE",
    ),
    Option(
        "ahead",
        "launch the instances of the next N tests while a test runs; on AWS they cost money while they wait (default: "
        "0)",
        default="0",
        check=parse_ahead,
        value="N",
    ),
    Option(
        "keep-failed",
        "keep the instances and volumes of a failed test, for a day at most, and show how to log in; on AWS they cost "
        "money until `cloudbench reap --kept` removes them",
        switch=True,
    ),
    Option(
        "leftovers",
        "whether a resource that could not be removed fails the session or is only reported (default: fail)",
        default="fail",
        choices=("fail", "report"),
    ),
    Option(
        "instance",
        "run tests whose marker ec2_instance names no instance on this existing one, of which nothing is changed",
        check=_account_value("parse_instance_id"),
        value="ID",
    ),
    Option(
        "hosts",
        "Linux machines that are there already, for the fixtures host and host_pair: ssh://user@host[:port], several "
        "separated by commas, or an Ansible inventory file; without a cloud the pace is full",
        value="URL|FILE,...",
        repeated=True,
    ),
    Option(
        "allow-device",
        "block devices that tests with destructive=True may overwrite: /dev/disk/by-id/..., or with several hosts "
        "HOST:/dev/...",
        value="DEVICE,...",
        repeated=True,
    ),
    Option(
        "install-tools",
        "install missing tools, such as fio, on machines that the run did not create too",
        switch=True,
    ),
    Option(
        "terraform",
        "where terraform= of markers finds ids: a directory with a Terraform or OpenTofu configuration, or a file with "
        "`terraform output -json` or a state",
        value="DIR|FILE",
    ),
    Option("region", "AWS region (default: that of your AWS configuration)"),
    Option("zone", "availability zone for instances and their volumes (default: one that offers the type)"),
    Option("subnet", "subnet to launch into (default: the default VPC's)"),
    Option("image", "AMI id or SSM parameter of the image (default: Amazon Linux 2023); Linux only"),
    Option("user", "login user of the image (default: the image's own, if known)"),
    Option(
        "ssh-from",
        "network that may reach the instances by SSH, as CIDR, or anywhere (default: this machine's address)",
        check=parse_ssh_from,
        value="CIDR",
    ),
    Option(
        "address",
        "address by which to reach instances (default: auto, the public one if there is one)",
        default="auto",
        choices=("auto", "public", "private"),
    ),
    Option(
        "access",
        "way to the instances: ssh, or ssm for Systems Manager Run Command, which needs no open port and no key, but "
        "--cloudbench-instance-profile (default: ssh)",
        default="ssh",
        choices=("ssh", "ssm"),
    ),
    Option(
        "ssm-bucket",
        "with --cloudbench-access=ssm: S3 bucket for long outputs, which the instance profile may write to (default: "
        "none; they are read in pieces)",
        value="NAME",
    ),
    Option(
        "jump",
        "reach the instances through this bastion, as ssh -J does; several in a chain are separated by commas; "
        "it is logged in to with your own keys and ~/.ssh/config (needs --cloudbench-ssh-from)",
        value="USER@HOST[:PORT]",
    ),
    Option(
        "proxy-command",
        "reach the instances by a command whose standard input and output lead to port 22, without a shell; "
        "%%h is the address, %%p the port, %%r the user and %%i the instance's id (needs --cloudbench-ssh-from)",
        value="COMMAND",
    ),
    Option(
        "host-key",
        "host key of existing instances and hosts, as 'ssh-ed25519 AAAA...' or 'SHA256:...', several separated by "
        "commas (default: your known_hosts)",
        value="KEY",
    ),
    Option(
        "lease",
        "how long an instance outlives a run that no longer renews its lease, as after kill -9; then it shuts itself "
        "down and is terminated with its volumes (default: 1h)",
        default="1h",
        check=parse_lease,
        value="TIME",
    ),
    Option(
        "tags",
        "tags for everything that the run creates, as key=value,key=value",
        check=_account_value("parse_tags"),
        value="KEY=VALUE,...",
    ),
    Option(
        "security-group",
        "existing security group for the instances, such as sg-0123456789abcdef0 (default: one for each run)",
        check=_account_value("parse_security_group"),
        value="ID",
    ),
    Option(
        "instance-profile",
        "IAM instance profile for the instances, by name or ARN (default: none)",
        check=_account_value("parse_instance_profile"),
        value="NAME",
    ),
    Option(
        "kms-key",
        "KMS key that encrypts the volumes: id, alias/name or ARN (default: the account's default key for EBS)",
        check=_account_value("parse_kms_key"),
        value="KEY",
    ),
    Option("key-pair", "existing EC2 key pair to log in with (default: one for each run)", value="NAME"),
    Option(
        "private-key", "file with the private half of --cloudbench-key-pair, without passphrase", value="FILE"
    ),
    Option(
        "metadata",
        "off: switch the metadata service of each instance off once it has booted (default: on, IMDSv2 only)",
        default="on",
        choices=("on", "off"),
    ),
    Option("twin-backing", "folder for the data of embedded volumes instead of memory (slower)", value="DIR"),
    Option(
        "twin-time",
        "drain and refill burst credits this many times faster than the clock on the embedded region, 1 to 3600: with "
        "60, half an hour of a test runs in 30 s, which every result states (default: 1)",
        default="1",
        check=parse_time_factor,
        value="FACTOR",
    ),
    Option(
        "twin-latency",
        "ebs: the embedded region answers each I/O after a service time by volume type; none: as soon as the limits "
        "allow; every result of storage states which (default: ebs)",
        default=EBS,
        choices=LATENCY_MODES,
    ),
    Option(
        "twin-weather",
        "let the embedded region's API be as slow and unreliable as EC2's: aws, single effects such as "
        "lost-answers=2%%, or a TOML file with them (default: as fast as it can)",
        value="WEATHER",
    ),
)
_BY_NAME = {option.name: option for option in OPTIONS}

LIMITS_FILE = "cloudbench-limits.toml"
PROJECT_LIMITS: pytest.StashKey[tuple[Path, ProjectLimits]] = pytest.StashKey()
"""The project's limits file and what it states; absent if there is no such file."""


def setting(config: pytest.Config, name: str) -> str:
    """Return an option's value from the command line, else the ini file, else its default.

    Raises pytest.UsageError if it is not one of the choices or the option's check refuses it.
    """
    option = _BY_NAME[name]
    given = config.getoption(option.flag)
    if isinstance(given, list):
        given = ",".join(given)
    value = str(config.getini(option.ini) if given is None else given)
    choices = ("", "on") if option.switch else option.choices
    if given is None and value and choices is not None and value not in choices:
        raise pytest.UsageError(f"{option.ini}={value!r} in the ini file: use one of {', '.join(choices)}")
    if option.check is not None and value != option.default:
        try:
            option.check(value)
        except ValueError as error:
            raise pytest.UsageError(f"{option_as_given(config, name)}: {error}") from None
    return value


def check_settings_at_start(config: pytest.Config) -> None:
    """Raise pytest.UsageError for an invalid value of any option, and for an ini setting that does not exist."""
    for option in OPTIONS:
        setting(config, option.name)
    known = {option.ini for option in OPTIONS}
    given = getattr(config, "_inicfg", None)  # public, and called inicfg, before pytest 9
    for name in config.inicfg if given is None else given:
        if name.startswith("cloudbench_") and name not in known:
            from pytest_cloudbench.limits.argument_names import did_you_mean

            meant = did_you_mean(name, known, mark="")
            raise pytest.UsageError(
                f"{name} in the ini file is not a setting of pytest-cloudbench{': ' if meant else ''}{meant}"
            )


def find_provider(config: pytest.Config) -> None:
    """Find the provider that another plugin offers and stash it. Raises pytest.UsageError for an unknown cloud."""
    name = setting(config, "cloud")
    if name in CLOUDS or setting(config, "replay"):
        return
    opener = config.hook.pytest_cloudbench_provider(config=config, name=name)
    if opener is None:
        offered = (
            each for names in config.hook.pytest_cloudbench_provider_names(config=config) for each in names
        )
        raise pytest.UsageError(
            f"{option_as_given(config, 'cloud')}: unknown cloud {name!r}: use one of {', '.join([*CLOUDS, *offered])}"
        )
    config.stash[PROVIDER] = opener


def load_project_limits(config: pytest.Config) -> None:
    """Apply the project's limits file, if there is one, until the session ends. Raises pytest.UsageError if invalid."""
    path = settings_directory(config) / LIMITS_FILE
    if not path.is_file():
        return
    from pytest_cloudbench.limits.limits_file import BadLimits, parse_limits
    from pytest_cloudbench.limits.volume_types import add_volume_types

    try:
        limits = parse_limits(path.read_text(encoding="utf-8"), str(path))
    except (BadLimits, OSError, UnicodeDecodeError) as error:
        raise pytest.UsageError(str(error)) from None
    config.add_cleanup(add_volume_types(limits.volume_types))
    config.stash[PROJECT_LIMITS] = path, limits


def settings_directory(config: pytest.Config) -> Path:
    """Return the directory of pytest's ini file, or its root directory."""
    return config.inipath.parent if config.inipath is not None else config.rootpath


def pace(config: pytest.Config) -> str:
    """Return the pace of the run, "quick" or "full": by default quick on the embedded region, else full."""
    return setting(config, "pace") or ("quick" if cloud_in_use(config) == "embedded" else "full")


def cloud_in_use(config: pytest.Config) -> str:
    """Return the name of the chosen cloud; HOSTS if only hosts were named, although tests may use a region too."""
    if setting(config, "hosts") and not option_given(config, "cloud"):
        cloud = _BY_NAME["cloud"]
        return HOSTS if config.getoption(cloud.flag) is None else cloud.default
    return setting(config, "cloud")


def where_and_pace(config: pytest.Config) -> str:
    """Return where the session measures and at which pace, as readable text: "embedded region, quick pace"."""
    cloud = cloud_in_use(config)
    named = {"embedded": "embedded region", HOSTS: "own hosts", **_NAMES}.get(cloud, cloud)
    return f"{named}, {pace(config)} pace"


def options_in_force(config: pytest.Config) -> dict[str, str]:
    """Return every option's value by its name, with the effective pace and cloud."""
    values = {option.name: setting(config, option.name) for option in OPTIONS}
    return values | {"pace": pace(config), "cloud": cloud_in_use(config)}


def option_given(config: pytest.Config, *names: str) -> bool:
    """Return True if any of these options differs from its default."""
    return any(setting(config, name) != _BY_NAME[name].default for name in names)


def option_source(config: pytest.Config, name: str) -> str:
    """Return the source of an option's value: "command line" or, also for a default, "ini file"."""
    return "ini file" if config.getoption(_BY_NAME[name].flag) is None else "command line"


def option_as_given(config: pytest.Config, name: str) -> str:
    """Return an option as the user wrote it: "--cloudbench-lease", "cloudbench_lease in the ini file"."""
    option = _BY_NAME[name]
    return option.flag if option_source(config, name) == "command line" else f"{option.ini} in the ini file"


def path_option(config: pytest.Config, name: str, given: str = "") -> Path:
    """Return an option's path, or ``given`` in its place.

    A path on the command line is relative to the invocation directory, one in the ini file to the root folder.
    """
    base = config.invocation_params.dir if option_source(config, name) == "command line" else config.rootpath
    return base / Path(given or setting(config, name)).expanduser()


def time_compression(config: pytest.Config) -> float:
    """Return the time factor; 1.0 follows the clock.

    Raises pytest.UsageError for an invalid factor, and for one above 1 except on the embedded region.
    """
    factor = parse_time_factor(setting(config, "twin-time"))
    if factor != 1 and (cloud := setting(config, "cloud")) != "embedded":
        raise pytest.UsageError(
            f"time cannot be compressed {factor_words(factor)} times on {_NAMES.get(cloud, cloud)}, where credits "
            "follow the clock: leave out --cloudbench-twin-time (cloudbench_twin_time in the ini file), or set it to 1"
        )
    return factor


def weather(config: pytest.Config) -> str:
    """Return the weather of the embedded region's API in its shortest text form; "" if it is clear.

    Raises pytest.UsageError for an invalid one, and for any on another cloud.
    """
    name = setting(config, "twin-weather")
    if not name:
        return ""
    from pytest_cloudbench.limits.weather import read_weather

    try:
        found = str(
            read_weather(name, lambda _: path_option(config, "twin-weather").read_text(encoding="utf-8"))
        )
    except ValueError as error:
        raise pytest.UsageError(f"{_BY_NAME['twin-weather'].flag}: {error}") from None
    if found and (cloud := setting(config, "cloud")) != "embedded":
        raise pytest.UsageError(
            f"there is no weather on {_NAMES.get(cloud, cloud)} but its own: leave out --cloudbench-twin-weather "
            "(cloudbench_twin_weather in the ini file)"
        )
    return found


def modelled_latency(config: pytest.Config) -> str:
    """Return the embedded region's latency mode for storage, one of LATENCY_MODES.

    Raises pytest.UsageError for any other value, and for "none" except on the embedded region.
    """
    mode = setting(config, "twin-latency")
    if mode != EBS and (cloud := setting(config, "cloud")) != "embedded":
        raise pytest.UsageError(
            f"the latency mode cannot be {mode!r} on {_NAMES.get(cloud, cloud)}, whose volumes have their own latency: "
            "leave out --cloudbench-twin-latency (cloudbench_twin_latency in the ini file)"
        )
    return mode
