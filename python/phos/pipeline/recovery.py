"""What the ranks agree on when a generation of members begins: at the start, and after each loss.

Each rank reports what it has. The leader, the lowest rank, decides from the reports: how the
unfinished iteration goes on, and on which plan. Nothing here sends or waits.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from .errors import ModelError
from .sums import Node, numbers


@dataclass
class Report:
    """What a rank has when a generation begins."""

    # The step that it is in, and how the one before ended.
    step: int
    commit: dict[str, Any] | None = None
    # The layers whose state it has, and the parts of their gradients' sums.
    held: list[int] = field(default_factory=list)
    parts: dict[int, list[Node]] = field(default_factory=dict)
    losses: dict[int, float] = field(default_factory=dict)
    # How many evaluations, checkpoints and the like it has finished since the last step, and what
    # the last one gave.
    uses: int = 0
    result: float | None = None
    # Layers that were copied here ahead of the change, with their versions.
    ahead: dict[int, int] = field(default_factory=dict)
    # It was asked to end.
    leaving: bool = False
    # Where it is: host, pid and the like.
    place: dict[str, Any] = field(default_factory=dict)
    # The generation in which its plan began, and the plan's hash.
    plan: tuple[int, str] | None = None
    # Before the first plan: what must be the same on all ranks.
    start: dict[str, Any] | None = None
    # The checkpoints that it can read: step, run and layers.
    found: list[tuple[int, str, list[int]]] = field(default_factory=list)
    # It has read one already, for a plan that did not begin.
    restored: bool = False

    def encode(self) -> dict[str, Any]:
        """Returns the report as JSON has it."""
        return {
            **asdict(self), "parts": [*self.parts.items()], "losses": [*self.losses.items()], "ahead": [*self.ahead.items()],
        }

    @staticmethod
    def decode(text: dict[str, Any]) -> Report:
        """Returns the report that encode has made a text of."""
        parts = {layer: [(level, place) for level, place in nodes] for layer, nodes in text["parts"]}
        return Report(**{**text, "parts": parts, "losses": dict(text["losses"]), "ahead": dict(text["ahead"])})


def base(reports: dict[int, Report]) -> str:
    """Returns the hash of the newest plan that some rank has begun; empty if none has.

    All ranks were ready for it then, so that all know it.
    """
    plans = [report.plan for report in reports.values() if report.plan is not None]
    return max(plans, key=lambda plan: plan[0])[1] if plans else ""


@dataclass
class Iteration:
    """How the unfinished iteration goes on."""

    step: int
    # How the step before ended, and the last use since, for ranks that have not heard of it.
    commit: dict[str, Any] | None
    uses: int
    result: float | None
    # By layer and rank, the parts that count. No microbatch is in two of them.
    keep: dict[int, dict[int, list[Node]]]
    losses: dict[int, float]
    # Microbatches of which the gradient of some layer, or the loss, is not there.
    missing: list[int]


def resume(reports: dict[int, Report], layers: int, count: int) -> Iteration:
    """Returns how an iteration goes on with what the ranks have of it."""
    step = max(report.step for report in reports.values())
    now = {rank: report for rank, report in reports.items() if report.step == step}
    commit = next((report.commit for report in now.values() if report.commit is not None), None)
    last = max(now.values(), key=lambda report: report.uses)
    losses = {number: loss for report in now.values() for number, loss in report.losses.items()}
    keep = {layer: _keep(layer, now, count) for layer in range(layers)}
    missing = set(range(count)) - losses.keys()
    for parts in keep.values():
        missing |= set(range(count)) - covered(parts, count)
    return Iteration(step, commit, last.uses, last.result, keep, losses, sorted(missing))


def _keep(layer: int, reports: dict[int, Report], count: int) -> dict[int, list[Node]]:
    """Chooses parts of a layer's sum that have no microbatch twice: the largest first."""
    parts = [(node, rank) for rank, report in reports.items() for node in report.parts.get(layer, [])]
    parts.sort(key=lambda part: (-part[0][0], part[0][1], part[1]))
    kept: dict[int, list[Node]] = {}
    seen: set[int] = set()
    for node, rank in parts:
        inside = numbers(node, count)
        if seen.isdisjoint(inside):
            seen.update(inside)
            kept.setdefault(rank, []).append(node)
    return kept


def covered(parts: dict[int, list[Node]], count: int) -> set[int]:
    """Returns the microbatches in some parts, by rank, of a layer's sum."""
    return {number for nodes in parts.values() for node in nodes for number in numbers(node, count)}


def check_start(starts: dict[int, dict[str, Any]]) -> None:
    """Raises ModelError if ranks have begun with different models, data or software."""
    first = min(starts)
    for rank, start in starts.items():
        for what, value in start.items():
            other = starts[first].get(what)
            if value == other:
                continue
            if what == "layers" and len(value) == len(other):
                layer = next(number for number, pair in enumerate(zip(value, other)) if pair[0] != pair[1])
                raise ModelError(
                    f"layer {layer} has other parameters on rank {rank} than on rank {first}: "
                    "call torch.manual_seed with the same number on all ranks before the layers are made"
                )
            raise ModelError(f"{what} is {_short(value)} on rank {rank} and {_short(other)} on rank {first}")


def _short(value: Any) -> str:
    return str(len(value)) if isinstance(value, list) else str(value)
