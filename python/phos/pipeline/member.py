"""What one rank does of a training: it agrees with the others how to go on, and makes steps."""

from __future__ import annotations

import logging
import math
import os
import secrets
import statistics
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Sequence

import torch

from . import plan as planner
from . import recovery, state, transfer
from .batches import Batches
from .checkpoint import Checkpoints
from .errors import Interrupted, ModelError, PlanError, StoppedError, TrainingError
from .evaluation import Evaluation
from .exchange import Exchange
from .iteration import Iteration
from .layer import Layer
from .mesh import Mesh
from .model import Model, digest
from .profile import measure
from .sums import Tree

log = logging.getLogger("phos.pipeline")


@dataclass(frozen=True)
class Step:
    """A step of the training, the same on every rank but for the times."""

    number: int
    # The mean loss of the batch, and the norm of its gradient before clipping.
    loss: float
    norm: float
    # How long it took, and how long the steps that are left will take.
    seconds: float
    left: float

    def __str__(self) -> str:
        left = f"{self.left / 3600:.1f} h" if self.left >= 3600 else f"{self.left:.0f} s"
        return f"step {self.number}: loss {self.loss:.4f}, {self.seconds:.2f} s; {left} left"


# What the leader's decision may say instead of how to go on.
_KINDS = {"ModelError": ModelError, "PlanError": PlanError, "StoppedError": StoppedError}
# The exit status of a process that SIGTERM has ended.
_TERMINATED = 128 + 15


@dataclass(frozen=True)
class Task:
    """What is to be trained, besides the model."""

    batches: Batches
    loss: Callable[[Any, Any], torch.Tensor]
    steps: int
    clip: float | None
    faults: int
    memory: int


