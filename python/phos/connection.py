"""Reaches a cluster: where it is, as which caller, and how requests get there.

A cluster is found as the command phos finds it: by ``PHOS_CLUSTER``, by the socket of a controller
on this machine, or by ``~/.config/phos/cluster.json``. Requests are JSON by HTTP, on the addresses on
which controllers also speak gRPC.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import ssl
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .errors import NoClusterError, PhosError, UnavailableError, of_code

Json = dict[str, Any]

#: Where a controller of this machine listens.
SOCKET = "/run/phos/controller.sock"

#: The variable with another socket, or HOST:PORT.
VARIABLE = "PHOS_CLUSTER"

#: For how long a controller that leads is looked for, in seconds.
PATIENCE = 30.0

#: What sending raises if the controller has answered before it has read all.
_REFUSED_EARLY = (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError)


@dataclass(frozen=True)
class Endpoints:
    """Says where a cluster is, and as which caller it is reached."""

    addresses: tuple[str, ...]
    cluster: str = ""
    ca: str = ""
    token: str = field(default="", repr=False)


def find(environment: Mapping[str, str] = os.environ, controller: str = SOCKET) -> Endpoints:
    """Returns the cluster that the environment means, or raises NoClusterError."""
    named = environment.get(VARIABLE, "").removeprefix("unix:")
    saved = _saved(environment)
    if named.startswith("/"):
        return replace(saved or Endpoints(()), addresses=(named,))
    if named:
        check_address(named)
        if saved is None:
            raise NoClusterError(
                f"{VARIABLE} is {named}, but there is no token for it: an administrator makes one with phos user add"
            )
        return replace(saved, addresses=(named,))
    if _is_socket(controller):
        return replace(saved or Endpoints(()), addresses=(controller,))
    if saved is None:
        raise NoClusterError(
            f"no controller listens at {controller}, and there is no file cluster.json: "
            "pos_cli --start --target cluster makes this machine a cluster"
        )
    return saved


def check_address(text: str) -> None:
    """Raises NoClusterError for what is no HOST:PORT."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal():
        raise NoClusterError(f"the address of the cluster is {text!r}: want HOST:PORT, or the path of a socket")


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def _config_file(environment: Mapping[str, str]) -> str | None:
    folder = environment.get("XDG_CONFIG_HOME", "")
    if not folder.startswith("/"):
        home = environment.get("HOME", "")
        if not home.startswith("/"):
            return None
        folder = os.path.join(home, ".config")
    return os.path.join(folder, "phos", "cluster.json")


def _saved(environment: Mapping[str, str]) -> Endpoints | None:
    """Returns what the user's file has; None: there is none."""
    path = _config_file(environment)
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise NoClusterError(f"{path} holds a token, and others may read it; run: chmod 600 {path}")
            record = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise NoClusterError(f"read {path}: {error}") from error
    if record.get("version") != 1:
        raise NoClusterError(f"{path} has version {record.get('version')!r}, and this package knows 1: upgrade it")
    try:
        return Endpoints(tuple(record["addresses"]), record["cluster"], record["ca"], record["token"])
    except (KeyError, TypeError) as error:
        raise NoClusterError(f"{path} is damaged: {error!r}; log in again") from error


class UnixConnection(http.client.HTTPConnection):
    """Speaks HTTP over a socket of this machine."""

    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _TLSConnection(http.client.HTTPConnection):
    """Speaks HTTP over TLS to a controller, which is known by the CA of its cluster, not by its address."""

    def __init__(self, address: str, context: ssl.SSLContext, name: str, timeout: float | None) -> None:
        host, _, port = address.rpartition(":")
        super().__init__(host.strip("[]"), int(port), timeout=timeout)
        self._context, self._name = context, name

    def connect(self) -> None:
        super().connect()
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self._name)


# No answer is waited for less long than this: without patience, a request is made once.
_SHORTEST = 5.0


