"""Trains a model in pipelines over several machines, and survives the loss of some of them.

Every rank runs the same program::

    import phos.pipeline as pp

    job = pp.Training(layers=my_layers, loss=loss, optimizer=lambda p: torch.optim.AdamW(p, lr=3e-4),
                      data=dataset, microbatch=4, batch=512, faults=2)
    for step in job:
        print(step.number, step.loss)
    job.save("model.pt")

The planner of phos cuts the model into pipelines of ranks. When ranks are lost the others plan
again, copy the layers that are missing from those that have them, compute what is missing of the
step, and go on. Losses and weights have the same bits as without the loss.

Read training.py first, then member.py, iteration.py, exchange.py and recovery.py.
"""

from .errors import EvictedError, ModelError, PlanError, StoppedError, TrainingError
from .huggingface import split
from .member import Step
from .training import Training

__all__ = ["EvictedError", "ModelError", "PlanError", "Step", "StoppedError", "Training", "TrainingError", "split"]
