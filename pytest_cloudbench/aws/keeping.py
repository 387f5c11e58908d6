"""Keeping the instances of a failed test: they stay with their volumes until they are reaped, a day at most."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from pytest_cloudbench.resources.facts import KeptInstance, LaunchedInstance

from .instances import Instances
from .journal import SUFFIX, JournalContent, read_journal, state_directory
from .kinds import PLACEMENT_GROUP, SECURITY_GROUP
from .lease import Leases, lease_end
from .ledger import Ledger
from .run import KEPT_TAG, LONGEST_VALUE, Run, reap_command

KEEP_S = 86_400.0
"""How long a kept instance may live: it costs money, and its user may forget it."""
_JOURNAL = f"journal{SUFFIX}"


class Keeping:
    """Keeps instances of a run, with what they need to stay: their volumes and groups."""

    def __init__(self, run: Run, instances: Instances, ledger: Ledger, leases: Leases) -> None:
        self._run = run
        self._instances = instances
        self._ledger = ledger
        self._leases = leases
        self.kept: list[KeptInstance] = []

    def keep(self, instances: Sequence[LaunchedInstance], test: str) -> tuple[KeptInstance, ...]:
        """Keep these instances; return how to log in to each, and when it ends by itself.

        Raises CloudError if they cannot be marked: then nothing is kept.
        """
        described = [self._instances.refresh(each) for each in instances]
        volumes = [volume.volume_id for each in described for volume in each.attachments]
        created = self._ledger.outstanding()
        groups = [each.id for each in created if each.kind is SECURITY_GROUP]
        used = {each.placement_group for each in described}
        names = [each.id for each in created if each.kind is PLACEMENT_GROUP and each.id in used]
        found = PLACEMENT_GROUP.described(self._run.clients, names).values() if names else ()
        of_names = [str(each["GroupId"]) for each in found]  # CreateTags takes their ids, not names
        ids = [*(each.id for each in described), *volumes, *groups]
        self._run.clients.repeat_call(
            f"mark what is kept of {test}",
            "create_tags",
            Resources=[*ids, *of_names],
            Tags=[{"Key": KEPT_TAG, "Value": test[:LONGEST_VALUE]}],
        )
        ids += names
        self._run.journal.note_kept(ids)
        folder = _folder_of(self._run.run_id)
        shutil.copy(self._run.journal.path, folder / _JOURNAL)  # the run removes the original at its end
        self._ledger.keep(ids)
        kept = tuple(self._extended(each) for each in described)
        self.kept += kept
        return kept

    def _extended(self, instance: LaunchedInstance) -> KeptInstance:
        """Give the instance a last lease, and write what is needed to log in."""
        lease_s = KEEP_S if self._leases.extend(instance, KEEP_S) else self._run.lease_s
        clients = self._run.clients
        return KeptInstance(
            instance.id,
            instance.type,
            datetime.fromisoformat(lease_end(lease_s)),
            shlex.join(self._login(instance)),
            reap_command(self._run.run_id, clients.region, kept=True),
        )

    def _login(self, instance: LaunchedInstance) -> list[str]:
        access = self._run.clients.access
        if access.way_in == "ssm":
            endpoint = ["--endpoint-url", access.endpoint_url] if access.endpoint_url else []
            command = ["aws", "ssm", "start-session", "--target", instance.id]
            return [*command, "--region", self._run.clients.region, *endpoint]
        folder = _folder_of(self._run.run_id)
        key = access.settings.private_key_file
        if not key:
            key = str(folder / "key")
            _write(folder / "key", instance.private_key)
        known_hosts = folder / f"known_hosts-{instance.id}"
        _write(known_hosts, f"{instance.address} {instance.host_public_key}\n")
        options = ["IdentitiesOnly=yes", "StrictHostKeyChecking=yes", f"UserKnownHostsFile={known_hosts}"]
        if access.proxy_command:
            filled = access.proxy_command.replace("%i", instance.id)
            options.append(f"ProxyCommand={filled}")
        command = ["ssh", "-i", key, *(word for each in options for word in ("-o", each))]
        jump = ["-J", access.jump] if access.jump else []
        return [*command, *jump, f"{instance.login_user}@{instance.address}"]


def kept_runs() -> Iterator[tuple[str, JournalContent]]:
    """Yield the runs of this machine that have kept something, each with its journal, limited to what it kept."""
    for path in sorted(state_directory().glob(f"kept/*/{_JOURNAL}")):
        content = read_journal(path)
        kept = set(content.kept)
        made = [each for each in content.intentions if kept.intersection(each.ids)]
        yield path.parent.name, replace(content, intentions=made)


def logins_of(run_id: str) -> Path:
    """Return the folder with the key, the known hosts and the journal of what a run keeps."""
    return state_directory() / "kept" / run_id


def _folder_of(run_id: str) -> Path:
    """Create the folder `logins_of` a run if it is missing, and return it."""
    folder = logins_of(run_id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def forget_logins(run_id: str) -> None:
    """Remove the folder `logins_of` a run that no longer keeps anything."""
    shutil.rmtree(logins_of(run_id), ignore_errors=True)


def _write(path: Path, text: str) -> None:
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600), encoding="utf-8") as file:
        file.write(text)
