"""The errors of this package. All are a PhosError."""

from __future__ import annotations


class PhosError(Exception):
    """Is the base of all errors of this package.

    Attributes:
        code: what kind of error the cluster has answered with, as gRPC names it
            (``"NOT_FOUND"``, ``"UNAVAILABLE"``, ...); empty if none did.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class NoClusterError(PhosError):
    """Means that no cluster is known here."""


class AuthenticationError(PhosError):
    """Means that the cluster does not know the caller, or that the caller may not do this."""

    @property
    def details(self) -> str:
        """What the cluster has answered."""
        return self.message

    @property
    def status_code(self) -> str:
        """The same as ``code``."""
        return self.code


class InvalidLaunchError(PhosError, ValueError):
    """Means that a launch cannot be as it is described.

    The text names each field, its value, and what would be right.
    """


class NotFoundError(PhosError, LookupError):
    """Means that there is no such launch or node, or that it is another user's."""


class UnavailableError(PhosError, ConnectionError):
    """Means that no controller answers."""


class SchedulingError(PhosError):
    """Means that the cluster has no room for a launch that does not want to wait, or never will.

    Attributes:
        message: one sentence.
        scheduling_log: what is missing, a line for each reason.
    """

    def __init__(self, message: str, scheduling_log: str) -> None:
        super().__init__(message, "FAILED_PRECONDITION")
        self.scheduling_log = scheduling_log

    def prettyprint(self) -> None:
        """Prints the message, and the scheduling log below it."""
        rule = "-" * 15
        print(f"\n{self.message}\n\nScheduling log:\n{rule}\n{self.scheduling_log}\n{rule}")


def of_code(code: str, message: str) -> PhosError:
    """Returns the error for an answer of the cluster."""
    kind = _KINDS.get(code, PhosError)
    return kind(message, code)


_KINDS: dict[str, type[PhosError]] = {
    "UNAUTHENTICATED": AuthenticationError,
    "PERMISSION_DENIED": AuthenticationError,
    "INVALID_ARGUMENT": InvalidLaunchError,
    "NOT_FOUND": NotFoundError,
    "UNAVAILABLE": UnavailableError,
}