class Connection:
    """Makes requests. Each has a connection of its own, so threads may share one."""

    def __init__(self, endpoints: Endpoints, patience: float = PATIENCE) -> None:
        self._endpoints = endpoints
        self._patience = patience
        self._current = endpoints.addresses[0]

    def call(self, method: str, request: Json, *, harmless: bool = True) -> Json:
        """Makes a request, and returns its reply. One that may have been carried out is repeated only if
        that is harmless."""
        body = json.dumps(request).encode()
        return self._seek(lambda address: self._once(address, f"/v1/{method}", body, "application/json"), harmless)

    def send_code(self, content: bytes) -> Json:
        """Keeps the content of a zip file in the cluster, and returns its name."""
        self.call("Launches/FindCode", {})  # so that nothing is sent to a cluster that does not know the caller
        return self._seek(lambda address: self._once(address, "/v1/code", content, "application/zip"), True)

    def stream(self, method: str, *requests: Json, harmless: bool = True) -> Iterator[Json]:
        """Makes a request with any number of replies. Until the first one, a leader is looked for. One that may
        have been carried out is repeated only if that is harmless."""
        body = b"\n".join(json.dumps(each).encode() for each in requests)
        connection, response = self._seek(lambda address: self._open(address, f"/v1/{method}", body, None), harmless)
        try:
            while line := response.readline():
                reply = json.loads(line)
                if "error" in reply and "code" in reply:
                    raise of_code(reply["code"], reply["error"])
                yield reply
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise UnavailableError(f"{self._current}: {error}", "UNAVAILABLE") from error
        finally:
            connection.close()

    def _seek(self, attempt: Callable[[str], Any], harmless: bool) -> Any:
        """Calls a function with an address until a controller that leads has answered."""
        deadline, wait = time.monotonic() + self._patience, 0.05
        while True:
            address = self._current
            try:
                return attempt(address)
            except _OtherLeader as other:
                error: PhosError = UnavailableError(str(other), "UNAVAILABLE")
                moved = self._follow(other.address)
            except _MaybeSent as maybe:
                error, moved = UnavailableError(str(maybe), "UNAVAILABLE"), False
                if maybe.sent and not harmless:
                    raise error from maybe
                self._next(address)
            if time.monotonic() + wait > deadline:
                raise error
            time.sleep(0 if moved else wait)
            wait = min(2 * wait, 2.0)

    def _follow(self, leader: str) -> bool:
        """Goes to the address of the leader, if it can be reached from here."""
        if leader and leader != self._current and (self._endpoints.ca or leader.startswith("/")):
            self._current = leader
            return True
        self._next(self._current)
        return False

    def _next(self, address: str) -> None:
        known = self._endpoints.addresses
        self._current = known[(known.index(address) + 1) % len(known)] if address in known else known[0]

    def _connect(self, address: str, timeout: float | None) -> http.client.HTTPConnection:
        if address.startswith("/"):
            return UnixConnection(address, timeout)
        if not self._endpoints.ca:
            raise NoClusterError(f"{address} is on the network, and there is no token for it: see phos user add")
        context = ssl.create_default_context(cadata=self._endpoints.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.set_alpn_protocols(["http/1.1"])
        return _TLSConnection(address, context, f"controller.{self._endpoints.cluster}.phos.internal", timeout)

    def _headers(self, address: str, kind: str) -> dict[str, str]:
        headers = {"Content-Type": kind}
        if self._endpoints.token and not address.startswith("/"):
            headers["Authorization"] = f"Bearer {self._endpoints.token}"
        return headers

    def _once(self, address: str, path: str, body: bytes, kind: str) -> Json:
        connection, response = self._open(address, path, body, max(4 * self._patience, _SHORTEST), kind)
        try:
            reply: Json = json.loads(response.read())
            return reply
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _MaybeSent(f"{address}: {error}", True) from error
        finally:
            connection.close()

    def _open(
        self, address: str, path: str, body: bytes, timeout: float | None, kind: str = "application/json"
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Makes a request, and returns its answer, of which the body has not been read."""
        connection = self._connect(address, timeout)
        sent = False
        try:
            connection.connect()
            sent = True
            with contextlib.suppress(*_REFUSED_EARLY):
                connection.request("POST", path, body, self._headers(address, kind))
            response = connection.getresponse()
            if response.status != http.client.OK:
                _fail(address, response)
            return connection, response
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise PhosError(f"{address} is no controller of the cluster that cluster.json names: {error}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            if isinstance(error, (PhosError, _OtherLeader)):
                raise
            raise _MaybeSent(f"{address}: {error}", sent) from error
        except BaseException:
            connection.close()
            raise


def _fail(address: str, response: http.client.HTTPResponse) -> None:
    """Raises what an answer says."""
    try:
        fault = json.loads(response.read())
        text, code = fault["error"], fault["code"]
    except (ValueError, KeyError, TypeError) as error:
        raise _MaybeSent(f"{address}: HTTP {response.status} {response.reason}", True) from error
    leader = response.getheader("Phos-Leader")
    if leader is not None:
        raise _OtherLeader(text, leader)
    if code == "UNAVAILABLE":
        raise _MaybeSent(text, True)
    raise of_code(code, text)


class _OtherLeader(Exception):
    """Means that another controller leads; nothing was done."""

    def __init__(self, text: str, address: str) -> None:
        super().__init__(text)
        self.address = address


class _MaybeSent(Exception):
    """Means that a request has failed; sent says that the controller may have carried it out."""

    def __init__(self, text: str, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent
