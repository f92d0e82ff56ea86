"""How answers of a controller are read."""

import base64
import unittest

from phos.launch import LogLine, read_lines


def line(text: bytes, **fields):
    return {
        "unix_ns": "5", "job": "main", "replica": 1, "process": 2, "stderr": False, "dropped": "0",
        "text": base64.b64encode(text).decode(), **fields,
    }


class LinesTest(unittest.TestCase):
    def test_lines(self):
        got = read_lines({"lines": [line(b"one\xff"), line(b"two", stderr=True)], "notice": ""})
        self.assertEqual(got, [LogLine(5, "main", 1, 2, False, "one\ufffd"), LogLine(5, "main", 1, 2, True, "two")])

    def test_what_phos_says(self):
        got = read_lines({
            "lines": [line(b"the disk is full", dropped="1"), line(b"the log has reached its limit", dropped="3")],
            "notice": "node n1 is silent",
        })
        self.assertEqual(got, [
            LogLine(5, "main", 1, 2, True, "phos: 1 line missing here: the disk is full"),
            LogLine(5, "main", 1, 2, True, "phos: 3 lines missing here: the log has reached its limit"),
            LogLine(0, "", 0, 0, True, "phos: node n1 is silent"),
        ])


if __name__ == "__main__":
    unittest.main()
