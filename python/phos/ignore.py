"""What .gitignore and .phosignore files leave out, as git's documentation of patterns says."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Files with patterns, in the order in which they count.
FILES = (".gitignore", ".phosignore")


@dataclass(frozen=True)
class _Rule:
    matches: re.Pattern[str]
    keeps: bool
    only_directories: bool


class Rules:
    """The patterns of one directory and of those above it."""

    def __init__(self, above: Rules | None = None, folder: str = "", lines: list[str] | None = None) -> None:
        self._above = above
        self._folder = folder
        self._rules = [rule for line in lines or [] if (rule := _read(line)) is not None]

    def ignores(self, path: str, is_directory: bool) -> bool:
        """Reports whether a path is left out. The last pattern that matches decides."""
        inner = path[len(self._folder) + 1:] if self._folder else path
        for rule in reversed(self._rules):
            if (is_directory or not rule.only_directories) and rule.matches.fullmatch(inner):
                return not rule.keeps
        return self._above.ignores(path, is_directory) if self._above else False


def _read(line: str) -> _Rule | None:
    line = line.rstrip("\r\n")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if not line or line.startswith("#"):
        return None
    keeps = line.startswith("!")
    if keeps:
        line = line[1:]
    only_directories = line.endswith("/")
    line = line.rstrip("/") if only_directories else line
    if not line:
        return None
    anchored = "/" in line
    pattern = _translate(line.removeprefix("/"))
    try:
        matches = re.compile(pattern if anchored else f"(?:.*/)?{pattern}", re.DOTALL)
    except re.error:
        return None  # a pattern that is none matches nothing
    return _Rule(matches, keeps, only_directories)


def _translate(pattern: str) -> str:
    """Returns a regular expression for a pattern."""
    out, i = "", 0
    while i < len(pattern):
        if pattern.startswith("**/", i) and (i == 0 or pattern[i - 1] == "/"):
            out, i = out + "(?:.*/)?", i + 3
        elif pattern.startswith("/**", i) and i + 3 == len(pattern):
            out, i = out + "/.+", i + 3
        elif pattern[i] == "*":
            out += "[^/]*"
            i += 1
        elif pattern[i] == "?":
            out, i = out + "[^/]", i + 1
        elif pattern[i] == "[" and (end := _end_of_class(pattern, i)):
            out, i = out + _class(pattern[i + 1:end]), end + 1
        elif pattern[i] == "\\" and i + 1 < len(pattern):
            out, i = out + re.escape(pattern[i + 1]), i + 2
        else:
            out, i = out + re.escape(pattern[i]), i + 1
    return out


def _end_of_class(pattern: str, start: int) -> int:
    """Returns where [...] ends; 0: it does not."""
    first = start + 2 if pattern[start + 1:start + 2] in ("!", "^") else start + 1
    return max(0, pattern.find("]", first + 1))


def _class(content: str) -> str:
    negated = content[:1] in ("!", "^")
    inner = content[1:] if negated else content
    escaped = re.sub(r"([\[\]&|~^])", r"\\\1", inner)
    return f"(?!/)[{'^' if negated else ''}{escaped}]"
