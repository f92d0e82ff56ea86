"""The errors of training in pipelines."""

from __future__ import annotations

from ..errors import PhosError


class TrainingError(PhosError):
    """Is the base of all errors of training in pipelines."""


class ModelError(TrainingError, ValueError):
    """Means that a model, its data or the numbers of a training cannot be trained as they are."""


class PlanError(TrainingError):
    """Means that the planner has no plan: too few nodes are left, or no node has some layer."""


class StoppedError(TrainingError):
    """Means that all ranks were asked to end, by SIGTERM."""


class EvictedError(TrainingError):
    """Means that the others go on without this process: it was silent for too long."""


class Interrupted(Exception):
    """Means that the members have changed, so that what was begun with them has no end.

    It is raised and caught in this package alone.
    """
