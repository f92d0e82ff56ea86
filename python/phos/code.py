"""Packs the directory of a launch."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Iterator

from .errors import InvalidLaunchError
from .ignore import FILES, Rules
from .model import LocalDir

#: What marks the top of a project.
MARKS = (".git", "pyproject.toml", "requirements.txt")

# The same files give the same bytes, whenever they were written.
_TIME = (1980, 1, 1, 0, 0, 0)


def project_root(start: str) -> str | None:
    """Returns the nearest directory, from a start upwards, that is the top of a project."""
    folder = os.path.abspath(start)
    while True:
        if any(os.path.exists(os.path.join(folder, mark)) for mark in MARKS):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def pack(deployment: LocalDir) -> bytes:
    """Returns a zip file of a directory, or raises InvalidLaunchError if that is too large."""
    root = deployment.path if deployment.path is not None else project_root(os.getcwd())
    if root is None:
        raise InvalidLaunchError(
            f"deployment: no directory from {os.getcwd()} upwards has {' or '.join(MARKS)}: "
            "want one, or LocalDir(path=...)"
        )
    if not os.path.isdir(root):
        raise InvalidLaunchError(f"deployment.path is {root!r}: want a directory")
    limit = deployment.limit_mb << 20
    buffer, sizes = io.BytesIO(), []
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(_files(root, "", Rules())):
            size = _add(archive, root, path)
            sizes.append((size, path))
            if buffer.tell() > limit:
                raise InvalidLaunchError(_too_large(root, deployment.limit_mb, sizes))
    if buffer.tell() > limit:
        raise InvalidLaunchError(_too_large(root, deployment.limit_mb, sizes))
    return buffer.getvalue()


def _too_large(root: str, limit_mb: int, sizes: list[tuple[int, str]]) -> str:
    largest = ", ".join(f"{path} ({size >> 20} MiB)" for size, path in sorted(sizes, reverse=True)[:3])
    return (
        f"deployment: {root} takes more than {limit_mb} MiB packed; the largest so far are {largest}: "
        "leave files out with a .phosignore, or use a GitRepo"
    )


def _files(root: str, folder: str, above: Rules) -> Iterator[str]:
    """Yields the paths of files, links and empty directories, without what is ignored."""
    rules = Rules(above, folder, _lines(os.path.join(root, folder)))
    empty = True
    with os.scandir(os.path.join(root, folder)) as entries:
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            empty = False
            if entry.name == ".git" or rules.ignores(path, is_directory):
                continue
            if is_directory:
                yield from _files(root, path, rules)
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                yield path
    if empty and folder:
        yield folder + "/"


def _lines(folder: str) -> list[str]:
    """Returns the patterns of a directory."""
    lines: list[str] = []
    for name in FILES:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="surrogateescape") as file:
                lines += file.readlines()
        except (FileNotFoundError, IsADirectoryError):
            pass
    return lines


def _add(archive: zipfile.ZipFile, root: str, path: str) -> int:
    """Adds a path, and returns how many bytes it has. One that has gone since is left out."""
    full = os.path.join(root, path)
    try:
        mode = os.lstat(full).st_mode
        if stat.S_ISLNK(mode):
            content = os.readlink(full).encode()
        elif path.endswith("/"):
            content = b""
        else:
            with open(full, "rb") as file:
                content = file.read()
    except FileNotFoundError:
        return 0
    info = zipfile.ZipInfo(path, _TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    permissions = 0o755 if mode & stat.S_IXUSR else 0o644
    info.external_attr = (stat.S_IFMT(mode) | permissions) << 16
    archive.writestr(info, content)
    return len(content)
