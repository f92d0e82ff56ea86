"""Makes of a CreateLaunchRequest what the cluster reads, and says all that is wrong with it.

What is checked here is what a person gets wrong while writing: types, and what is missing. The
cluster checks all requests in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import model
from .errors import InvalidLaunchError

Table = dict[str, Any]


class _Checker:
    """Collects what is wrong, and converts values."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def wrong(self, field: str, value: object, want: str) -> None:
        shown = repr(value)
        self.problems.append(f"{field} is {shown[:60]}{'…' if len(shown) > 60 else ''}: want {want}")

    def text(self, field: str, value: object) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            self.wrong(field, value, "a text")
            return ""
        return value

    def count(self, field: str, value: object, least: int = 0) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.wrong(field, value, f"a whole number from {least}")
            return least
        return value

    def texts(self, field: str, value: object, what: str = "a list of texts") -> list[str]:
        if value is None:
            return []
        if isinstance(value, str) or not isinstance(value, Sequence):
            self.wrong(field, value, what)
            return []
        return [self.text(f"{field}[{i}]", each) for i, each in enumerate(value)]

    def environment(self, field: str, value: object) -> Table:
        if not isinstance(value, Mapping):
            self.wrong(field, value, "names with their values, as {'SEED': '1'}")
            return {}
        for name, each in value.items():
            if not isinstance(name, str) or not isinstance(each, str):
                self.wrong(f"{field}[{name!r}]", each, "a text")
        return dict(value)

    def each(self, field: str, value: object, kind: type) -> list[Any]:
        """Returns the elements of a list that are of a kind; there must be one."""
        if isinstance(value, str) or not isinstance(value, Sequence) or len(value) == 0:
            self.wrong(field, value, f"a list with at least one {kind.__name__}")
            return []
        for i, element in enumerate(value):
            if not isinstance(element, kind):
                self.wrong(f"{field}[{i}]", element, f"a {kind.__name__}")
        return [element for element in value if isinstance(element, kind)]


def describe(request: model.CreateLaunchRequest) -> Table:
    """Returns the description of a launch as JSON has it, or raises InvalidLaunchError."""
    check = _Checker()
    spec = _launch(check, request)
    if check.problems:
        raise InvalidLaunchError("\n".join(check.problems), "INVALID_ARGUMENT")
    return _without_defaults(spec)


def _without_defaults(table: Table) -> Table:
    """Leaves out what says nothing."""
    left: Table = {}
    for name, value in table.items():
        if isinstance(value, dict):
            value = _without_defaults(value)
        if isinstance(value, list):
            value = [_without_defaults(each) if isinstance(each, dict) else each for each in value]
        if value not in ("", 0, None, False, [], {}):
            left[name] = value
    return left


def _launch(check: _Checker, r: model.CreateLaunchRequest) -> Table:
    queue = r.queueing_behaviour
    if queue is not None and not isinstance(queue, model.QueueingBehaviour):
        check.wrong("queueing_behaviour", queue, "a QueueingBehaviour, or None to be refused if there is no room")
    waits = isinstance(queue, model.QueueingBehaviour) and queue.enqueue_if_cluster_busy
    jobs = check.each("jobs", r.jobs, model.Job)
    return {
        "name": check.text("name", r.name),
        "description": check.text("description", r.description),
        "jobs": [_job(check, f"jobs[{i}]", job) for i, job in enumerate(jobs)],
        "place": {
            "cluster": check.text("cluster", r.cluster),
            "shard": check.text("shard", r.shard),
            "hostnames": check.texts("hostnames", r.hostnames),
            "whole_nodes": bool(r.whole_nodes),
        },
        "queue": "wait" if waits else "refuse",
        "priority": r.priority if _is_number(check, "priority", r.priority) else 0,
        "time_limit": check.text("time_limit", r.time_limit),
        "after": check.texts("after", r.after),
        "restartable": bool(r.restartable),
        "network": check.text("network", r.network),
        "source": _source(check, r.deployment),
        "env": check.environment("env", r.env),
        "checkpoint": _checkpoint(check, r.checkpoint),
    }


