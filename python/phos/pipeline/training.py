"""Training: the loop over steps, on all ranks at once, whatever happens to some of them."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from typing import Any, Callable, Iterable, Iterator, Sequence

import torch
from torch import nn

from . import rendezvous, whole
from .batches import Batches
from .errors import ModelError
from .layer import Settings
from .member import Member, Step, Task
from .mesh import PATIENCE
from .model import Model
from .profile import measure_only
from .scale import Scale


class Training:
    """Trains a model in pipelines over all ranks. Iterate over it: each turn is a step.

    Args:
        layers: the model, cut where it may be cut: a list of modules or an nn.Sequential. A layer
            gets what the one before returns: a tensor, or several as a tuple. split makes them of a
            model of Hugging Face's transformers.
        loss: called with the last layer's output and the targets; returns a mean over the samples.
        optimizer: called with the parameters of a layer; returns their optimizer.
        data: the samples, each a pair of input and target, by number.
        microbatch: how many samples are computed at once.
        batch: how many samples a step has.
        faults: how many machines may be lost at once without losing a layer, with all their ranks.
        epochs: how often each sample is used.
        steps: the number of steps, instead of epochs.
        scheduler: called with an optimizer; returns a learning rate schedule that is moved each step.
        clip: the largest norm of the gradient of the whole model.
        precision: the type that autocast computes in, such as torch.bfloat16.
        loss_scale: by what the loss is multiplied at first, a power of two: with float16 65536 unless
            it is given, otherwise nothing. It is halved when gradients overflow, and that step left out.
        recompute: computes each layer's forward pass again in the backward pass, to keep less.
        shuffle: puts the samples in another order in each epoch.
        seed: of the order of samples, and of what layers draw at random.
        memory: bytes of each rank that a plan may use; 0 for no limit.
        device: where layers are computed; by default the GPU of LOCAL_RANK, if there is one.
        collate: makes a microbatch of samples, as in a DataLoader.
        patience: after how many seconds without a word a rank is lost.
        reproducible: the same bits on any number of ranks, whatever is lost. It needs ranks with the
            same PyTorch, number of threads and kind of device; without it these may differ.
        resume: a directory of checkpoints. The training goes on with the newest one, on any number
            of ranks; without one it begins.
    """

    def __init__(
        self, layers: Iterable[nn.Module], loss: Callable[[Any, Any], torch.Tensor],
        optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer], data: Sequence[Any], *, microbatch: int,
        batch: int, faults: int = 0, epochs: int = 1, steps: int | None = None,
        scheduler: Callable[[torch.optim.Optimizer], Any] | None = None, clip: float | None = None,
        precision: torch.dtype | None = None, loss_scale: float | None = None, recompute: bool = False, shuffle: bool = True, seed: int = 0,
        memory: int = 0, device: torch.device | str | None = None,
        collate: Callable[[list[Any]], Any] | None = None, patience: float = PATIENCE, reproducible: bool = True,
        resume: str | os.PathLike[str] | None = None,
    ) -> None:
        batches = Batches(data, microbatch, batch, seed, shuffle, collate)
        scale = Scale.of(loss_scale, precision)
        settings = Settings(_device(device), seed, precision, recompute, optimizer, scheduler, scale)
        self._model = Model(layers, settings)
        self.steps = batches.steps * epochs if steps is None else steps
        measure_only(self._model, batches, loss)
        if reproducible:
            _be_deterministic(settings.device)
        task = Task(batches, loss, self.steps, clip, faults, memory, reproducible)
        self._member = Member(
            rendezvous.meet(patience), self._model, task, None if resume is None else os.fspath(resume)
        )
        atexit.register(self._member.leave)
        self._leave_when_asked()

    def _leave_when_asked(self) -> None:
        """Lets SIGTERM end this process after the step, when others have its layers; again: at once."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
            return  # the program has its own way to end

        def leave(number: int, frame: object) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._member.leave_soon()

        signal.signal(signal.SIGTERM, leave)

    @property
    def rank(self) -> int:
        """The number of this process."""
        return self._member.rank

    @property
    def step(self) -> int:
        """The number of steps that were made."""
        return self._member.step

    def __iter__(self) -> Iterator[Step]:
        yield from self._member.train()

    def evaluate(self, data: Sequence[Any], function: Callable[[Any, Any], torch.Tensor] | None = None) -> float:
        """Returns the mean of the loss over other data, with layers in their mode for evaluation.

        Args:
            data: the samples, each a pair of input and target, by number.
            function: called with the last layer's output and the targets instead of the loss;
                returns a mean over the samples, such as the share of right answers.
        """
        if not len(data):
            raise ModelError("there are no data to evaluate")
        return self._member.evaluate(data, function)

    def checkpoint(self, path: str | os.PathLike[str], every: int = 0, keep: int = 2) -> None:
        """Writes the state of all layers into a directory, each rank its own: now, or after steps.

        The directory may be the same on all machines, or each machine's own. If the training cannot
        go on without more ranks, what the others have is written there, too.

        Args:
            path: the directory.
            every: after how many steps; 0 for now.
            keep: how many checkpoints stay.
        """
        self._member.checkpoints.configure(os.fspath(path), every, keep)
        if not every:
            self._member.checkpoint()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the state dict of the whole model, as PyTorch does, on the lowest rank."""
        self._member.save(os.fspath(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Reads the parameters of the whole model, before the first step."""
        if self._member.plan is not None:
            raise ModelError("parameters are loaded before the first step")
        whole.load(self._model, os.fspath(path))


def _be_deterministic(device: torch.device) -> None:
    """Lets PyTorch compute the same bits each time; on CPUs it does by itself."""
    if device.type != "cuda":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it starts
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False


def _device(device: torch.device | str | None) -> torch.device:
    """Returns the device on which layers are computed."""
    if device is not None:
        return torch.device(device)
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    return torch.device("cpu")
