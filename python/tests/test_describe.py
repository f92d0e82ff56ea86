"""What a request becomes, and what is said of a wrong one."""

import unittest

import phos
from phos.describe import describe


def request(**change):
    process = phos.Process(["python3", "train.py"], phos.Resources(cpus=0.5, memory_mb=512, h100=8))
    values = {"jobs": [phos.Job("train", 2, [process])], "queueing_behaviour": phos.QueueingBehaviour()}
    return phos.CreateLaunchRequest(**{**values, **change})


def job(*arguments, **change):
    values = {"short_name": "train", "replicas": 1, "processes": [phos.Process(["true"])]}
    return request(jobs=[phos.Job(**{**values, **change})])


def process(*arguments, **change):
    return job(processes=[phos.Process(**{"command": ["true"], **change})])


class DescribeTest(unittest.TestCase):
    def test_everything(self):
        got = describe(
            phos.CreateLaunchRequest(
                [
                    phos.Job(
                        "train", "4..8",
                        [phos.Process(["a"], phos.Resources(gpus=2, gpu_models=["h100", "a100"], gpu_memory_gb=40),
                                      env={"A": "1"}, cwd="src", ports=["http"])],
                        phos.OnReplicaFailureOtherReplicasContinue(), retries=3, on_exit_codes=[75], env={"B": "2"},
                    )
                ],
                "name", "description", phos.GitRepo("https://example.org/x", "main", "a" * 40), "east", "red", ["n1"],
                phos.QueueingBehaviour(False), priority=-2, time_limit="12h", after=["l-1"], restartable=True,
                whole_nodes=True, network="own", env={"C": "3"}, checkpoint=phos.Checkpoint("10m", ["preempt"], 3, "/mnt"),
            )
        )
        self.assertEqual(got, {
            "name": "name", "description": "description", "queue": "refuse", "priority": -2, "time_limit": "12h",
            "after": ["l-1"], "restartable": True, "network": "own", "env": {"C": "3"},
            "place": {"cluster": "east", "shard": "red", "hostnames": ["n1"], "whole_nodes": True},
            "source": {"git": "https://example.org/x", "branch": "main", "commit": "a" * 40},
            "checkpoint": {"every": "10m", "on": ["preempt"], "keep": 3, "dir": "/mnt"},
            "jobs": [{
                "name": "train", "replicas": "4..8", "retries": 3, "retry_on": [75], "env": {"B": "2"},
                "on_replica_failure": "continue",
                "processes": [{
                    "command": ["a"], "dir": "src", "env": {"A": "1"}, "ports": ["http"],
                    "resources": {"gpus": 2, "gpu_models": ["h100", "a100"], "gpu_memory": "40GiB"},
                }],
            }],
        })

    def test_model(self):
        resources = describe(request())["jobs"][0]["processes"][0]["resources"]
        self.assertEqual(resources, {"cpus": "0.5", "memory": "512MiB", "gpus": 8, "gpu_models": ["h100"]})

    def test_queueing(self):
        self.assertEqual(describe(request())["queue"], "wait")
        self.assertEqual(describe(request(queueing_behaviour=None))["queue"], "refuse")

    def test_wrong(self):
        for says, wrong in {
            "jobs is []: want a list with at least one Job": request(jobs=[]),
            "jobs[0] is 'x': want a Job": request(jobs=["x"]),
            "deployment is '.': want a LocalDir or a GitRepo": request(deployment="."),
            "name is 3: want a text": request(name=3),
            "priority is 'high': want a whole number": request(priority="high"),
            "queueing_behaviour is True: want a QueueingBehaviour": request(queueing_behaviour=True),
            "checkpoint is '10m': want a Checkpoint": request(checkpoint="10m"),
            "hostnames is 'n1': want a list of texts": request(hostnames="n1"),
            "jobs[0].short_name is '': want a name": job(short_name=""),
            "jobs[0].replicas is 0: want a whole number from 1, or a range": job(replicas=0),
            "jobs[0].replicas is '8..4': want a whole number from 1, or a range": job(replicas="8..4"),
            "jobs[0].replicas is True: want": job(replicas=True),
            "jobs[0].processes is []: want a list with at least one Process": job(processes=[]),
            "jobs[0].retries is -1: want a whole number from 0": job(retries=-1),
            "jobs[0].on_exit_codes[0] is 0: want a whole number from 1": job(on_exit_codes=[0]),
            "jobs[0].replica_failure_behaviour is 'stop': want OnReplica": job(replica_failure_behaviour="stop"),
            "jobs[0].processes[0].command is 'a b': want a list": process(command="a b"),
            "jobs[0].processes[0].command is []: want a program": process(command=[]),
            "jobs[0].processes[0].env['A'] is 1: want a text": process(env={"A": 1}),
            "jobs[0].processes[0].resource_requirements is 4: want a Resources": process(resource_requirements=4),
            "resource_requirements.cpus is -1: want": process(resource_requirements=phos.Resources(cpus=-1)),
            "resource_requirements.h100 is 1: want GPUs asked for in one way: leave out t4, gpus":
                process(resource_requirements=phos.Resources(h100=1, t4=1, gpus=1)),
        }.items():
            with self.subTest(says), self.assertRaises(ValueError) as caught:
                describe(wrong)
            self.assertIn(says, str(caught.exception))

    def test_all_at_once(self):
        with self.assertRaises(phos.InvalidLaunchError) as caught:
            describe(request(name=3, shard=4))
        self.assertEqual(len(str(caught.exception).splitlines()), 2)


if __name__ == "__main__":
    unittest.main()