class Member:
    """A rank of a training."""

    def __init__(self, mesh: Mesh, model: Model, task: Task, resume: str | None) -> None:
        self.mesh, self.model, self.task = mesh, model, task
        self.checkpoints = Checkpoints(mesh, model, resume)
        self.count = task.batches.count
        # The step that is next or begun.
        self.step = 0
        # The plan by which, and the one that replaces it as soon as all are ready for it.
        self.plan: planner.Plan | None = None
        self._planned = 0
        self._next: planner.Plan | None = None
        self._next_generation = 0
        # The step of the checkpoint that was read for it.
        self._next_step: int | None = None
        # Of the step that has begun: the sums of gradients here and which ranks have others, the
        # losses, and the microbatches that are missing.
        self._sums: dict[int, Tree] = {}
        self._elsewhere: dict[int, set[int]] = {}
        self._losses: dict[int, float] = {}
        self._missing: list[int] = []
        # The whole sums, from when they are there until the step is made.
        self._totals: dict[int, torch.Tensor] = {}
        self._commit: dict[str, Any] | None = None
        self._made: deque[Step] = deque()
        self._together = False
        self._began = time.monotonic()
        # This rank was asked to end, and hands its layers over first.
        self.leaving = False
        # Evaluations, checkpoints and the like that were finished since the last step, and what
        # the last one gave: all ranks make the same ones.
        self._uses = 0
        self._result: float | None = None
        # Ranks come or go before the next step.
        self._changes = False
        # This rank makes a step now, and nothing else.
        self._steps_next = False
        # Of its layers, as they were at first.
        self._digests: list[str] = []
        self._lengths: deque[float] = deque(maxlen=20)
        # The step of the last checkpoint.
        self._written = 0

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self.mesh.rank

    def train(self) -> Iterator[Step]:
        """Makes all steps."""
        self._began = time.monotonic()
        while True:
            while self._made:
                yield self._made.popleft()
            if self.checkpoints.due(self.step) and self.step != self._written:
                self.checkpoint()
            if self.step >= self.task.steps:
                return
            self._steps_next = True
            self._with_others(self._iterate)
            self._steps_next = False

    def checkpoint(self) -> None:
        """Writes the state of all layers, with the other ranks."""
        self._use(self._checkpoint)
        self._written = self.step

    def _checkpoint(self) -> None:
        assert self.plan is not None
        leader, members = self.mesh.leader, self.mesh.members
        self.checkpoints.write_first(self.plan, self.step)
        self._barrier(leader, members, f"first {self.step}")
        self.checkpoints.write_rest(self.plan, self.step)
        self._barrier(leader, members, f"rest {self.step}")
        self.checkpoints.finish(self.step, self._start())

    def evaluate(self, data: Sequence[Any], function: Callable[[Any, Any], torch.Tensor] | None) -> float:
        """Returns the mean of the loss, or of another function, over other data."""
        def run() -> float:
            assert self.plan is not None
            layers = [self.model.held[number] for number in self.plan.layers_of(self.rank)]
            evaluation = Evaluation(
                self.mesh, self.plan, layers, self.task.batches, data, function or self.task.loss
            )
            return evaluation.run()

        result = self._use(run)
        return math.nan if result is None else result

    def save(self, path: str) -> None:
        """Writes the whole model on the lowest rank."""
        self._use(lambda: self._save(path))

    def leave(self) -> None:
        """Ends the part of this rank. After the last step it helps those that lack something."""
        if self.step >= self.task.steps and self.plan is not None:
            self.mesh.finish()
            try:
                self._with_others(self.mesh.await_finished)
            except TrainingError as why:
                log.warning("rank %d: %s", self.rank, why)
        self.mesh.close()

    def _use(self, do: Callable[[], float | None]) -> float | None:
        """Does something that all ranks do between two steps, or learns what it has given the others."""
        number = self._uses + 1

        def once() -> None:
            if self._uses < number:
                self._result = do()
                self._uses = number

        self._with_others(once)
        return self._result

    def _with_others(self, do: Callable[[], None]) -> None:
        """Does something that all ranks do; begins it again with those that are left."""
        while True:
            try:
                if not self._together:
                    self._regroup()
                return do()
            except Interrupted:
                self._together = False
            except TrainingError:
                if self.step > 0:
                    self.checkpoints.rescue(self.step, self._start())
                raise

    # How to go on

    def _regroup(self) -> None:
        """Agrees with all ranks that live on how to go on."""
        began, first = time.monotonic(), self.plan is None
        for layer in self.model.held.values():
            layer.drop()
        leader, members = self._begin()
        decision = self._agree(leader, members)
        moved = self._act(decision, members)
        self._barrier(leader, members, "ready")
        self._adopt()
        self._barrier(leader, members, "begun")  # a rank that leaves may be needed until all have
        self.mesh.part(decision["leaving"])
        if self.rank in decision["leaving"]:
            raise SystemExit(_TERMINATED)
        assert self.plan is not None
        self.model.release(self.plan.layers_of(self.rank))
        self._together = True
        if self.plan.faults < self.task.faults:
            log.warning("rank %d: with ranks %s %d more may be lost at once", self.rank, members, self.plan.faults)
        if not first:
            log.warning(
                "rank %d: goes on with ranks %s after %.2f s; %d bytes of layers came here, "
                "%d microbatches are to compute",
                self.rank, self.mesh.members, time.monotonic() - began, moved, len(self._missing),
            )

    def _adopt(self) -> None:
        """Begins the next plan, for which all ranks are ready."""
        self.plan, self._planned = self._next, self._next_generation
        self.mesh.forgive()
        if self._next_step is not None:
            self.step = self._written = self._next_step
        self._next_step = None

    def _begin(self) -> tuple[int, list[int]]:
        """Begins a generation, or follows the rank that does. The lowest rank leads."""
        self._check_majority()
        lowest = self.mesh.lowest()
        if lowest == self.rank and self.mesh.joining:
            raise TrainingError("the training has ended before this rank became a member")
        if lowest == self.rank:
            return self.rank, self.mesh.begin(admit=self._steps_next)
        self.mesh.report_lost(lowest)
        return self.mesh.follow()

    def _check_majority(self) -> None:
        """Raises TrainingError if those that are silent may live, and go on by themselves.

        Ranks whose connections have ended are dead. Of others, the larger part goes on; of two
        halves, that with the lowest rank.
        """
        living, silent = self.mesh.alive(), sorted(self.mesh.silent)
        if (len(living), -min(living)) < (len(silent), -min(silent, default=0)):
            raise TrainingError(
                f"the ranks {silent} are silent, and may live without the ranks {living}, which are fewer: these end"
            )

    def _agree(self, leader: int, members: list[int]) -> dict[str, Any]:
        """Returns the leader's decision."""
        self.mesh.send(leader, "report", self._report().encode())
        if leader == self.rank:
            reports = {rank: recovery.Report.decode(self.mesh.receive(rank, "report")[0]) for rank in members}
            decision = self._decide(reports)
            for rank in members:
                self.mesh.send(rank, "decision", decision)
        decision, _ = self.mesh.receive(leader, "decision")
        if decision["error"]:
            if self.step < decision["step"] and decision["commit"] is not None:
                self._apply(decision["commit"])
            raise _KINDS[decision["kind"]](decision["error"])
        return decision

    def _barrier(self, leader: int, members: list[int], name: str) -> None:
        """Waits until all members are here."""
        self.mesh.send(leader, name)
        if leader == self.rank:
            for rank in members:
                self.mesh.receive(rank, name)
            for rank in members:
                self.mesh.send(rank, f"all {name}")
        self.mesh.receive(leader, f"all {name}")

    def _report(self) -> recovery.Report:
        step = self.step if self._next_step is None else self._next_step
        held = sorted(number for number, layer in self.model.held.items() if layer.version == step)
        report = recovery.Report(step, self._commit, held, losses=self._losses, uses=self._uses, result=self._result)
        report.leaving = self.leaving
        report.parts = {layer: list(tree.parts) for layer, tree in self._sums.items()}
        if self.plan is not None:
            report.plan = self._planned, self.plan.hash
        else:
            # Later, layers may have been read from a checkpoint.
            self._digests = self._digests or [digest(module) for module in self.model.modules]
            report.start = {**self._start(), "layers": self._digests}
            report.found, report.restored = self.checkpoints.found(), self._next_step is not None
        return report

    def _start(self) -> dict[str, Any]:
        """Returns what must be the same on all ranks, besides the model."""
        batches = self.task.batches
        return {
            "PyTorch": torch.__version__, "device": self.model.settings.device.type,
            "threads": torch.get_num_threads(), "seed": batches.seed, "samples": len(batches.data),
            "batch": batches.batch, "microbatch": batches.microbatch, "steps": self.task.steps,
        }

    # What the leader decides

    def _decide(self, reports: dict[int, recovery.Report]) -> dict[str, Any]:
        """Returns how to go on, or why nothing goes on."""
        if not recovery.base(reports):
            for report in reports.values():
                report.step = 0  # what has read a checkpoint reads it again
        going = recovery.resume(reports, len(self.model.modules), self.count)
        decision = {
            "error": "", "step": going.step, "commit": going.commit, "uses": going.uses, "result": going.result,
        }
        try:
            return {**decision, **self._decision(reports)}
        except tuple(_KINDS.values()) as why:
            return {**decision, "error": str(why), "kind": type(why).__name__}

    def _decision(self, reports: dict[int, recovery.Report]) -> dict[str, Any]:
        profile, chosen, base = None, None, recovery.base(reports)
        if not base:
            recovery.check_start({rank: report.start for rank, report in reports.items() if report.start is not None})
            chosen = self.checkpoints.choose({rank: report.found for rank, report in reports.items()})
            if chosen is None and any(report.restored for report in reports.values()):
                raise PlanError("the ranks that could read the checkpoint are lost: start again when they are back")
            profile = measure(self.model, self.task.batches, self.task.loss)
        plan, leaving = self._plan_for(base, profile, reports)
        if plan.lost:
            raise PlanError(f"no living rank has the layers {list(plan.lost)}: ranks {sorted(self.mesh.lost)} are lost")
        for rank in leaving:
            reports[rank].parts = {}  # it goes before they would be added
        going = recovery.resume(reports, plan.layers, self.count)
        return {
            "base": base, "run": self.checkpoints.run or secrets.token_hex(8), "profile": profile, "hash": plan.hash,
            "checkpoint": chosen,
            "held": [[rank, report.held] for rank, report in reports.items()],
            "keep": [[layer, [*parts.items()]] for layer, parts in going.keep.items()],
            "losses": [*going.losses.items()], "missing": going.missing, "leaving": leaving,
            "plan": None if self.plan is None else [self.plan.text, self.plan.ranks],
            "start": self._start(),
        }

    def _plan_for(
        self, base: str, profile: str | None, reports: dict[int, recovery.Report],
    ) -> tuple[planner.Plan, list[int]]:
        """Returns the plan, and which ranks leave: none, if the others are too few without them."""
        members = sorted(reports)
        leaving = [rank for rank in members if reports[rank].leaving]
        if leaving == members:
            raise StoppedError("all ranks were asked to end")
        if leaving and base:
            try:
                return self._plan(base, profile, members, leaving), leaving
            except PlanError as why:
                log.warning("rank %d: the ranks %s cannot leave: %s", self.rank, leaving, why)
        return self._plan(base, profile, members, []), []

    def _plan(self, base: str, profile: str | None, members: list[int], leaving: list[int]) -> planner.Plan:
        """Returns the plan for some ranks. All of them compute it from the same input."""
        if not base:
            assert profile is not None
            return planner.make(profile, members, self.task.faults, self.count, self.task.memory)
        if self.plan is None or self.plan.hash != base:
            self._adopt()
        if self.plan is None or self.plan.hash != base:
            raise PlanError(f"rank {self.rank} does not know the plan {base}")
        return planner.again(self.plan, members, leaving, self.task.faults)

    # What all do then

    def _act(self, decision: dict[str, Any], members: list[int]) -> int:
        """Does what was decided, and returns how many bytes of layers came to this rank."""
        if self.plan is None and self._next is None and decision["base"]:  # it has come while the others train
            recovery.check_start({self.mesh.leader: decision["start"], self.rank: self._start()})
            text, ranks = decision["plan"]
            self.plan, self.step = planner.decode(text, tuple(ranks)), decision["step"]
            self._uses, self._result = decision["uses"], decision["result"]
        plan = self._plan(decision["base"], decision["profile"], members, decision["leaving"])
        if plan.hash != decision["hash"]:
            raise PlanError(f"rank {self.rank} computes the plan {plan.hash}, and the leader {decision['hash']}")
        self.checkpoints.run = decision["run"]
        if self.step < decision["step"]:
            self._apply(decision["commit"])
        if self._uses < decision["uses"]:
            self._uses, self._result = decision["uses"], decision["result"]
        stripes = transfer.wanted(plan, dict(decision["held"]))
        transfer.send(self.mesh, self.model, stripes, plan.sizes)
        moved = transfer.receive(self.mesh, self.model, stripes, plan.sizes, self.step)
        self.model.hold(plan.layers_of(self.rank))
        if decision["checkpoint"] is not None:
            self.checkpoints.restore(plan, decision["checkpoint"], self._start())
            self._next_step = decision["checkpoint"]["step"]
        self._keep(plan, decision)
        self._next, self._next_generation = plan, self.mesh.generation
        return moved

    def _keep(self, plan: planner.Plan, decision: dict[str, Any]) -> None:
        """Keeps what counts of the sums that this rank has, and knows what others have."""
        sums, self._elsewhere = {}, {}
        for layer, parts in decision["keep"]:
            ranks = {rank: [(level, place) for level, place in nodes] for rank, nodes in parts}
            holders = plan.holders(layer)
            self._elsewhere[layer] = ranks.keys() - set(holders)
            if self.rank not in holders and self.rank not in ranks:
                continue
            tree = self._sums.get(layer, Tree(self.count))
            tree.keep(ranks.get(self.rank, []))
            tree.skip = recovery.covered(ranks, self.count)
            sums[layer] = tree
        self._sums, self._losses, self._missing = sums, dict(decision["losses"]), decision["missing"]

    # Steps

    def _iterate(self) -> None:
        """Makes a step, or what of it is missing."""
        assert self.plan is not None
        if self._made or self.step >= self.task.steps:
            return  # the others had made it, and said how it ended
        if self._changes:
            self._changes = False
            raise Interrupted
        place = self.plan.place(self.rank)
        layers = {number: self.model.held[number] for number in self.plan.layers_of(self.rank)}
        if place is not None:
            self._compute(place, list(layers.values()))
        exchange = Exchange(self.mesh, self.plan, layers, self._sums, self._losses, self._elsewhere)
        totals = exchange.run()
        for layer, total in totals.items():
            self._sums[layer] = Tree(self.count)
            self._sums[layer].parts = {self._sums[layer].root(): total}
        if place is not None:
            exchange.share(self.model.shared, totals, place[0])
        self._totals = totals
        self._apply(self._committed(totals))

    def _compute(self, place: tuple[int, int], layers: list[Layer]) -> None:
        """Computes this rank's part of the microbatches that are missing."""
        assert self.plan is not None
        pipeline, position = place
        share = self.plan.shares(self._missing)[pipeline]
        iteration = Iteration(
            self.mesh, self.step, self.plan.pipelines[pipeline], position, layers, self.task.batches, self.task.loss
        )
        iteration.run(share, self._sums, self._losses)

    def _committed(self, totals: dict[int, torch.Tensor]) -> dict[str, Any]:
        """Returns what ends the step, when all ranks have their sums."""
        leader = self.mesh.leader
        squares = [[layer, self._square(layer, total)] for layer, total in totals.items()]
        report = {"squares": squares, "losses": [*self._losses.items()], "leaving": self.leaving}
        self.mesh.send(leader, f"sums/{self.step}", report)
        if leader == self.rank:
            known: dict[int, float] = {}
            losses: dict[int, float] = {}
            members, changes = self.mesh.members, bool(self.mesh.newcomers())
            for rank in members:
                said, _ = self.mesh.receive(rank, f"sums/{self.step}")
                known.update(said["squares"])
                losses.update(said["losses"])
                changes = changes or said["leaving"]
            commit = {
                "loss": math.fsum(losses.values()) / self.count,
                "norm": math.sqrt(math.fsum(known.values())) / self.count,
                # Between two steps ranks come and go.
                "changes": changes,
            }
            for rank in members:
                self.mesh.send(rank, f"commit/{self.step}", commit)
        commit, _ = self.mesh.receive(leader, f"commit/{self.step}")
        return commit

    def _square(self, layer: int, total: torch.Tensor) -> float:
        """Returns the square of the norm of a layer's gradient, without parameters of layers before."""
        own = total.double()
        for places in self.model.shared:
            for place in places[1:]:
                if place.layer == layer:
                    own[place.begin:place.end] = 0
        return float(own.square().sum())

    def _apply(self, commit: dict[str, Any]) -> None:
        """Makes the step that all are ready for."""
        clip = self.task.clip
        scale = clip / (commit["norm"] + 1e-6) if clip is not None and commit["norm"] > clip else 1.0
        for layer, total in self._totals.items():
            gradient = total / self.count
            self.model.held[layer].apply(gradient if scale == 1.0 else gradient * scale)
        self._made.append(self._step(commit))
        self.step += 1
        self._commit, self._totals, self._losses = commit, {}, {}
        self._changes, self._uses, self._result = commit["changes"], 0, None
        self._missing = list(range(self.count))
        self._elsewhere = {}
        self._sums = {layer: Tree(self.count) for layer in self.model.held}

    def _step(self, commit: dict[str, Any]) -> Step:
        """Returns the step that has just been made."""
        now = time.monotonic()
        seconds, self._began = now - self._began, now
        # Few steps take long, where ranks are lost.
        self._lengths.append(seconds)
        left = statistics.median(self._lengths) * (self.task.steps - self.step - 1)
        return Step(self.step, commit["loss"], commit["norm"], seconds, left)

    def _save(self, path: str) -> None:
        """Sends all layers to the lowest rank, which writes them."""
        assert self.plan is not None
        leader = self.mesh.leader
        for layer in range(self.plan.layers):
            if self.plan.holders(layer)[0] == self.rank:
                description, content = state.pack(self.model.modules[layer].state_dict())
                self.mesh.send(leader, f"save/{layer}", description, content)
        if leader == self.rank:
            whole = {}
            for layer in range(self.plan.layers):
                description, content = self.mesh.receive(self.plan.holders(layer)[0], f"save/{layer}")
                tensors = state.unpack(description, content)
                whole.update({f"{layer}.{name}": tensor for name, tensor in tensors.items()})
            torch.save(whole, f"{path}.part")
            os.replace(f"{path}.part", path)
        self._barrier(leader, self.mesh.members, "saved")
