"""What describes a launch.

Names and meanings of the positional fields are those of Clusterfudge's client, so that a script for
it needs another import and no more. What phos adds is keyword-only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

#: The fields of Resources that count GPUs of one model.
GPU_MODELS = (
    "a100_40gb", "a100_80gb", "h100", "rtx3080", "rtx3090", "rtx6000", "t4", "l4", "v100", "p100", "p4", "rtx4090",
    "rtx4080", "rtx3070", "rtx3060", "rtx4070", "rtx4060", "rtx3050", "gtx1050", "h200",
)


@dataclass
class Resources:
    """What a process gets. What is 0 is not limited, but for GPUs: 0 is none.

    GPUs are asked for by a field of their model, as ``h100=8``, or by ``gpus`` with what will do:
    any, some of ``gpu_models``, or those with at least ``gpu_memory_gb`` of memory each.
    """

    cpus: float = 0
    memory_mb: int = 0
    a100_40gb: int = 0
    a100_80gb: int = 0
    h100: int = 0
    rtx3080: int = 0
    rtx3090: int = 0
    rtx6000: int = 0
    t4: int = 0
    l4: int = 0
    v100: int = 0
    p100: int = 0
    p4: int = 0
    rtx4090: int = 0
    rtx4080: int = 0
    rtx3070: int = 0
    rtx3060: int = 0
    rtx4070: int = 0
    rtx4060: int = 0
    rtx3050: int = 0
    gtx1050: int = 0
    h200: int = 0
    _: KW_ONLY
    gpus: int = 0
    gpu_models: Sequence[str] = ()
    gpu_memory_gb: int = 0


@dataclass
class LocalDir:
    """The code of a launch is a directory of this machine: each process gets a copy of its own.

    Without ``path`` it is the nearest directory, from the working directory upwards, that holds
    ``.git``, ``pyproject.toml`` or ``requirements.txt``. What ``.gitignore`` and ``.phosignore``
    leave out is not sent.

    Attributes:
        path: the directory.
        limit_mb: the most that is sent, compressed.
    """

    _: KW_ONLY
    path: str | None = None
    limit_mb: int = 50


@dataclass
class GitRepo:
    """The code of a launch is a branch or commit of a git repository, which each node clones."""

    repo: str
    branch: str
    commit: str | None = None


@dataclass
class OnReplicaFailureOtherReplicasContinue:
    """When a replica has failed for good, the others go on."""


@dataclass
class OnReplicaFailureOtherReplicasAreStopped:
    """When a replica has failed for good, the others are stopped. This is the default."""


@dataclass
class Checkpoint:
    """Says when the processes of a launch are saved.

    Attributes:
        every: a time, as ``"10m"``.
        on: occasions: ``"preempt"``, ``"drain"``, ``"exit-signal"``.
        keep: how many generations of an image stay; 0: three.
        dir: a directory that the nodes share; empty: each node keeps its own.
    """

    every: str = ""
    on: Sequence[str] = ()
    keep: int = 0
    dir: str = ""


@dataclass
class Process:
    """One process of a replica. The command is executed without a shell.

    Attributes:
        env: variables of its environment.
        cwd: where it starts, below the directory with the code.
        ports: names of TCP ports that its node reserves; ``PHOS_PORT_NAME`` holds the number.
    """

    command: Sequence[str]
    resource_requirements: Resources | None = None
    _: KW_ONLY
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    ports: Sequence[str] = ()


@dataclass
class Job:
    """A number of replicas of the same processes. Those of a replica run on one node together.

    Attributes:
        replicas: how many; a text as ``"4..8"`` starts with the least, and more join as there is
            room.
        retries: how often a failed replica is started again.
        on_exit_codes: only after these exit codes; none: after any but 0.
        env: variables for all its processes.
    """

    short_name: str
    replicas: int | str
    processes: Sequence[Process]
    replica_failure_behaviour: (
        OnReplicaFailureOtherReplicasContinue | OnReplicaFailureOtherReplicasAreStopped | None
    ) = None
    _: KW_ONLY
    retries: int = 0
    on_exit_codes: Sequence[int] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass
class QueueingBehaviour:
    """Says what happens if the cluster has no room. A launch without one is not queued."""

    enqueue_if_cluster_busy: bool | None = True


@dataclass
class CreateLaunchRequest:
    """Describes a launch. All its jobs start together or not at all.

    Attributes:
        jobs: at least one.
        name: what people call it.
        deployment: where its code comes from.
        cluster: only nodes of this cluster; ``shard`` and ``hostnames`` likewise.
        queueing_behaviour: None: a SchedulingError if there is no room now.
        priority: higher is more urgent; 0 is normal.
        time_limit: ends the launch after it has run for so long, as ``"12h"``.
        after: ids of launches that must have completed before.
        restartable: it may be stopped, and started from its beginning, where it cannot be saved.
        whole_nodes: no other launch runs on its nodes.
        network: ``"own"``: replicas keep addresses of their own, and connections between them are
            saved; None: they have the network of their nodes.
        env: variables for all processes.
        checkpoint: when it is saved.
    """

    jobs: Sequence[Job]
    name: str | None = None
    description: str | None = None
    deployment: LocalDir | GitRepo | None = None
    cluster: str | None = None
    shard: str | None = None
    hostnames: Sequence[str] | None = None
    queueing_behaviour: QueueingBehaviour | None = None
    _: KW_ONLY
    priority: int = 0
    time_limit: str = ""
    after: Sequence[str] = ()
    restartable: bool = False
    whole_nodes: bool = False
    network: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
