"""Copies layers to ranks that will have them, while the training goes on.

When ranks have come or are to leave, the leader plans at once for the time after the step. While the
step is computed, those that have layers send them to those that will. At its end these get the
gradients, too, and make the step themselves. What is not complete by then is copied between the
steps.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable

import torch

from . import state, transfer
from .errors import PlanError, TrainingError
from .layer import Layer
from .mesh import Mesh
from .model import Model
from .plan import Plan, Stripe
from .state import as_bytes

# How long the leader waits for more ranks that come or go before it plans.
_TOGETHER = 0.1
# How long a rank waits for the rest of what others have sent it before the step was over.
_REST = 5.0


# A plan ahead: the generation that it is made in, and its number there.
_Id = tuple[int, int]


@dataclass(frozen=True)
class _Forecast:
    """What will be copied after the step, as the leader expects it."""

    id: _Id
    stripes: list[Stripe]
    sizes: list[int]

    def parts(self, layer: int, rank: int) -> list[Stripe]:
        """Returns what a rank gets of a layer."""
        return [each for each in self.stripes if each.layer == layer and each.target == rank]


@dataclass
class _Coming:
    """A layer that is on its way here, of one version."""

    version: int
    state: dict[int, tuple[Any, torch.Tensor | None]] = field(default_factory=dict)
    total: dict[int, torch.Tensor | None] = field(default_factory=dict)
    # How the step ended.
    end: dict[str, Any] | None = None


class Ahead:
    """The part of one rank in what is copied ahead of a change."""

    def __init__(self, mesh: Mesh, model: Model, make_step: Callable[[Layer, torch.Tensor, dict[str, Any]], None]) -> None:
        self.mesh, self.model, self.make_step = mesh, model, make_step
        # No layer changes while it is read.
        self.still = threading.Lock()
        self._lock = threading.Lock()
        # Ranks that will leave after the step, as the leader knows them.
        self._leaving: set[int] = set()
        self._news = threading.Event()
        # The newest forecast, and what this rank has sent by it, with the version.
        self._forecast: _Forecast | None = None
        self._sent: list[tuple[_Forecast, Stripe, int]] = []
        self._coming: dict[tuple[_Id, int], _Coming] = {}
        # The versions of layers that have come, until the ranks have agreed.
        self.taken: dict[int, int] = {}
        mesh.handlers.update(leaving=self._on_leaving, ahead=self._on_plan, state=self._on_state, total=self._on_total)
        mesh.on_join = self._news.set

    # The leader

    def plan_when_asked(self, ask: Callable[[set[int]], Plan | None]) -> None:
        """Begins to plan in the background when ranks have come or are to leave.

        Args:
            ask: returns the plan without some ranks, if this rank leads and trains.
        """
        threading.Thread(target=self._keep_planning, args=(ask,), daemon=True, name="ahead").start()

    def leave(self) -> None:
        """Tells the leader that this rank will leave. A signal handler calls it."""
        self.mesh.post(self.mesh.leader, "leaving")

    def _on_leaving(self, rank: int, meta: Any, body: torch.Tensor | None) -> None:
        self._leaving.add(rank)
        self._news.set()

    def _keep_planning(self, ask: Callable[[set[int]], Plan | None]) -> None:
        for number in itertools.count():
            self._news.wait()
            time.sleep(_TOGETHER)
            self._news.clear()
            generation = self.mesh.generation
            try:
                plan = ask(set(self._leaving))
            except PlanError:
                continue  # the ranks agree on it, and say so, after the step
            if plan is None or not plan.stripes:
                continue
            stripes = [[each.layer, each.source, each.target, each.offset, each.bytes] for each in plan.stripes]
            forecast = {"id": [generation, number], "stripes": stripes, "sizes": list(plan.sizes)}
            for rank in {each.source for each in plan.stripes} | {each.target for each in plan.stripes}:
                if rank in self.mesh.alive():
                    self.mesh.post(rank, "ahead", forecast)

    # Those that have the layers

    def _on_plan(self, rank: int, meta: Any, body: torch.Tensor | None) -> None:
        generation, number = meta["id"]
        if generation != self.mesh.generation and not self.mesh.joining:
            return  # the ranks have agreed since
        forecast = _Forecast((generation, number), [Stripe(*each) for each in meta["stripes"]], meta["sizes"])
        with self._lock:
            self._forecast = forecast
        if any(each.source == self.mesh.rank for each in forecast.stripes):
            threading.Thread(target=self._send, args=(forecast,), daemon=True, name="send ahead").start()

    def _send(self, forecast: _Forecast) -> None:
        own = [each for each in forecast.stripes if each.source == self.mesh.rank and each.target in self.mesh.alive()]
        for layer in sorted({each.layer for each in own}):
            with self.still:
                held = self.model.held.get(layer)
                if held is None or self.mesh.generation != forecast.id[0]:
                    return
                version = held.version
                description, content = state.pack(held.state())
                parts = [each for each in own if each.layer == layer]
                self._sent += [(forecast, each, version) for each in parts]
            digest = state.checksum(content)
            for each in parts:
                meta, part = transfer.part_of(each, description, content, digest, forecast.sizes)
                self.mesh.post(each.target, "state", {**meta, **_key(forecast, each, version)}, part)

    def step_ends(self, totals: dict[int, torch.Tensor], end: dict[str, Any]) -> None:
        """Sends the gradients of layers that were sent in this step. Still is held, and no layer has changed."""
        for forecast, each, version in self._sent:
            held = self.model.held.get(each.layer)
            if (
                held is not None and held.version == version and each.layer in totals
                and self.mesh.generation == forecast.id[0] and each.target in self.mesh.alive()
            ):
                total = totals[each.layer]
                part = as_bytes(total[transfer.place_of(each, total.numel(), forecast.sizes)].clone())
                self.mesh.post(each.target, "total", {**_key(forecast, each, version), "end": end}, part)
        self._sent = []

    # Those that get them

    def _of(self, meta: Any) -> _Coming:
        """Returns what is known of a layer. What is of an older version is forgotten."""
        generation, number = meta["id"]
        key, version = ((generation, number), meta["layer"]), meta["version"]
        coming = self._coming.get(key)
        if coming is None or coming.version < version:
            coming = self._coming[key] = _Coming(version)
        return coming if coming.version == version else _Coming(version)

    def _on_state(self, rank: int, meta: Any, body: torch.Tensor | None) -> None:
        with self._lock:
            self._of(meta).state[meta["offset"]] = meta, body

    def _on_total(self, rank: int, meta: Any, body: torch.Tensor | None) -> None:
        with self._lock:
            coming = self._of(meta)
            coming.total[meta["offset"]] = body
            coming.end = meta["end"]

    def take(self) -> None:
        """Makes layers ready here that have come whole, and that this rank does not have."""
        forecast = self._await_rest()
        with self._lock:
            coming, self._coming = self._coming, {}
        self._leaving.clear()
        if forecast is None:
            return
        scale = self.model.settings.scale
        before = scale.state()
        for (made, layer), each in coming.items():
            if made == forecast.id and layer not in self.model.held:
                self._take(layer, forecast, each)
        scale.load(before)  # layers bring theirs

    def _await_rest(self) -> _Forecast | None:
        """Waits until all is here that others have sent before they left the step."""
        end = time.monotonic() + _REST
        while time.monotonic() < end:
            with self._lock:
                forecast = self._forecast
            if forecast is None or all(
                self.mesh.has_left(each.source, forecast.id[0])
                for each in forecast.stripes if each.target == self.mesh.rank
            ):
                return forecast
            time.sleep(0.005)
        return forecast

    def _take(self, layer: int, forecast: _Forecast, coming: _Coming) -> None:
        parts = forecast.parts(layer, self.mesh.rank)
        if not parts or any(each.offset not in coming.state for each in parts):
            return
        try:
            messages = [coming.state[each.offset] for each in parts]
            content, description = transfer.assemble(parts, messages, forecast.sizes)
        except TrainingError:
            return  # it is copied again, and checked again
        self.model.hold([layer])
        held = self.model.held[layer]
        held.load(state.unpack(description, content), coming.version)
        if coming.end is not None and all(each.offset in coming.total for each in parts):
            self.make_step(held, _whole(held, parts, coming.total, forecast.sizes), coming.end)
        self.taken[layer] = held.version

    def settle(self) -> None:
        """Forgets all, when the ranks have agreed."""
        with self.still, self._lock:
            self._forecast, self._sent, self._coming, self.taken = None, [], {}, {}


def _whole(
    held: Layer, parts: list[Stripe], bodies: dict[int, torch.Tensor | None], sizes: list[int],
) -> torch.Tensor:
    """Returns the gradients of a layer from its stripes."""
    total = torch.empty(held.size, dtype=held.kind, device=held.settings.device)
    for stripe in parts:
        body = bodies[stripe.offset]
        if body is not None:
            total[transfer.place_of(stripe, held.size, sizes)] = body.view(held.kind).to(total.device)
    return total


def _key(forecast: _Forecast, stripe: Stripe, version: int) -> dict[str, Any]:
    return {"id": list(forecast.id), "layer": stripe.layer, "offset": stripe.offset, "version": version}
