"""For programs that run as processes of a launch: which of them this one is.

All of it comes from the environment.
"""

from __future__ import annotations

import os


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
