"""Plans of the Go planner: which rank has which layers, and how many microbatches.

Each rank runs the planner itself, on the same input, and compares the plan's hash with the others'.
A node of the planner is a rank here. The planner's numbers of nodes are places in the list of the
ranks that began.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field, replace
from typing import Any, Sequence

from .errors import PlanError

# Where the planner is, if not in the PATH.
PLANNER = "PHOS_PLANNER"


@dataclass(frozen=True)
class Stage:
    """Consecutive layers of a pipeline, on one rank."""

    rank: int
    first: int
    end: int


@dataclass(frozen=True)
class Pipeline:
    """A copy of the model: its stages in the order of the layers."""

    stages: tuple[Stage, ...]
    microbatches: int

    def neighbours(self, position: int) -> tuple[int | None, int | None]:
        """Returns the ranks of the stages before and after one."""
        before = self.stages[position - 1].rank if position > 0 else None
        after = self.stages[position + 1].rank if position + 1 < len(self.stages) else None
        return before, after


@dataclass(frozen=True)
class Stripe:
    """A part of a layer's state that one rank sends to another."""

    layer: int
    source: int
    target: int
    offset: int
    bytes: int


@dataclass(frozen=True)
class Plan:
    """Which ranks train which layers."""

    text: str = field(repr=False)
    hash: str
    # The rank of each of the planner's nodes.
    ranks: tuple[int, ...]
    layers: int
    # The measured bytes of each layer's state.
    sizes: tuple[int, ...]
    microbatches: int
    iteration_ms: float
    # How many ranks may be lost at once, whichever they are.
    faults: int
    pipelines: tuple[Pipeline, ...]
    spare: tuple[int, ...]
    stripes: tuple[Stripe, ...]
    # Layers that no rank has any more.
    lost: tuple[int, ...]
    # The ways to go on that the planner has compared after a change, the chosen one first.
    ways: tuple[dict[str, Any], ...] = ()

    def nodes(self) -> list[int]:
        """Returns the planner's numbers of all ranks of the plan."""
        ranks = {stage.rank for pipeline in self.pipelines for stage in pipeline.stages} | set(self.spare)
        return [node for node, rank in enumerate(self.ranks) if rank in ranks]

    def place(self, rank: int) -> tuple[int, int] | None:
        """Returns the numbers of a rank's pipeline and of its stage there; None for a spare rank."""
        for number, pipeline in enumerate(self.pipelines):
            for position, stage in enumerate(pipeline.stages):
                if stage.rank == rank:
                    return number, position
        return None

    def layers_of(self, rank: int) -> range:
        """Returns the layers that a rank has."""
        place = self.place(rank)
        if place is None:
            return range(0)
        stage = self.pipelines[place[0]].stages[place[1]]
        return range(stage.first, stage.end)

    def holders(self, layer: int) -> list[int]:
        """Returns the ranks that have a layer: one of each pipeline."""
        return [
            stage.rank for pipeline in self.pipelines for stage in pipeline.stages if stage.first <= layer < stage.end
        ]

    def on_too_few(self, machines: dict[int, str], faults: int) -> dict[tuple[str, ...], list[int]]:
        """Returns the layers that are lost with some machines, not more than faults, by machines."""
        found: dict[tuple[str, ...], list[int]] = {}
        for layer in range(self.layers):
            on = {machines[rank] for rank in self.holders(layer)}
            if len(on) <= faults and len(on) < len({*machines.values()}):
                found.setdefault(tuple(sorted(on)), []).append(layer)
        return found

    def shares(self, numbers: list[int]) -> list[list[int]]:
        """Distributes microbatches over the pipelines, in the proportions of the plan."""
        shares, begin, weight = [], 0, 0
        for pipeline in self.pipelines:
            weight += pipeline.microbatches
            end = len(numbers) * weight // self.microbatches
            shares.append(numbers[begin:end])
            begin = end
        return shares


