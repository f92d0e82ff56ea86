"""Where a cluster is found, and what becomes of requests when controllers come and go."""

import http.server
import json
import os
import pathlib
import shutil
import socket
import socketserver
import tempfile
import threading
import unittest
import unittest.mock

import phos
from phos.connection import Connection, Endpoints, find

SAVED = {"version": 1, "cluster": "abc", "addresses": ["c1:7411", "c2:7411"], "ca": "CA", "token": "phos_x"}


class FindTest(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.home)
        self.socket = str(self.home / "controller.sock")

    def find(self, **environment):
        return find({"HOME": str(self.home), **environment}, self.socket)

    def save(self, record=SAVED, mode=0o600):
        path = self.home / ".config/phos/cluster.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record))
        os.chmod(path, mode)

    def test_nothing(self):
        for environment in ({}, {"PHOS_CLUSTER": "c1:7411"}, {"PHOS_CLUSTER": "nonsense"}):
            with self.subTest(environment), self.assertRaises(phos.NoClusterError):
                self.find(**environment)

    def test_order(self):
        self.save()
        self.assertEqual(self.find().addresses, ("c1:7411", "c2:7411"))
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(self.socket)
        self.assertEqual(self.find().addresses, (self.socket,))
        named = self.find(PHOS_CLUSTER="c9:1")
        self.assertEqual((named.addresses, named.token, named.cluster), (("c9:1",), "phos_x", "abc"))
        self.assertEqual(self.find(PHOS_CLUSTER="unix:/x").addresses, ("/x",))

    def test_file(self):
        for says, record, mode in (
            ("chmod 600", SAVED, 0o644), ("version 2", {**SAVED, "version": 2}, 0o600), ("token", {**SAVED, "token": 0}, 0o600),
        ):
            if says == "token":
                record = {k: v for k, v in record.items() if k != "token"}
            self.save(record, mode)
            with self.subTest(says), self.assertRaises(phos.NoClusterError) as caught:
                self.find()
            self.assertIn(says, str(caught.exception))

    def test_token_is_not_shown(self):
        self.save()
        self.assertNotIn("phos_x", repr(self.find()))


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, body))
        answer = self.server.answers[min(len(self.server.seen), len(self.server.answers)) - 1]
        if answer is None:
            self.close_connection = True  # as of a controller that is killed
            return
        status, headers, text = answer
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def address_string(self):
        return "test"

    def log_message(self, *arguments):
        pass


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


OK = (200, {}, '{"ok": true}\n')


def fault(status, code, **headers):
    return (status, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps({"error": "no", "code": code}))


