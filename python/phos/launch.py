"""What the cluster says of launches."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

Json = dict[str, Any]


class LaunchStatus(IntEnum):
    """How far a launch is. Names and numbers are those of Clusterfudge."""

    LAUNCH_STATUS_UNKNOWN = 0
    LAUNCH_STATUS_PENDING = 1
    LAUNCH_STATUS_RUNNING = 2
    LAUNCH_STATUS_COMPLETED = 3
    LAUNCH_STATUS_FAILED = 4
    LAUNCH_STATUS_UNMANAGED = 5
    LAUNCH_STATUS_STOPPED = 6
    LAUNCH_STATUS_QUEUED = 7


_ENDS = {
    "completed": LaunchStatus.LAUNCH_STATUS_COMPLETED,
    "failed": LaunchStatus.LAUNCH_STATUS_FAILED,
    "stopped": LaunchStatus.LAUNCH_STATUS_STOPPED,
}


def _status(reply: Json) -> LaunchStatus:
    """Returns the status of a launch. One that is suspended waits like one that is queued."""
    phase = reply.get("phase")
    if phase == "ended":
        return _ENDS.get(reply.get("result", ""), LaunchStatus.LAUNCH_STATUS_UNKNOWN)
    if phase in ("waiting", "queued", "suspended"):
        return LaunchStatus.LAUNCH_STATUS_QUEUED
    if phase == "running" and all(r.get("phase") in ("pending", "starting") for r in reply.get("replicas", [])):
        return LaunchStatus.LAUNCH_STATUS_PENDING
    return LaunchStatus.LAUNCH_STATUS_RUNNING


@dataclass(frozen=True)
class Exit:
    """How a process has ended.

    Attributes:
        code: negative if it is not known how the process ended.
        error: why it did not start, or why it is not known how it ended.
    """

    process: int
    code: int
    signal: int
    out_of_memory: bool
    error: str
    stopped: bool


@dataclass(frozen=True)
class Replica:
    """Processes of a launch that run on one node.

    Attributes:
        phase: ``"pending"``, ``"starting"``, ``"running"``, ``"stopping"``, ``"done"``, ``"failed"`` or
            ``"stopped"``.
        attempt: how often it was started.
    """

    job: str
    index: int
    phase: str
    node: str
    gpus: tuple[int, ...]
    attempt: int
    retries: int
    exits: tuple[Exit, ...]


@dataclass(frozen=True)
class Launch:
    """A launch, as it was when the cluster was asked.

    Attributes:
        id: what requests name.
        launch_id: a number for people, which requests take, too.
        title: the name that it was given; ``name`` is the same.
        phase: ``"waiting"``, ``"queued"``, ``"running"``, ``"stopping"``, ``"suspended"`` or ``"ended"``.
        reason: why it waits, stops or has ended.
        exit_status: what the exit status of one program would be.
        generation: how often its members have changed.
    """

    id: str
    launch_id: int
    title: str
    description: str
    launched_by: str
    status: LaunchStatus
    phase: str
    reason: str
    exit_status: int
    generation: int
    priority: int
    replicas: tuple[Replica, ...]
    submitted_unix_ms: int
    started_unix_ms: int
    ended_unix_ms: int
    checkpoint_unix_ms: int

    @property
    def name(self) -> str:
        """The name that it was given."""
        return self.title

    @property
    def hostnames(self) -> list[str]:
        """The nodes of its replicas."""
        return sorted({replica.node for replica in self.replicas if replica.node})

    @property
    def ended(self) -> bool:
        """Whether no process of it runs or will run."""
        return self.phase == "ended"


@dataclass(frozen=True)
class LogLine:
    """A line that a process has printed; ``text`` has no end of line."""

    unix_ns: int
    job: str
    replica: int
    process: int
    stderr: bool
    text: str


@dataclass(frozen=True)
class Event:
    """Something that has happened to a launch or a node."""

    unix_ms: int
    launch: str
    node: str
    kind: str
    text: str


@dataclass(frozen=True)
class Why:
    """Says why a launch waits: sentences, the most important first, and when it may start (0: unknown)."""

    launch: Launch
    reasons: tuple[str, ...]
    estimate_unix_ms: int


@dataclass(frozen=True)
class ProcessUsage:
    """What a process with its children uses. What is not known is None.

    ``cpu_ns`` is the time that it has computed, at the time ``at_ns`` of its node's clock.
    """

    launch: str
    job: str
    replica: int
    process: int
    node: str
    phase: str
    restarts: int
    gpus: tuple[int, ...]
    cpu_ns: int | None
    at_ns: int | None
    memory_bytes: int | None
    gpu_bytes: int | None
    gpu_busy_percent: int | None


@dataclass(frozen=True)
class GPU:
    """A GPU of a node. ``launch`` has it; ``foreign`` processes use it; ``bad`` says why it cannot be used."""

    index: int
    name: str
    uuid: str
    memory_bytes: int
    launch: str
    foreign: int
    bad: str


@dataclass(frozen=True)
class Node:
    """A node. Its state is ``"ready"``, ``"unreachable"``, ``"gone"`` or ``"joining"``."""

    name: str
    state: str
    cordoned: bool
    draining: bool
    cluster: str
    shard: str
    labels: dict[str, str]
    cpus: int
    memory_bytes: int
    gpus: tuple[GPU, ...]
    launches: tuple[str, ...]


@dataclass(frozen=True)
class ExecResult:
    """What a command beside a process has printed, and how it has ended.

    ``exit_status`` is as a shell has it: 128 and the number of the signal that ended the command, 127
    if there is no such program, 126 if it cannot be executed. ``error`` says why it was not started,
    or was killed; it is empty otherwise.
    """

    exit_status: int
    output: bytes
    error_output: bytes
    error: str


@dataclass(frozen=True)
class Limits:
    """The most that launches of an account may use. None: there is no limit."""

    gpus: int | None
    launches: int | None
    code_bytes: int | None


@dataclass(frozen=True)
class Quota:
    """What launches of an account may use, and what they use now.

    ``account`` is empty for the default, which is for accounts without limits of their own.
    ``limits`` are those that count; ``gpus``, ``launches`` that wait, and ``code_bytes`` are in use.
    """

    account: str
    limits: Limits
    gpus: int
    launches: int
    code_bytes: int


@dataclass(frozen=True)
class LaunchDetails:
    """A launch with the description that it was created with, and what its processes have printed."""

    launch: Launch
    spec: Json
    script: str
    logs: tuple[LogLine, ...]


def read_launch(j: Json) -> Launch:
    """Reads a launch of a reply."""
    return Launch(
        id=j["id"], launch_id=j["number"], title=j["name"], description=j["description"], launched_by=j["owner"],
        status=_status(j), phase=j["phase"], reason=j["reason"], exit_status=j["status"], generation=j["generation"],
        priority=j["priority"], replicas=tuple(_replica(r) for r in j["replicas"]),
        submitted_unix_ms=int(j["submitted_unix_ms"]), started_unix_ms=int(j["started_unix_ms"]),
        ended_unix_ms=int(j["ended_unix_ms"]), checkpoint_unix_ms=int(j["checkpoint_unix_ms"]),
    )


def _replica(j: Json) -> Replica:
    return Replica(
        job=j["job"], index=j["index"], phase=j["phase"], node=j["node"], gpus=tuple(j["gpus"]), attempt=j["attempt"],
        retries=j["retries"], exits=tuple(
            Exit(e["process"], e["code"], e["signal"], e["out_of_memory"], e["error"], e["stopped"]) for e in j["exits"]
        ),
    )


def _line(j: Json) -> LogLine:
    """Reads a line, or what phos says where lines are missing."""
    text = base64.b64decode(j["text"]).decode("utf-8", "replace")
    missing = int(j["dropped"])
    if missing:
        text = f"phos: {missing} line{'s' if missing > 1 else ''} missing here: {text}"
    return LogLine(int(j["unix_ns"]), j["job"], j["replica"], j["process"], j["stderr"] or missing > 0, text)


def read_lines(j: Json) -> list[LogLine]:
    """Reads the lines of a reply. Bytes that are no UTF-8 become U+FFFD."""
    lines = [_line(line) for line in j["lines"]]
    if j["notice"]:
        lines.append(LogLine(0, "", 0, 0, True, f"phos: {j['notice']}"))
    return lines


def read_usage(j: Json) -> ProcessUsage:
    """Reads what a process uses."""
    def known(name: str) -> int | None:
        return None if j.get(name) is None else int(j[name])

    return ProcessUsage(
        launch=j["launch"], job=j["job"], replica=j["replica"], process=j["process"], node=j["node"], phase=j["phase"],
        restarts=j["restarts"], gpus=tuple(j["gpus"]), cpu_ns=known("cpu_ns"), at_ns=known("at_ns"),
        memory_bytes=known("memory_bytes"), gpu_bytes=known("gpu_bytes"), gpu_busy_percent=known("gpu_busy_percent"),
    )


def read_event(j: Json) -> Event:
    """Reads an event."""
    return Event(int(j["unix_ms"]), j["launch"], j["node"], j["kind"], j["text"])


def read_node(j: Json) -> Node:
    """Reads a node."""
    has = j["inventory"] or {"cpus": 0, "memory_bytes": 0, "gpus": []}
    return Node(
        name=j["name"], state=j["state"], cordoned=j["cordoned"], draining=j["draining"], cluster=j["cluster"],
        shard=j["shard"], labels=dict(j["labels"]), cpus=has["cpus"], memory_bytes=int(has["memory_bytes"]),
        gpus=tuple(
            GPU(g["index"], g["name"], g["uuid"], int(g["memory_bytes"]), g["launch"], g["foreign"], g["bad"])
            for g in has["gpus"]
        ),
        launches=tuple(j["launches"]),
    )


def read_quota(j: Json) -> Quota:
    """Reads a quota."""
    limits = j["limits"] or {}

    def limit(name: str) -> int | None:
        value = limits.get(name)
        return None if value is None or int(value) < 0 else int(value)

    return Quota(
        account=j["account"], limits=Limits(limit("gpus"), limit("launches"), limit("code_bytes")), gpus=int(j["gpus"]),
        launches=int(j["launches"]), code_bytes=int(j["code_bytes"]),
    )
