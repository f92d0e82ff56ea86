"""The client of a cluster."""

from __future__ import annotations

import base64
import inspect
import json
import os
import secrets
from collections.abc import Iterator, Sequence

from .code import pack
from .connection import PATIENCE, Connection, Endpoints, check_address, find
from .describe import describe
from .errors import PhosError, SchedulingError, UnavailableError
from .launch import (
    Event, ExecResult, Launch, LaunchDetails, LogLine, Node, ProcessUsage, Quota, Why, read_event, read_launch,
    read_lines, read_node, read_quota, read_usage,
)
from .model import CreateLaunchRequest, LocalDir

# How the reason begins of a launch that was refused because the cluster was busy.
_NO_ROOM = "no room: "

# The most input of a command, and the most of one message.
_MAX_INPUT = 256 << 10
_PART = 32 << 10

# The most of a calling script that is kept.
_MAX_SCRIPT = 256 << 10


class Client:
    """Speaks to a cluster.

    Without arguments it is the cluster that the command ``phos`` would use: ``PHOS_CLUSTER``, a
    controller on this machine, or ``~/.config/phos/cluster.json``.

    Args:
        base_url: ``HOST:PORT`` of a controller, or the path of its socket.
        api_key: another token than that of cluster.json.
        patience: for how many seconds a controller is looked for, while none answers.
    """

    def __init__(self, base_url: str | None = None, api_key: str | None = None, *, patience: float = PATIENCE) -> None:
        environment = dict(os.environ)
        if base_url is not None:
            if not base_url.startswith(("/", "unix:")):
                check_address(base_url)
            environment["PHOS_CLUSTER"] = base_url
        found = find(environment)
        if api_key is not None:
            found = Endpoints(found.addresses, found.cluster, found.ca, api_key)
        self._connection = Connection(found, patience)

    # ---- launches

    def create_launch(self, create_launch_request: CreateLaunchRequest) -> Launch:
        """Creates a launch, and returns it.

        One without a queueing behaviour is returned when it has its places.

        Raises:
            InvalidLaunchError: the description is wrong; the text names the fields.
            SchedulingError: the cluster has no room now and the launch is not to wait, or never will.
        """
        spec = describe(create_launch_request)
        request = {
            "spec": _base64(json.dumps(spec).encode()),
            "script": _base64(_calling_script()),
            "request": secrets.token_hex(16),
        }
        if isinstance(create_launch_request.deployment, LocalDir):
            request["code"] = self._connection.send_code(pack(create_launch_request.deployment))
        try:
            reply = self._connection.call("Launches/Create", request)
        except PhosError as error:
            if error.code == "FAILED_PRECONDITION":
                raise SchedulingError("the cluster cannot run the launch", str(error)) from None
            raise
        return self._placed(reply["launches"][0], waits=spec.get("queue") == "wait")

    def _placed(self, created: dict, waits: bool) -> Launch:
        """Returns a new launch when it has its places, if it does not want to wait for them."""
        launch = read_launch(created)
        if not waits and launch.phase in ("queued", "waiting"):
            launch = next(l for l in self.watch(launch.id) if l.phase not in ("queued", "waiting"))
        if launch.ended and launch.reason.startswith(_NO_ROOM):
            log = launch.reason.removeprefix(_NO_ROOM).replace("; ", "\n")
            raise SchedulingError("failed to schedule launch: the cluster is busy", log)
        return launch

    def get_launch(self, launch_id: str | int) -> Launch:
        """Returns a launch, by its id, its number, or the name of the newest one that is called so."""
        return read_launch(self._connection.call("Launches/Get", {"id": str(launch_id)})["launch"])

    def get_launch_details(self, launch_id: str | int) -> LaunchDetails:
        """Returns a launch with its description and its log."""
        reply = self._connection.call("Launches/Get", {"id": str(launch_id)})
        launch = read_launch(reply["launch"])
        return LaunchDetails(
            launch, json.loads(base64.b64decode(reply["spec"])),
            base64.b64decode(reply["script"]).decode("utf-8", "replace"), tuple(self.logs(launch.id)),
        )

    def list_launches(self, *, ended: bool = True, limit: int = 0) -> list[Launch]:
        """Returns launches, the newest first; limit 0 is no limit."""
        reply = self._connection.call("Launches/List", {"ended": ended, "limit": limit})
        return [read_launch(each) for each in reply["launches"]]

    def stop_launch(self, launch_id: str | int) -> None:
        """Ends a launch. Its processes get SIGTERM, and SIGKILL after a grace."""
        self._act("Stop", launch_id)

    def suspend_launch(self, launch_id: str | int) -> Launch:
        """Saves a launch and gives its places back, until it is resumed."""
        return self._act("Suspend", launch_id)

    def checkpoint_launch(self, launch_id: str | int) -> Launch:
        """Has a launch saved that runs on. The event ``saved`` says that it was."""
        return self._act("Checkpoint", launch_id)

    def migrate_launch(self, launch_id: str | int, to: str = "any") -> Launch:
        """Moves a launch to a node while it runs. The events say how far it is, up to ``moved``."""
        request = {"id": str(launch_id), "to": to}
        return read_launch(self._connection.call("Launches/Migrate", request, harmless=False)["launch"])

    def resume_launch(self, launch_id: str | int) -> Launch:
        """Queues a suspended launch."""
        return self._act("Resume", launch_id)

    def rerun_launch(self, launch_id: str | int) -> Launch:
        """Creates a launch with the description and the code of one that has ended."""
        reply = self._connection.call("Launches/Rerun", {"id": str(launch_id)}, harmless=False)
        return read_launch(reply["launches"][0])

    def _act(self, verb: str, launch_id: str | int) -> Launch:
        return read_launch(self._connection.call(f"Launches/{verb}", {"id": str(launch_id)}, harmless=False)["launch"])

    # ---- what becomes of them

    def watch(self, launch_id: str | int) -> Iterator[Launch]:
        """Yields a launch as it is, and again whenever it has changed, until it has ended.

        When the controller goes away, it goes on with the next one.
        """
        while True:
            try:
                for reply in self._connection.stream("Launches/Watch", {"ids": [str(launch_id)], "ended": True}):
                    for each in reply["launches"]:
                        launch = read_launch(each)
                        yield launch
                        if launch.ended:
                            return
                    if not reply["launches"] and reply["complete"]:
                        self.get_launch(launch_id)  # it says that there is none
            except UnavailableError:
                self.get_launch(launch_id)  # it waits for the next controller, or says that there is none

    def wait(self, launch_id: str | int) -> Launch:
        """Waits until a launch has ended, and returns it. ``exit_status`` is 0 if it has completed."""
        for launch in self.watch(launch_id):
            if launch.ended:
                return launch
        raise UnavailableError("the cluster has ended the stream", "UNAVAILABLE")

    def logs(self, what: str | int, *, follow: bool = False, tail: int = 0) -> Iterator[LogLine]:
        """Yields what the processes of a launch have printed, in the order of time.

        Args:
            what: a launch, or some of its processes: ``ID/job``, ``ID/job.replica``,
                ``ID/job.replica.process``.
            follow: go on until the launch has ended.
            tail: only the last lines of each process; 0: all.
        """
        for reply in self._connection.stream("Launches/Logs", {"what": str(what), "follow": follow, "tail": tail}):
            yield from read_lines(reply)

    def events(self, launch_id: str | int | None = None, *, follow: bool = False) -> Iterator[Event]:
        """Yields what has happened to a launch, or to all that the caller may see."""
        launch = "" if launch_id is None else str(launch_id)
        for reply in self._connection.stream("Launches/Events", {"launch": launch, "follow": follow}):
            yield read_event(reply)

    def why(self, launch_id: str | int) -> Why:
        """Says why a launch waits."""
        reply = self._connection.call("Launches/Why", {"id": str(launch_id)})
        return Why(read_launch(reply["launch"]), tuple(reply["reasons"]), int(reply["estimate_unix_ms"]))

    def usage(self, what: str | int = "") -> list[ProcessUsage]:
        """Returns what processes that run use now: of a launch, of some of its processes, or of all launches."""
        return [read_usage(each) for each in self._connection.call("Launches/Usage", {"what": str(what)})["processes"]]

    def exec(self, what: str | int, command: Sequence[str], *, input: bytes = b"") -> ExecResult:
        """Runs a command beside a process of a launch, without a shell, and returns how it has ended.

        It is killed when the process ends, and when the connection to the cluster does.

        Args:
            what: a launch with one process, or one of its processes: ``ID/job.replica.process``.
            command: the program with its arguments.
            input: what the command reads; at most 256 KiB.

        Raises:
            InvalidLaunchError: ``what`` means several processes; the text names them.
        """
        if len(input) > _MAX_INPUT:
            raise ValueError(f"the input has {len(input)} bytes: at most {_MAX_INPUT} can be sent")
        self.get_launch(str(what).partition("/")[0])  # finds the leader: a command is not run again
        words = [_base64(os.fsencode(word)) for word in command]
        requests: list[dict] = [{"start": {"what": str(what), "command": words}}]
        requests += [{"input": _base64(input[at:at + _PART])} for at in range(0, len(input), _PART)]
        printed: dict[str, list[bytes]] = {"output": [], "error_output": []}
        for reply in self._connection.stream("Launches/Exec", *requests, {"input_ended": True}, harmless=False):
            for name, parts in printed.items():
                if name in reply:
                    parts.append(base64.b64decode(reply[name]))
            if "end" in reply:
                end = reply["end"]
                status = 128 + end["signal"] if end["signal"] else end["code"]
                return ExecResult(status, b"".join(printed["output"]), b"".join(printed["error_output"]), end["error"])
        raise UnavailableError("the cluster has ended the stream; the command was killed, if it ran", "UNAVAILABLE")

    # ---- the cluster

    def list_nodes(self) -> list[Node]:
        """Returns the nodes of the cluster."""
        return [read_node(each) for each in self._connection.call("Cluster/ListNodes", {})["nodes"]]

    def list_quotas(self) -> list[Quota]:
        """Returns the quotas and what is used of them: the caller's own, or for an administrator all."""
        return [read_quota(each) for each in self._connection.call("Cluster/ListQuotas", {})["quotas"]]

    def set_quota(
        self, account: str, *, gpus: int | None = None, launches: int | None = None, code_bytes: int | None = None
    ) -> Quota:
        """Changes the limits of an account that are named, and leaves the others.

        Args:
            account: the account; empty: the default, for accounts without limits of their own.
            gpus: at most so many GPUs at once; 0 allows none, -1 has no limit. So are the others.
            launches: at most so many launches that wait.
            code_bytes: at most so many bytes of code that the cluster keeps.
        """
        given = {"gpus": gpus, "launches": launches, "code_bytes": code_bytes}
        limits = {name: value for name, value in given.items() if value is not None}
        return read_quota(self._connection.call("Cluster/SetQuota", {"account": account, "limits": limits}))

    def remove_quota(self, account: str) -> None:
        """Takes the limits away that an account has of its own; empty: those of the default."""
        self._connection.call("Cluster/RemoveQuota", {"account": account}, harmless=False)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _calling_script() -> bytes:
    """Returns the text of the script that creates a launch, for people; empty if there is none."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    try:
        if frame is None:
            return b""
        with open(frame.f_code.co_filename, "rb") as file:
            return file.read(_MAX_SCRIPT)
    except OSError:
        return b""
    finally:
        del frame