class CallTest(unittest.TestCase):
    def controller(self, *answers):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        server = _Server(os.path.join(folder, "s"), _Handler)
        server.answers, server.seen = answers, []
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def connection(self, *servers):
        return Connection(Endpoints(tuple(s.server_address for s in servers)), patience=5)

    def test_errors(self):
        for status, code, kind in (
            (404, "NOT_FOUND", phos.NotFoundError), (401, "UNAUTHENTICATED", phos.AuthenticationError),
            (403, "PERMISSION_DENIED", phos.AuthenticationError), (400, "INVALID_ARGUMENT", ValueError),
            (500, "UNKNOWN", phos.PhosError),
        ):
            with self.subTest(code), self.assertRaises(kind) as caught:
                self.connection(self.controller(fault(status, code))).call("Launches/Get", {})
            self.assertEqual((caught.exception.code, str(caught.exception)), (code, "no"))

    def test_refused_early(self):
        """The answer of a controller that closes the connection before it has read all is what the caller gets."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(folder + "/s")
        listener.listen()

        def refuse():
            conn, _ = listener.accept()
            with conn:
                conn.recv(1)
                conn.sendall(b'HTTP/1.1 401 No\r\nContent-Length: 42\r\n\r\n{"error": "no", "code": "UNAUTHENTICATED"}')

        thread = threading.Thread(target=refuse)
        thread.start()
        self.addCleanup(thread.join)
        with self.assertRaises(phos.AuthenticationError):
            Connection(Endpoints((folder + "/s",)), patience=0).call("Launches/Create", {"x": "x" * (8 << 20)})

    def test_leader(self):
        leader = self.controller(OK)
        follower = self.controller(fault(503, "UNAVAILABLE", Phos_Leader=leader.server_address))
        connection = self.connection(follower)
        for _ in range(2):
            self.assertEqual(connection.call("Launches/Stop", {}, harmless=False), {"ok": True})
        self.assertEqual((len(follower.seen), len(leader.seen)), (1, 2))

    def test_killed(self):
        """A request that may have been carried out is repeated only if that is harmless."""
        killed = self.controller(None, OK)
        self.assertEqual(self.connection(killed).call("Launches/List", {}), {"ok": True})
        killed = self.controller(None, OK)
        with self.assertRaises(phos.UnavailableError):
            self.connection(killed).call("Launches/Rerun", {}, harmless=False)
        self.assertEqual(len(killed.seen), 1)

    def test_away(self):
        """Of several controllers, one that does not answer is passed over."""
        up = self.controller(OK)
        connection = Connection(Endpoints(("/nowhere/s", up.server_address)), patience=5)
        self.assertEqual(connection.call("Launches/Rerun", {}, harmless=False), {"ok": True})
        with self.assertRaises(phos.UnavailableError):
            Connection(Endpoints(("/nowhere/s",)), patience=0).call("Launches/List", {})

    def test_stream(self):
        server = self.controller((200, {}, '{"a": 1}\n{"a": 2}\n'))
        self.assertEqual(list(self.connection(server).stream("Launches/Logs", {})), [{"a": 1}, {"a": 2}])
        server = self.controller((200, {}, '{"a": 1}\n{"error": "no", "code": "NOT_FOUND"}\n'))
        stream = self.connection(server).stream("Launches/Logs", {})
        self.assertEqual(next(stream), {"a": 1})
        with self.assertRaises(phos.NotFoundError):
            next(stream)

    def test_network_needs_a_token(self):
        with self.assertRaises(phos.NoClusterError):
            Connection(Endpoints(("c1:7411",)), patience=0).call("Launches/List", {})


class InsideTest(unittest.TestCase):
    def test_outside(self):
        with self.assertRaises(phos.inside.NotInsideError):
            phos.inside.launch_id()

    def agent(self, *answers):
        """Answers requests in order, the last one again and again, and returns the paths that were asked for."""
        asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                status, body = answers[min(len(asked), len(answers)) - 1]
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_):
                pass

        home = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, home)
        server = _Server(home + "/agent.sock", Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        variables = {"PHOS_AGENT": home + "/agent.sock", "PHOS_LAUNCH_ID": "l/1"}
        patch = unittest.mock.patch.dict(os.environ, variables)
        patch.start()
        self.addCleanup(patch.stop)
        return asked

    MEMBER = {"job": "main", "replica": 1, "rank": 0, "attempt": 2, "node": "b", "address": "10.0.0.2", "port": 20000}

    def test_members(self):
        asked = self.agent((200, {"launch": "l/1", "generation": 3, "members": [self.MEMBER]}))
        now = phos.inside.members()
        self.assertEqual((now.generation, now.members), (3, (phos.inside.Member("main", 1, 0, 2, "b", "10.0.0.2", 20000),)))
        self.assertEqual(asked, ["/v1/launches/l%2F1"])

    def test_wait(self):
        generation = lambda n: (200, {"launch": "l/1", "generation": n, "members": []})
        self.agent(generation(3), (503, {"error": "no controller"}), generation(4))
        with unittest.mock.patch("time.sleep") as slept:
            self.assertEqual(phos.inside.wait_for_change(3).generation, 4)
            self.assertEqual(slept.call_count, 2)
            self.assertIsNone(phos.inside.wait_for_change(4, timeout=0))

    def test_no_answer(self):
        for status, wanted in ((503, phos.UnavailableError), (404, phos.NotFoundError), (400, phos.PhosError)):
            self.agent((status, {"error": "why"}))
            with self.subTest(status), self.assertRaisesRegex(wanted, "why"):
                phos.inside.members()
        with unittest.mock.patch.dict(os.environ, {"PHOS_AGENT": "/none"}), self.assertRaises(phos.UnavailableError):
            phos.inside.members()


if __name__ == "__main__":
    unittest.main()
