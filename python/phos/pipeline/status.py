"""What a training says of itself: how far it is, how long its steps take, and what it has survived.

Those that ask at the door of a rank get it as one line of JSON. `pos_cli pipeline` asks.
"""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import statistics
import threading
import time
from collections import deque
from typing import Any

from .. import inside
from ..errors import PhosError
from .mesh import Mesh
from .plan import Plan

log = logging.getLogger("phos.pipeline")

# How many events are remembered, and of how many steps the length.
_EVENTS, _STEPS = 100, 20
# How often the leader tells the cluster how the training is, if that has changed and if not.
_TELL, _TELL_AGAIN = 2.0, 10.0


def place() -> dict[str, Any]:
    """Returns where this rank is: its machine, its process, and its replica in a launch of phos."""
    job, replica = os.environ.get("PHOS_JOB_NAME"), os.environ.get("PHOS_REPLICA")
    return {
        "host": os.environ.get("PHOS_NODE") or socket.gethostname(), "pid": os.getpid(),
        "replica": f"{job}.{replica}" if job and replica else "",
    }


def _finite(value: float) -> float | None:
    """Returns a number that JSON has."""
    return value if math.isfinite(value) else None


class Status:
    """The course of a training. A door reads it while the training writes."""

    def __init__(self, rank: int, steps: int, faults: int) -> None:
        self._lock = threading.Lock()
        self._plan: Plan | None = None
        self._said: dict[str, Any] = {"rank": rank, "step": 0, "steps": steps, "faults": faults, "ranks": []}
        self._computing: dict[int, float] = {}
        self._places: dict[int, dict[str, Any]] = {}
        self._lost: dict[int, str] = {}
        # Few steps take long, where ranks are lost: the median tells what the others take.
        self._lengths: deque[float] = deque(maxlen=_STEPS)
        self._events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)

    def left(self, seconds: float, steps: int) -> float:
        """Takes note of how long a step took, and returns how long as many more will take."""
        with self._lock:
            self._lengths.append(seconds)
            return statistics.median(self._lengths) * steps

    def made(self, step: int, commit: dict[str, Any]) -> None:
        """Takes note of how a step ended."""
        with self._lock:
            self._said.update(step=step + 1, loss=_finite(commit["loss"]), norm=_finite(commit["norm"]))
            self._computing = dict(commit["computing"])

    def regrouped(self, plan: Plan, decision: dict[str, Any], seconds: float, moved: int) -> None:
        """Takes note of how the ranks go on.

        Args:
            plan: the plan that begins.
            decision: the leader's.
            seconds: how long it took until all were ready for the plan.
            moved: how many bytes of layers were copied, between all ranks.
        """
        before, places, lost = self._places, dict(decision["places"]), dict(decision["lost"])
        event = {
            "at": time.time(), "step": decision["step"], "seconds": round(seconds, 3), "bytes": moved,
            "microbatches": len(decision["missing"]),
            "joined": sorted(places.keys() - before.keys()), "left": decision["leaving"],
            "lost": [[rank, lost[rank]] for rank in sorted(lost.keys() & before.keys()) if rank not in self._lost],
            "iteration_ms": plan.iteration_ms, "ways": list(plan.ways),
        }
        with self._lock:
            self._plan, self._lost = plan, lost
            self._places = {rank: each for rank, each in places.items() if rank not in decision["leaving"]}
            self._said.update(run=decision["run"], step=decision["step"])
            self._lengths.clear()
            self._computing = {}
            self._events.append(event)

    def line(self) -> bytes:
        """Returns all of it as a line of JSON."""
        with self._lock:
            said = {
                **self._said, "events": list(self._events),
                "seconds": statistics.median(self._lengths) if self._lengths else 0,
                "ranks": [
                    {"rank": rank, **where, "computing": self._computing.get(rank, 0)}
                    for rank, where in sorted(self._places.items())
                ],
            }
            plan = self._plan
        if plan is not None:
            said.update(nodes=list(plan.ranks), plan=json.loads(plan.text))
        return json.dumps(said).encode() + b"\n"

    def keep_telling(self, mesh: Mesh) -> None:
        """Lets the rank that leads tell the agent of its node how the training is, in a launch of phos."""
        if "PHOS_LAUNCH_ID" in os.environ and "PHOS_AGENT" in os.environ:
            threading.Thread(target=self._tell, args=(mesh,), daemon=True, name="tell").start()

    def _tell(self, mesh: Mesh) -> None:
        said, told = b"", 0.0
        while True:
            time.sleep(_TELL)
            now = self.line()
            fresh = now == said and time.monotonic() - told < _TELL_AGAIN
            if self._plan is None or mesh.leader != mesh.rank or fresh:
                continue
            try:
                inside.tell_training(now)
                said, told = now, time.monotonic()
            except PhosError as why:
                log.debug("rank %d: the cluster does not hear how the training is: %s", mesh.rank, why)
