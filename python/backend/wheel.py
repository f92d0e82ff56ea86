"""Builds the wheel of the package phos, with nothing but Python: it is a zip file of the package and of
three texts about it. The same sources give the same bytes.

pip calls it by PEP 517; ./build.sh runs it as a program: wheel.py DIRECTORY.
"""

from __future__ import annotations

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
_TIME = (1980, 1, 1, 0, 0, 0)


def _field(file: str, pattern: str) -> str:
    """Returns what a pattern finds in a file of the package's sources."""
    found = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{ROOT / file} has no {pattern}")
    return found[1]


def _project(name: str) -> str:
    return _field("pyproject.toml", rf'^{name} = "(.*)"$')


def _texts(name: str, version: str) -> dict[str, bytes]:
    """Returns the content of the wheel, but for the list of its files."""
    files = {
        f"phos/{path.relative_to(ROOT / 'phos').as_posix()}": path.read_bytes()
        for path in (ROOT / "phos").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    about = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {_project('description')}\n"
        f"License: {_project('license')}\nRequires-Python: {_project('requires-python')}\n"
        "Classifier: Typing :: Typed\n"
    )
    info = f"{name}-{version}.dist-info"
    files[f"{info}/METADATA"] = about.encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: phos\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    return dict(sorted(files.items()))


def _record(files: dict[str, bytes], itself: str) -> bytes:
    """Returns the list of the files with their sums."""
    lines = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}\n")
    return "".join([*lines, f"{itself},,\n"]).encode()


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: object = None) -> str:
    """Writes the wheel to a directory, and returns its name."""
    name, version = _project("name"), _field("phos/__init__.py", r'^__version__ = "(.*)"$')
    files = _texts(name, version)
    record = f"{name}-{version}.dist-info/RECORD"
    files[record] = _record(files, record)
    wheel = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            info = zipfile.ZipInfo(path, _TIME)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            archive.writestr(info, content)
    return wheel


def get_requires_for_build_wheel(config_settings: object = None) -> list[str]:
    """Returns what must be installed to build: nothing."""
    return []


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(build_wheel(sys.argv[1]))
