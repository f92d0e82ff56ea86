"""How the leader, the lowest rank, decides how all go on: from what each rank reports."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Any

from . import recovery
from .errors import ModelError, PlanError, StoppedError
from .plan import Plan
from .profile import measure

if TYPE_CHECKING:
    from .member import Member

log = logging.getLogger("phos.pipeline")

# What a decision may say instead of how to go on.
KINDS = {"ModelError": ModelError, "PlanError": PlanError, "StoppedError": StoppedError}


def decide(member: Member, reports: dict[int, recovery.Report]) -> dict[str, Any]:
    """Returns how to go on, or why nothing goes on."""
    if not recovery.base(reports):
        for report in reports.values():
            report.step = 0  # what has read a checkpoint reads it again
    going = recovery.resume(reports, len(member.model.modules), member.count)
    decision = {
        "error": "", "step": going.step, "commit": going.commit, "uses": going.uses, "result": going.result,
    }
    try:
        return {**decision, **_go_on(member, reports)}
    except tuple(KINDS.values()) as why:
        return {**decision, "error": str(why), "kind": type(why).__name__}


def _go_on(member: Member, reports: dict[int, recovery.Report]) -> dict[str, Any]:
    profile, chosen, base = None, None, recovery.base(reports)
    if not base:
        recovery.check_start({rank: report.start for rank, report in reports.items() if report.start is not None})
        chosen = member.checkpoints.choose({rank: report.found for rank, report in reports.items()})
        if chosen is None and any(report.restored for report in reports.values()):
            raise PlanError("the ranks that could read the checkpoint are lost: start again when they are back")
        profile = measure(member.model, member.task.batches, member.task.loss)
    plan, leaving = _plan(member, base, profile, reports)
    if plan.lost:
        raise PlanError(f"no living rank has the layers {list(plan.lost)}: ranks {sorted(member.mesh.lost)} are lost")
    for rank in leaving:
        reports[rank].parts = {}  # it goes before they would be added
    going = recovery.resume(reports, plan.layers, member.count)
    return {
        "base": base, "run": member.checkpoints.run or secrets.token_hex(8), "profile": profile, "hash": plan.hash,
        "checkpoint": chosen,
        "held": [[rank, _held(report, going.step)] for rank, report in reports.items()],
        "keep": [[layer, [*parts.items()]] for layer, parts in going.keep.items()],
        "losses": [*going.losses.items()], "missing": going.missing, "leaving": leaving,
        "plan": None if member.plan is None else [member.plan.text, member.plan.ranks],
        "start": member.start(),
        "scale": going.commit["scale"] if going.commit is not None else member.model.settings.scale.state(),
        "places": [[rank, report.place] for rank, report in reports.items()],
        "lost": sorted(member.mesh.lost.items()),
    }


def _held(report: recovery.Report, step: int) -> list[int]:
    """Returns the layers that a rank has, or will have when it has made the step before.

    Of those that were copied ahead only the ones that have made it count: the others will not.
    """
    return sorted({*report.held, *(layer for layer, version in report.ahead.items() if version == step)})


def _plan(
    member: Member, base: str, profile: str | None, reports: dict[int, recovery.Report],
) -> tuple[Plan, list[int]]:
    """Returns the plan, and which ranks leave: none, if the others are too few without them."""
    members = sorted(reports)
    machines = {rank: reports[rank].place["host"] for rank in members}
    leaving = [rank for rank in members if reports[rank].leaving]
    if leaving == members:
        raise StoppedError("all ranks were asked to end")
    if leaving and base:
        try:
            return member.plan_for(base, profile, machines, leaving), leaving
        except PlanError as why:
            log.warning("rank %d: the ranks %s cannot leave: %s", member.rank, leaving, why)
    return member.plan_for(base, profile, machines, []), []
