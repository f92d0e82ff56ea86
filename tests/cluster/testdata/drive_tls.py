"""Reaches a cluster by the network, as cluster.json says."""

import json
import os
import pathlib

import phos
from phos.connection import find

FILE = pathlib.Path(os.environ["XDG_CONFIG_HOME"], "phos", "cluster.json")


def with_token():
    client = phos.Client()
    launch = client.create_launch(
        phos.CreateLaunchRequest(
            [phos.Job("say", 2, [phos.Process(["/bin/sh", "-c", 'echo "$(cat train.py | wc -l) $RANK"'])])],
            deployment=phos.LocalDir(), queueing_behaviour=phos.QueueingBehaviour(),
        )
    )
    assert client.wait(launch.id).exit_status == 0
    assert sorted(line.text.split()[1] for line in client.logs(launch.id)) == ["0", "1"]


def refused(kind, says, client):
    try:
        client.list_nodes()
        raise AssertionError("it was not refused")
    except kind as error:
        assert says in str(error), error


def with_wrong_token():
    token = find().token
    wrong = token[:-6] + ("aaaaaa" if token[-6:] != "aaaaaa" else "bbbbbb")
    refused(phos.AuthenticationError, "", phos.Client(api_key=wrong))


def other_cluster():
    """A controller whose certificate is that of another cluster is not spoken to."""
    record = json.loads(FILE.read_text())
    FILE.write_text(json.dumps({**record, "cluster": "aaaaaaaaaaaa2345"}))
    refused(phos.PhosError, "no controller of the cluster", phos.Client())


for test in (with_token, with_wrong_token, other_cluster):
    test()
    print("ok", test.__name__)
