"""What one rank does of a training: it agrees with the others how to go on, and makes steps."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Sequence

import torch

from . import commit, leader, recovery, status, transfer, whole
from . import plan as planner
from .ahead import Ahead
from .backup import Backups
from .batches import Batches
from .checkpoint import Checkpoints
from .errors import EvictedError, Interrupted, PlanError, TrainingError
from .evaluation import Evaluation
from .exchange import Exchange
from .iteration import Iteration
from .layer import Layer
from .mesh import Mesh
from .model import Model, digest
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
    reproducible: bool


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
        # What is copied for it.
        self._stripes: list[planner.Stripe] = []
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
        # For how long this rank has computed in this step.
        self._computing = 0.0
        self._backups = Backups(mesh)
        self._ahead = Ahead(mesh, model, self._make_step)
        self._ahead.plan_when_asked(self._plan_ahead)
        self._machines: dict[int, str] = {}
        self.status = status.Status(mesh.rank, task.steps, task.faults)
        mesh.status = self.status.line
        self.status.keep_telling(mesh)
        # The step of the last checkpoint.
        self._written = 0
        # It has come while others trained.
        self._came = mesh.joining

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
        lead, members = self.mesh.leader, self.mesh.members
        self.checkpoints.write_first(self.plan, self.step)
        self._barrier(lead, members, f"first {self.step}")
        self.checkpoints.write_rest(self.plan, self.step)
        self._barrier(lead, members, f"rest {self.step}")
        self.checkpoints.finish(self.step, self.start())

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
        def write() -> None:
            assert self.plan is not None
            whole.save(self.mesh, self.plan, self.model, path)
            self._barrier(self.mesh.leader, self.mesh.members, "saved")

        self._use(write)

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
                    self.checkpoints.rescue(self.step, self.start())
                raise

    # How to go on

    def _regroup(self) -> None:
        """Agrees with all ranks that live on how to go on."""
        began, first = time.monotonic(), self.plan is None
        for layer in self.model.held.values():
            layer.drop()
        lead, members = self._begin()
        decision = self._agree(lead, members)
        moved = self._act(decision)
        self._barrier(lead, members, "ready")
        self._adopt()
        self._barrier(lead, members, "begun")  # a rank that leaves may be needed until all have
        self._part(decision["leaving"], members)
        assert self.plan is not None
        self.model.release(self.plan.layers_of(self.rank))
        self._ahead.settle()
        self._together = True
        seconds = time.monotonic() - began
        self.status.regrouped(self.plan, decision, seconds, sum(each.bytes for each in self._stripes))
        if lead == self.rank:
            self._warn_of_machines()
        if self.plan.faults < self.task.faults:
            log.warning("rank %d: with ranks %s %d more may be lost at once", self.rank, members, self.plan.faults)
        if not first:
            log.warning(
                "rank %d: goes on with ranks %s after %.2f s; %d bytes of layers came here, "
                "%d microbatches are to compute",
                self.rank, self.mesh.members, seconds, moved, len(self._missing),
            )

    def _part(self, leaving: list[int], members: list[int]) -> None:
        """Goes on without ranks that leave. These end when the others do not count on them any longer."""
        self.mesh.part(leaving)
        stay = [rank for rank in members if rank not in leaving]
        if self.rank in stay:
            for rank in leaving:
                self.mesh.send(rank, "parted")
            return
        try:
            for rank in stay:
                self.mesh.receive(rank, "parted")
        except (Interrupted, EvictedError):
            pass  # they have lost one of them, and know that this one leaves
        raise SystemExit(_TERMINATED)

    def _warn_of_machines(self) -> None:
        """Says which machines have all copies of some layer, though more are wanted."""
        assert self.plan is not None
        machines = {rank: self._machines[rank] for rank in self.mesh.members}
        for few, layers in self.plan.on_too_few(machines, self.task.faults).items():
            log.warning("rank %d: all copies of the layers %s are on %s", self.rank, layers, ", ".join(few))

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
        self.mesh.leave_generation()
        lowest = self.mesh.lowest()
        if lowest == self.rank and self._came and self.plan is None:
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

    def _agree(self, lead: int, members: list[int]) -> dict[str, Any]:
        """Returns the leader's decision."""
        self.mesh.send(lead, "report", self._report().encode())
        if lead == self.rank:
            reports = {rank: recovery.Report.decode(self.mesh.receive(rank, "report")[0]) for rank in members}
            decision = leader.decide(self, reports)
            for rank in members:
                self.mesh.send(rank, "decision", decision)
        decision, _ = self.mesh.receive(lead, "decision")
        if decision["error"]:
            if self.step < decision["step"] and decision["commit"] is not None:
                self._apply(decision["commit"])
            raise leader.KINDS[decision["kind"]](decision["error"])
        return decision

    def _barrier(self, lead: int, members: list[int], name: str) -> None:
        """Waits until all members are here."""
        self.mesh.send(lead, name)
        if lead == self.rank:
            for rank in members:
                self.mesh.receive(rank, name)
            for rank in members:
                self.mesh.send(rank, f"all {name}")
        self.mesh.receive(lead, f"all {name}")

    def _report(self) -> recovery.Report:
        if self._next_step is None:
            self._backups.restore(self.step, self.model.held, self._sums, self._losses)
        self._ahead.take()
        taken = dict(self._ahead.taken)
        step = self.step if self._next_step is None else self._next_step
        held = sorted(
            number for number, layer in self.model.held.items() if layer.version == step and number not in taken
        )
        report = recovery.Report(step, self._commit, held, losses=self._losses, uses=self._uses, result=self._result)
        report.leaving, report.place, report.ahead = self.leaving, status.place(), taken
        report.parts = {layer: list(tree.parts) for layer, tree in self._sums.items()}
        if self.plan is not None:
            report.plan = self._planned, self.plan.hash
        else:
            # Later, layers may have been read from a checkpoint.
            self._digests = self._digests or [digest(module) for module in self.model.modules]
            report.start = {**self.start(), "layers": self._digests}
            report.found, report.restored = self.checkpoints.found(), self._next_step is not None
        return report

    def start(self) -> dict[str, Any]:
        """Returns what must be the same on all ranks, besides the model."""
        batches = self.task.batches
        common = {
            "reproducible": self.task.reproducible, "seed": batches.seed, "samples": len(batches.data),
            "batch": batches.batch, "microbatch": batches.microbatch, "steps": self.task.steps,
        }
        if not self.task.reproducible:
            return common
        return {
            **common, "PyTorch": torch.__version__, "device": self.model.settings.device.type,
            "threads": torch.get_num_threads(),
        }

    def plan_for(
        self, base: str, profile: str | None, machines: dict[int, str], leaving: list[int],
    ) -> planner.Plan:
        """Returns the plan for some ranks, with their machines. All compute it from the same input."""
        members, faults = sorted(machines), self.task.faults
        if not base:
            assert profile is not None
            return planner.make(profile, members, machines, faults, self.count, self.task.memory)
        if self.plan is None or self.plan.hash != base:
            self._adopt()
        if self.plan is None or self.plan.hash != base:
            raise PlanError(f"rank {self.rank} does not know the plan {base}")
        return planner.again(self.plan, members, machines, leaving, faults)

    # What all do when the leader has decided

    def _act(self, decision: dict[str, Any]) -> int:
        """Does what was decided, and returns how many bytes of layers came to this rank."""
        if self.plan is None and self._next is None and decision["base"]:  # it has come while the others train
            recovery.check_start({self.mesh.leader: decision["start"], self.rank: self.start()})
            text, ranks = decision["plan"]
            self.plan, self.step = planner.decode(text, tuple(ranks)), decision["step"]
            self._uses, self._result = decision["uses"], decision["result"]
            self.model.settings.scale.load(decision["scale"])
        self._machines = {rank: place["host"] for rank, place in decision["places"]}
        plan = self.plan_for(decision["base"], decision["profile"], self._machines, decision["leaving"])
        if plan.hash != decision["hash"]:
            raise PlanError(f"rank {self.rank} computes the plan {plan.hash}, and the leader {decision['hash']}")
        self.checkpoints.run = decision["run"]
        if self.step < decision["step"]:
            self._apply(decision["commit"])
        if self._uses < decision["uses"]:
            self._uses, self._result = decision["uses"], decision["result"]
        self._stripes = transfer.wanted(plan, dict(decision["held"]))
        transfer.send(self.mesh, self.model, self._stripes, plan.sizes)
        moved = transfer.receive(self.mesh, self.model, self._stripes, plan.sizes, self.step)
        self.model.hold(plan.layers_of(self.rank))
        if decision["checkpoint"] is not None:
            self.checkpoints.restore(plan, decision["checkpoint"], self.start())
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
            self._computing += self._compute(place, list(layers.values()))
        exchange = Exchange(self.mesh, self.plan, layers, self._sums, self._losses, self._elsewhere)
        totals = exchange.run()
        for layer, total in totals.items():
            self._sums[layer] = Tree(self.count)
            self._sums[layer].parts = {self._sums[layer].root(): total}
        if place is not None:
            exchange.share(self.model.shared, totals, place[0])
        self._totals = totals
        squares = [(layer, commit.square(layer, total, self.model.shared)) for layer, total in totals.items()]
        self._apply(commit.agree(
            self.mesh, self.step, self.count, squares, self._losses, self.leaving, self._computing,
            self.model.settings.scale,
        ))

    def _compute(self, place: tuple[int, int], layers: list[Layer]) -> float:
        """Computes this rank's part of the microbatches that are missing, and returns for how long."""
        assert self.plan is not None
        pipeline, position = place
        share = self.plan.shares(self._missing)[pipeline]
        iteration = Iteration(
            self.mesh, self.step, self.plan.pipelines[pipeline], position, layers, self.task.batches, self.task.loss,
            self._backups,
        )
        self._backups.begin(self.plan, self._machines, self.step, layers)
        return iteration.run(share, self._sums, self._losses)

    def _apply(self, end: dict[str, Any]) -> None:
        """Makes the step that all are ready for."""
        with self._ahead.still:
            held = self.model.held
            self._ahead.step_ends(self._totals, end)
            for layer, total in self._totals.items():
                self._make_step(held[layer], total, end)
            self.model.settings.scale.load(end["scale"])
        self._made.append(self._step(end))
        self.status.made(self.step, end)
        self.step += 1
        self._commit, self._totals, self._losses, self._computing = end, {}, {}, 0.0
        self._changes, self._uses, self._result = end["changes"], 0, None
        self._missing = list(range(self.count))
        self._elsewhere = {}
        self._sums = {layer: Tree(self.count) for layer in self.model.held}
        self._backups.forget(self.step)

    def _make_step(self, layer: Layer, total: torch.Tensor, end: dict[str, Any]) -> None:
        """Lets a layer make a step with its sum of gradients."""
        if end["overflows"]:
            layer.leave_out()
            return
        clip = self.task.clip
        scale = clip / (end["norm"] + 1e-6) if clip is not None and end["norm"] > clip else 1.0
        gradient = total / (self.model.settings.scale.value * self.count)
        layer.apply(gradient if scale == 1.0 else gradient * scale)

    def leave_soon(self) -> None:
        """Lets this rank end after the step, when others have its layers. A signal handler calls it."""
        self.leaving = True
        if self.plan is not None:
            self._ahead.leave()

    def _plan_ahead(self, leaving: set[int]) -> planner.Plan | None:
        """Returns the plan for after the step, if this rank leads and others come or leave."""
        plan, newcomers, members = self.plan, self.mesh.newcomers(), self.mesh.members
        if plan is None or self.mesh.leader != self.rank or not self._steps_next:
            return None
        goes = sorted(leaving & set(members))
        if not newcomers and not goes:
            return None
        machines = {rank: self._machines.get(rank, self.mesh.hosts.get(rank, "")) for rank in [*members, *newcomers]}
        return planner.again(plan, sorted(machines), machines, goes, self.task.faults)

    def _step(self, end: dict[str, Any]) -> Step:
        """Returns the step that has just been made."""
        now = time.monotonic()
        seconds, self._began = now - self._began, now
        left = self.status.left(seconds, self.task.steps - self.step - 1)
        return Step(self.step, end["loss"], end["norm"], seconds, left)
