"""Drives a cluster of one node with two A100 of 40 GB by the public client of Clusterfudge, unchanged,
in a directory with a project."""

import pathlib
import time

import grpc
import clusterfudge
from clusterfudge_proto.launches import launches_pb2 as pb
from clusterfudge_proto.slurmpb import slurm_pb2, slurm_pb2_grpc
from google.protobuf.wrappers_pb2 import Int32Value

PATIENCE = 120  # seconds
DONE = {pb.Launch.LAUNCH_STATUS_COMPLETED, pb.Launch.LAUNCH_STATUS_FAILED, pb.Launch.LAUNCH_STATUS_STOPPED}


def request(name, gpus, queueing=clusterfudge.QueueingBehaviour()):
    process = clusterfudge.Process(["python3", "train.py"], clusterfudge.Resources(cpus=1, memory_mb=256, a100_40gb=gpus))
    return clusterfudge.CreateLaunchRequest(
        [clusterfudge.Job("train", 1, [process], clusterfudge.OnReplicaFailureOtherReplicasContinue())],
        name=name, description="a test", deployment=clusterfudge.LocalDir(), queueing_behaviour=queueing,
    )


def until(client, launch_id, good):
    """Waits until the details of a launch are as a test wants them."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        details = client.get_launch_details(launch_id)
        if good(details):
            return details
        time.sleep(0.05)
    raise AssertionError(details)


def ended(client, launch_id):
    return until(client, launch_id, lambda details: details.launch.status in DONE)


def completes(client):
    """A launch from a directory completes; details, list and rerun know it."""
    launch = client.create_launch(request("first", 1))
    assert launch.launch_id > 0 and launch.id.startswith("l-") and launch.title == "first", launch
    details = ended(client, launch.id)
    assert details.launch.status == pb.Launch.LAUNCH_STATUS_COMPLETED, details
    assert "Drives a cluster" in details.launch.launch_script_body and details.launch.description == "a test"
    job = details.launch.jobs[0]
    assert job.short_name == "train" and job.replicas == 1
    assert job.WhichOneof(job.DESCRIPTOR.oneofs[0].name) == "on_replica_failure_other_replicas_continue"
    assert job.processes[0].resource_requirements == pb.Process.FromString(
        pb.Process(resource_requirements=dict(cpus=1, memory_mb=256, gpu_a100_40gb=1)).SerializeToString()
    ).resource_requirements
    (command,) = details.commands
    assert command.hostname == "node1" and command.exit_code.value == 0 and command.HasField("exit_code"), command
    assert list(command.cmd_line) == ["python3", "train.py"] and command.job_name == "train"
    assert [log.contents for log in details.logs] == ["shipped to node1 with 0"], details.logs
    assert details.logs[0].source == "stdout" and details.logs[0].exec_command_id == command.id
    counts = details.status_counts
    assert counts.processes.succeeded == counts.processes.total == counts.jobs[0].replicas.succeeded == 1, counts
    again = client.launches_stub.RerunLaunch(pb.RerunLaunchRequest(launch_id=launch.id)).launch
    assert ended(client, again.id).launch.status == pb.Launch.LAUNCH_STATUS_COMPLETED and again.id != launch.id
    page = pb.ListLaunchesRequest(page=dict(page_number=Int32Value(value=2), limit=Int32Value(value=1)))
    reply = client.launches_stub.ListLaunches(page)
    assert reply.page_details.total_pages == 2 and [each.id for each in reply.launches] == [launch.id], reply
    assert reply.launch_status_counts[0].id == launch.id
    assert client.launches_stub.GetLaunch(pb.GetLaunchRequest(id=launch.id)) == details.launch


def is_busy(client):
    """A busy cluster refuses a launch without a queueing behaviour, and says why; another waits."""
    pathlib.Path("hold").touch()
    holder = client.create_launch(request("holder", 2, None))
    until(client, holder.id, lambda details: details.launch.status == pb.Launch.LAUNCH_STATUS_RUNNING)
    resources = client.launches_stub.ListResources(pb.ListResourcesRequest())
    (cluster,) = resources.clusters
    gpus = cluster.gpu_a100_40gb
    assert cluster.name == cluster.shard_resources[0].name == "Unassigned", resources
    assert (gpus.total.count, gpus.used.count, gpus.available.count) == (2, 2, 0), gpus
    assert list(gpus.used.hostnames) == ["node1"] and cluster.used_resources.gpu_a100_40gb == 2
    assert cluster.used_resources.cpus == 1 and cluster.used_resources.memory_mb == 256, cluster.used_resources
    assert resources.total.memory_mb == resources.available.memory_mb + 256
    assert [command.reference_id for command in resources.resource_consumers] == [holder.id]
    for refused, says in ((request("refused", 1, None), "2 with jobs"), (request("never", 3), "3 GPUs")):
        try:
            client.create_launch(refused)
            raise AssertionError("it was not refused")
        except clusterfudge.SchedulingError as error:
            error.prettyprint()
            assert error.message.startswith("failed to schedule launch:") and says in error.scheduling_log, error
    waiting = client.create_launch(request("waiting", 1))
    assert waiting.status == pb.Launch.LAUNCH_STATUS_QUEUED and list(waiting.scheduling_log), waiting
    client.stop_launch(holder.id)
    details = ended(client, holder.id)
    assert details.launch.status == pb.Launch.LAUNCH_STATUS_STOPPED, details
    until(client, waiting.id, lambda details: details.launch.status == pb.Launch.LAUNCH_STATUS_RUNNING)
    client.stop_launch(waiting.id)
    ended(client, waiting.id)
    pathlib.Path("hold").unlink()


def says_hello(client):
    """The launches for trying a cluster run real programs."""
    launch = client.launches_stub.LaunchHelloWorld(pb.LaunchHelloWorldRequest(hostnames=["node1"])).launch
    details = ended(client, launch.id)
    assert [log.contents for log in details.logs] == ["hello world from replica 0 of 1 on node1"], details
    launch = client.launches_stub.LaunchGpuBurn(pb.LaunchGpuBurnRequest(cluster="Unassigned")).launch
    assert launch.jobs[0].short_name == "burn-2", launch
    until(client, launch.id, lambda details: details.launch.status == pb.Launch.LAUNCH_STATUS_RUNNING)
    client.stop_launch(launch.id)
    ended(client, launch.id)


def refuses(client):
    """What phos does not have is refused by name, and what is wrong as well."""
    slurm = slurm_pb2_grpc.SlurmStub(client.channel)
    wrong = pb.CreateLaunchRequest(jobs=[dict(short_name="a", replicas=-1, processes=[dict(command=["true"])])])
    zipped = pb.CreateLaunchRequest(zip_file_contents=b"PK no zip", jobs=[
        dict(short_name="a", replicas=1, processes=[dict(command=["true"])])])
    for call, code, says in (
        (client.launch_workstation, "UNIMPLEMENTED", "workstations"),
        (lambda: client.launches_stub.LaunchJupyterNotebook(pb.LaunchJupyterNotebookRequest()), "UNIMPLEMENTED", "Jupyter"),
        (lambda: client.launches_stub.DownloadZip(pb.DownloadZipRequest()), "UNIMPLEMENTED", "zip"),
        (lambda: slurm.ListSlurmJobs(slurm_pb2.ListSlurmJobsRequest()), "UNIMPLEMENTED", "Slurm"),
        (lambda: client.launches_stub.CreateLaunch(wrong), "INVALID_ARGUMENT", "jobs[0].replicas: -1: want"),
        (lambda: client.launches_stub.CreateLaunch(zipped), "INVALID_ARGUMENT", "zip file"),
        (lambda: client.get_launch_details("l-none"), "NOT_FOUND", "l-none"),
    ):
        try:
            call()
            raise AssertionError("it was not refused")
        except grpc.RpcError as error:
            assert error.code().name == code and says in error.details(), error


for test in (completes, is_busy, says_hello, refuses):
    test(clusterfudge.Client(base_url="localhost:7413", api_key="none"))
    print("ok", test.__name__)
