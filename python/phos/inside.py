"""For programs that run as processes of a launch: which of them this one is, and which others there are.

The place of this process comes from its environment. The members of the launch come from the agent
of the node.
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.parse
from dataclasses import dataclass

from .connection import Json, UnixConnection
from .errors import NotFoundError, PhosError, UnavailableError


class NotInsideError(RuntimeError):
    """Means that this process belongs to no launch."""


def _variable(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise NotInsideError(f"{name} is not set: this process was not started by phos launch") from None


def launch_id() -> str:
    """Returns the id of the launch."""
    return _variable("PHOS_LAUNCH_ID")


def rank() -> int:
    """Returns the number of this process among all of its job."""
    return int(_variable("RANK"))


def world_size() -> int:
    """Returns how many processes its job has."""
    return int(_variable("WORLD_SIZE"))


def local_rank() -> int:
    """Returns the number of this process among those of its replica."""
    return int(_variable("LOCAL_RANK"))


def generation() -> int:
    """Returns how often the members of the launch had changed when this process was started."""
    return int(_variable("PHOS_GENERATION"))


def gpus() -> list[int]:
    """Returns the GPUs of this process, by their numbers on the node."""
    return [int(each) for each in _variable("PHOS_GPUS").split(",") if each]


def port(name: str) -> int:
    """Returns the number of a port that the process has asked for by name."""
    return int(_variable("PHOS_PORT_" + name.upper().replace("-", "_")))


@dataclass(frozen=True)
class Member:
    """A replica that has a place. ``rank`` is its number among those of its job, ``attempt`` grows with each start."""

    job: str
    replica: int
    rank: int
    attempt: int
    node: str
    address: str
    port: int


@dataclass(frozen=True)
class Members:
    """The members of a launch. The generation grows whenever they change."""

    generation: int
    members: tuple[Member, ...]


def members() -> Members:
    """Returns the members of this launch now.

    Raises:
        UnavailableError: if no controller leads the node at this time.
    """
    body = _ask("GET", "")
    return Members(body["generation"], tuple(Member(**each) for each in body["members"]))


def tell_training(status: bytes) -> None:
    """Tells the cluster how a training is: JSON, which ``phos pipeline`` and the page show.

    Raises:
        UnavailableError: if the agent of the node does not answer.
    """
    _ask("PUT", "/training", status)


def _ask(method: str, path: str, body: bytes | None = None) -> Json:
    """Asks the agent of this node about this launch."""
    agent = UnixConnection(_variable("PHOS_AGENT"), _ANSWER_TIME)
    try:
        agent.request(method, f"/v1/launches/{urllib.parse.quote(launch_id(), safe='')}{path}", body)
        reply = agent.getresponse()
        status = reply.status
        answer: Json = json.load(reply)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UnavailableError(f"the agent of this node does not answer: {error}") from error
    finally:
        agent.close()
    if status == http.client.SERVICE_UNAVAILABLE:
        raise UnavailableError(answer["error"])
    if status == http.client.NOT_FOUND:
        raise NotFoundError(answer["error"])
    if status != http.client.OK:
        raise PhosError(answer["error"])
    return answer


def wait_for_change(after: int, timeout: float | None = None) -> Members | None:
    """Waits until the generation is above a number, and returns the members then; None after a timeout.

    It asks once a second, and goes on while the agent or the controllers are away. In between it
    holds no connection, so that the program can be saved.
    """
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            now = members()
        except UnavailableError:
            now = None
        if now is not None and now.generation > after:
            return now
        left = _ASK_EVERY if end is None else min(_ASK_EVERY, end - time.monotonic())
        if left <= 0:
            return None
        time.sleep(left)


#: How long the agent may take to answer, and how often it is asked, in seconds.
_ANSWER_TIME = 20.0
_ASK_EVERY = 1.0