def make(
    profile: str, ranks: Sequence[int], machines: dict[int, str], faults: int, microbatches: int, memory: int,
) -> Plan:
    """Returns the first plan. machines are those of the ranks."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(profile)
        file.flush()
        arguments = ["--profile", file.name, "--nodes", len(ranks), "--faults", faults]
        arguments += ["--microbatches", microbatches, *(["--gpu-memory", memory] if memory else [])]
        arguments += _shared(ranks, machines)
        return decode(_run("make", arguments), tuple(ranks))


def _shared(ranks: Sequence[int], machines: dict[int, str]) -> list[str]:
    """Returns the planner's flag for the machines that several ranks share, which are lost together."""
    nodes: dict[str, list[int]] = {}
    for node, rank in enumerate(ranks):
        if rank in machines:
            nodes.setdefault(machines[rank], []).append(node)
    shared = ["/".join(",".join(map(str, each)) for each in nodes.values() if len(each) > 1)]
    return ["--machines", *shared] if all(shared) else []


def again(
    plan: Plan, members: Sequence[int], machines: dict[int, str], leaving: Sequence[int], faults: int,
) -> Plan:
    """Returns the plan that follows another one when ranks are lost, have come, or are to leave.

    It has as many copies of each layer as the ranks allow, up to those wanted.
    """
    known = [plan.ranks[node] for node in plan.nodes()]
    joined = [rank for rank in members if rank not in known and rank not in leaving]
    ranks = (*plan.ranks, *joined)
    changes = {
        "--dead": [node for node in plan.nodes() if ranks[node] not in members],
        "--drain": [node for node in plan.nodes() if ranks[node] in members and ranks[node] in leaving],
        "--join": list(range(len(plan.ranks), len(ranks))),
    }
    if not any(changes.values()) and plan.faults >= faults:
        return replace(plan, stripes=(), ways=())
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(plan.text)
        file.flush()
        arguments = ["--plan", file.name]
        for flag, nodes in changes.items():
            arguments += [flag, ",".join(map(str, nodes))] if nodes else []
        arguments += _shared(ranks, {rank: machines[rank] for rank in members})
        for fewer in range(faults, 0, -1):
            try:
                return decode(_run("fail", [*arguments, "--faults", fewer]), ranks)
            except PlanError:
                continue
        return decode(_run("fail", [*arguments, "--faults", 0]), ranks)


def _program() -> str:
    named = os.environ.get(PLANNER)
    found = named or shutil.which("pos_cli") or shutil.which("phos")
    if found is None:
        raise PlanError(f"the planner pos_cli is not in the PATH; install phos on each node, or set {PLANNER}")
    return found


def _run(verb: str, arguments: list[Any]) -> str:
    command = [_program(), "plan", verb, *map(str, arguments), "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as why:
        raise PlanError(f"the planner {command[0]} does not start: {why.strerror}") from why
    if done.returncode != 0:
        raise PlanError(done.stderr.strip() or f"the planner ended with status {done.returncode}")
    return done.stdout


def decode(text: str, ranks: tuple[int, ...]) -> Plan:
    """Returns the plan that the planner has printed."""
    file = json.loads(text)
    layers = file["profile"]["layers"]
    cuts = {template["nodes"]: template["stages"] for template in file["templates"]}
    pipelines = tuple(
        Pipeline(
            tuple(Stage(ranks[each["nodes"][s["node"]]], s["from"], s["to"]) for s in cuts[each["template"]]),
            each["microbatches"],
        )
        for each in file["pipelines"]
    )
    stripes = tuple(
        Stripe(transfer["layer"], ranks[part["from"]], ranks[transfer["to"]], part["offset"], part["bytes"])
        for transfer in file.get("transfers") or []
        for part in transfer["stripes"]
    )
    return Plan(
        text, file["hash"], ranks, len(layers), tuple(int(each.get("state_bytes", 0)) for each in layers),
        file["spec"]["microbatches"], float(file["iteration_ms"]), file["spec"]["faults"], pipelines,
        tuple(ranks[node] for node in file.get("spare") or []), stripes,
        tuple(each["layer"] for each in file.get("lost") or []), tuple(file.get("ways") or []),
    )