def _is_number(check: _Checker, field: str, value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return True
    check.wrong(field, value, "a whole number")
    return False


def _source(check: _Checker, deployment: object) -> Table:
    if isinstance(deployment, model.GitRepo):
        return {
            "git": check.text("deployment.repo", deployment.repo),
            "branch": check.text("deployment.branch", deployment.branch),
            "commit": check.text("deployment.commit", deployment.commit),
        }
    if deployment is not None and not isinstance(deployment, model.LocalDir):
        check.wrong("deployment", deployment, "a LocalDir or a GitRepo")
    return {}


def _checkpoint(check: _Checker, c: object) -> Table:
    if c is None:
        return {}
    if not isinstance(c, model.Checkpoint):
        check.wrong("checkpoint", c, "a Checkpoint")
        return {}
    return {
        "every": check.text("checkpoint.every", c.every),
        "on": check.texts("checkpoint.on", c.on),
        "keep": check.count("checkpoint.keep", c.keep),
        "dir": check.text("checkpoint.dir", c.dir),
    }


_FAILURE = {
    model.OnReplicaFailureOtherReplicasContinue: "continue",
    model.OnReplicaFailureOtherReplicasAreStopped: "stop",
    type(None): "",
}


def _job(check: _Checker, at: str, job: model.Job) -> Table:
    name = check.text(f"{at}.short_name", job.short_name)
    if not name:
        check.wrong(f"{at}.short_name", job.short_name, "a name, as 'train'")
    failure = _FAILURE.get(type(job.replica_failure_behaviour))
    if failure is None:
        check.wrong(
            f"{at}.replica_failure_behaviour",
            job.replica_failure_behaviour,
            "OnReplicaFailureOtherReplicasContinue() or OnReplicaFailureOtherReplicasAreStopped()",
        )
    processes = check.each(f"{at}.processes", job.processes, model.Process)
    return {
        "name": name,
        "replicas": _replicas(check, f"{at}.replicas", job.replicas),
        "processes": [_process(check, f"{at}.processes[{i}]", p) for i, p in enumerate(processes)],
        "on_replica_failure": failure,
        "retries": check.count(f"{at}.retries", job.retries),
        "retry_on": [check.count(f"{at}.on_exit_codes[{i}]", c, 1) for i, c in enumerate(job.on_exit_codes)],
        "env": check.environment(f"{at}.env", job.env),
    }


def _replicas(check: _Checker, field: str, value: object) -> str:
    if isinstance(value, str):
        least, dots, most = value.partition("..")
        if dots and least.isdecimal() and most.isdecimal() and 1 <= int(least) <= int(most):
            return value
    elif isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return str(value)
    check.wrong(field, value, "a whole number from 1, or a range as '4..8'")
    return ""


def _process(check: _Checker, at: str, p: model.Process) -> Table:
    command = check.texts(f"{at}.command", p.command, "a list, as ['python3', 'train.py']: there is no shell")
    if not command and not isinstance(p.command, str):
        check.wrong(f"{at}.command", p.command, "a program and its arguments, as ['python3', 'train.py']")
    return {
        "command": command,
        "dir": check.text(f"{at}.cwd", p.cwd),
        "env": check.environment(f"{at}.env", p.env),
        "ports": check.texts(f"{at}.ports", p.ports),
        "resources": _resources(check, f"{at}.resource_requirements", p.resource_requirements),
    }


def _resources(check: _Checker, at: str, r: object) -> Table:
    if r is None:
        return {}
    if not isinstance(r, model.Resources):
        check.wrong(at, r, "a Resources")
        return {}
    if isinstance(r.cpus, bool) or not isinstance(r.cpus, (int, float)) or not 0 <= r.cpus < float("inf"):
        check.wrong(f"{at}.cpus", r.cpus, "a number of CPUs, as 2 or 0.5")
    memory = check.count(f"{at}.memory_mb", r.memory_mb)
    each = check.count(f"{at}.gpu_memory_gb", r.gpu_memory_gb)
    gpus, models = _gpus(check, at, r)
    return {
        "cpus": str(r.cpus) if r.cpus else "",
        "memory": f"{memory}MiB" if memory else "",
        "gpus": gpus,
        "gpu_models": models,
        "gpu_memory": f"{each}GiB" if each else "",
    }


def _gpus(check: _Checker, at: str, r: model.Resources) -> tuple[int, list[str]]:
    """Returns how many GPUs are wanted, and of which models."""
    gpus, models = check.count(f"{at}.gpus", r.gpus), check.texts(f"{at}.gpu_models", r.gpu_models)
    named = [name for name in model.GPU_MODELS if check.count(f"{at}.{name}", getattr(r, name))]
    if not named:
        return gpus, models
    if len(named) > 1 or gpus or models:
        others = [*named[1:], *(["gpus"] if gpus else []), *(["gpu_models"] if models else [])]
        check.wrong(
            f"{at}.{named[0]}", getattr(r, named[0]),
            f"GPUs asked for in one way: leave out {', '.join(others)}, or use gpus with gpu_models",
        )
    return getattr(r, named[0]), [named[0].replace("_", "-")]
