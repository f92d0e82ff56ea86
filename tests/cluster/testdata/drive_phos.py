"""Drives a cluster of one node with two A100 of 40 GB, in a directory with a project."""

import pathlib

import phos


def request(name, gpus, *, wait, command=("python3", "train.py"), **more):
    process = phos.Process(list(command), phos.Resources(a100_40gb=gpus))
    return phos.CreateLaunchRequest(
        [phos.Job("train", 1, [process], phos.OnReplicaFailureOtherReplicasAreStopped())],
        name=name, deployment=phos.LocalDir(), queueing_behaviour=phos.QueueingBehaviour() if wait else None, **more,
    )


def completes(client):
    """A launch of a directory completes, and its log and its script are known."""
    launch = client.create_launch(request("first", 1, wait=True))
    end = client.wait(launch.id)
    assert end.status == phos.LaunchStatus.LAUNCH_STATUS_COMPLETED, end
    assert end.exit_status == 0 and end.hostnames == ["node1"] and end.name == "first", end
    details = client.get_launch_details(launch.id)
    assert [line.text for line in details.logs] == ["shipped to node1 with 0"], details.logs
    assert "Drives a cluster" in details.script
    again = client.wait(client.rerun_launch(end.launch_id).id)
    assert again.status == phos.LaunchStatus.LAUNCH_STATUS_COMPLETED and again.id != end.id, again
    kinds = [event.kind for event in client.events(launch.id)]
    assert "queued" in kinds and "ended" in kinds, kinds


def is_busy(client):
    """A launch for which there is no room is refused, or waits, and says why."""
    pathlib.Path("hold").touch()
    holder = client.create_launch(request("holder", 2, wait=False))
    assert holder.phase == "running", holder
    try:
        client.create_launch(request("refused", 1, wait=False))
        raise AssertionError("it was not refused")
    except phos.SchedulingError as error:
        assert error.scheduling_log, error
        error.prettyprint()
    try:
        client.create_launch(request("never", 3, wait=True))
        raise AssertionError("it was not refused")
    except phos.SchedulingError as error:
        assert "3 GPUs" in error.scheduling_log, error.scheduling_log
    waiting = client.create_launch(request("waiting", 1, wait=True, priority=5))
    assert waiting.status == phos.LaunchStatus.LAUNCH_STATUS_QUEUED, waiting
    assert client.why(waiting.id).reasons
    node = client.list_nodes()[0]
    assert [gpu.launch for gpu in node.gpus] == [holder.id] * 2, node
    assert [each.name for each in client.list_launches(ended=False)] == ["waiting", "holder"]
    used, = client.usage()
    assert (used.launch, used.job, used.node, used.gpus) == (holder.id, "train", "node1", (0, 1)), used
    assert client.usage(f"{holder.id}/train.0.0")[0].gpu_busy_percent is None and not client.usage(waiting.id)
    client.stop_launch(waiting.id)
    client.stop_launch(holder.id)
    for launch in (waiting, holder):
        assert client.wait(launch.id).status == phos.LaunchStatus.LAUNCH_STATUS_STOPPED
    pathlib.Path("hold").unlink()


def is_wrong(client):
    """What is wrong is named."""
    bad = request("bad", 1, wait=True, priority=100_000)
    try:
        client.create_launch(bad)
        raise AssertionError("it was not refused")
    except phos.InvalidLaunchError as error:
        assert "priority: 100000: want" in str(error), error
    try:
        client.get_launch("l-none")
        raise AssertionError("it was found")
    except phos.NotFoundError:
        pass
    for stream in (client.watch("l-none"), client.logs("l-none")):
        try:
            next(iter(stream))
            raise AssertionError("it was found")
        except phos.NotFoundError:
            pass


def fails(client):
    """The status of a program that fails is that of its launch."""
    launch = client.create_launch(request("fails", 0, wait=True, command=["/bin/sh", "-c", "echo no >&2; exit 3"]))
    lines = list(client.logs(launch.id, follow=True))
    assert [(line.text, line.stderr) for line in lines] == [("no", True)], lines
    end = client.wait(launch.id)
    assert (end.status, end.exit_status) == (phos.LaunchStatus.LAUNCH_STATUS_FAILED, 3), end


def has_quotas(client):
    """Limits of an account count, and go back to those of the default."""
    launch = client.create_launch(request("limited", 1, wait=True))
    account = client.wait(launch.id).launched_by
    client.set_quota("", launches=50)
    quota = client.set_quota(account, gpus=1)
    assert quota == client.set_quota(account, code_bytes=-1), quota
    assert (quota.account, quota.limits) == (account, phos.Limits(1, 50, None)), quota
    assert (quota.gpus, quota.launches) == (0, 0) and quota.code_bytes > 0, quota
    try:
        client.create_launch(request("too-many", 2, wait=True))
        raise AssertionError("it was not refused")
    except phos.PhosError as error:
        assert "quota" in str(error) + getattr(error, "scheduling_log", ""), error
    assert {each.account: each.limits.gpus for each in client.list_quotas()} == {"": None, account: 1}
    client.remove_quota(account)
    assert {each.limits for each in client.list_quotas()} == {phos.Limits(None, 50, None)}
    client.remove_quota("")


def executes(client):
    """A command runs beside a process, with its input, and ends as it does."""
    launch = client.create_launch(request("beside", 1, wait=True, command=["/bin/sleep", "1000"]))
    for each in client.watch(launch.id):
        if each.replicas[0].phase == "running":
            break
    data = bytes(range(256)) * 1024
    done = client.exec(launch.id, ["/bin/sh", "-c", "cat; echo wrong >&2; exit 7"], input=data)
    assert done == phos.ExecResult(7, data, b"wrong\n", ""), (done.exit_status, len(done.output), done.error)
    assert client.exec(f"{launch.id}/train.0.0", ["sh", "-c", "kill -9 $$"]).exit_status == 128 + 9
    none = client.exec(launch.id, ["no-such-program"])
    assert none.exit_status == 127 and "no-such-program" in none.error, none
    for what, kind in (("l-none", phos.NotFoundError), (f"{launch.id}/other", phos.PhosError)):
        try:
            client.exec(what, ["true"])
            raise AssertionError("it was run")
        except kind:
            pass
    told = [event.text for event in client.events(launch.id) if event.kind == "exec"]
    assert len(told) == 3 and told[0].endswith(": exit 7"), told
    client.stop_launch(launch.id)
    client.wait(launch.id)


for test in (completes, is_busy, is_wrong, fails, has_quotas, executes):
    test(phos.Client())
    print("ok", test.__name__)
