"""Launches programs on a phos cluster.

The classes of a launch have the names and fields of Clusterfudge's client, and more::

    import phos

    launch = phos.Client().create_launch(
        phos.CreateLaunchRequest(
            name="digits",
            jobs=[phos.Job("train", 2, [phos.Process(["python3", "train.py"], phos.Resources(gpus=1))])],
            deployment=phos.LocalDir(),
            queueing_behaviour=phos.QueueingBehaviour(),
        )
    )
"""

from . import inside
from .client import Client
from .errors import (
    AuthenticationError, InvalidLaunchError, NoClusterError, NotFoundError, PhosError, SchedulingError, UnavailableError,
)
from .launch import (
    GPU, Event, ExecResult, Exit, Launch, LaunchDetails, LaunchStatus, Limits, LogLine, Node, ProcessUsage, Quota,
    Replica, Why,
)
from .model import (
    Checkpoint, CreateLaunchRequest, GitRepo, Job, LocalDir, OnReplicaFailureOtherReplicasAreStopped,
    OnReplicaFailureOtherReplicasContinue, Process, QueueingBehaviour, Resources,
)

__version__ = "0.1.0"

__all__ = [
    "GPU", "AuthenticationError", "Checkpoint", "Client", "CreateLaunchRequest", "Event", "ExecResult", "Exit",
    "GitRepo", "InvalidLaunchError", "Job", "Launch", "LaunchDetails", "LaunchStatus", "Limits", "LocalDir",
    "LogLine", "NoClusterError", "Node", "NotFoundError", "OnReplicaFailureOtherReplicasAreStopped",
    "OnReplicaFailureOtherReplicasContinue", "PhosError", "Process", "ProcessUsage", "QueueingBehaviour", "Quota",
    "Replica", "Resources", "SchedulingError", "UnavailableError", "Why", "inside",
]
