#!/usr/bin/env python3
"""Makes an SVG of what a command has printed, as a terminal shows it.

usage: picture.py TITLE <output >picture.svg

docs/demo.svg is made by: ./build.sh demo 2>&1 | scripts/picture.py "./build.sh demo" >docs/demo.svg
"""

import html
import re
import sys

COLUMNS, WIDTH, HEIGHT, MARGIN = 118, 7.23, 17, 16

# Where the colours of lines come from; the first that matches counts.
COLOURS = [
    (re.compile(r"^# "), "#7ee787"),
    (re.compile(r"^\$ "), "#f0f6fc"),
    (re.compile(r"^(ok|wait|skip)\b"), "#79c0ff"),
    (re.compile(r""), "#9da7b1"),
]


def fold(line):
    """The rows that a terminal makes of a line, at words where it can."""
    while len(line) > COLUMNS:
        at = line.rfind(" ", 40, COLUMNS)
        at = at if at > 0 else COLUMNS
        yield line[:at]
        line = "    " + line[at:].lstrip()
    yield line


def read(text):
    """Rows with their colours. What a terminal overwrites is not shown, nor what is installed and
    built before the first heading."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n")
    text = text[text.find("\n# ") + 1:]
    for line in text.rstrip("\n").split("\n"):
        line = line.rstrip("\r").rsplit("\r", 1)[-1].rstrip()
        colour = next(colour for pattern, colour in COLOURS if pattern.search(line))
        for row in fold(line):
            yield row, colour


def draw(title, rows):
    width, height = COLUMNS * WIDTH + 2 * MARGIN, len(rows) * HEIGHT + 3 * MARGIN + 12
    yield '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">' % (width, height)
    yield "<title>%s</title>" % html.escape(title)
    yield '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>'
    for i, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        yield '<circle cx="%d" cy="%d" r="6" fill="%s"/>' % (MARGIN + 6 + 20 * i, MARGIN + 2, colour)
    yield '<g font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="12" xml:space="preserve">'
    for i, (text, colour) in enumerate(rows):
        if text:
            y = 3 * MARGIN + 4 + i * HEIGHT
            yield '<text x="%d" y="%d" fill="%s">%s</text>' % (MARGIN, y, colour, html.escape(text))
    yield "</g>\n</svg>"


if __name__ == "__main__":
    print("\n".join(draw(sys.argv[1], list(read(sys.stdin.read())))))
