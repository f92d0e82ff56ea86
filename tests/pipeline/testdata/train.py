"""One rank of a training that a test watches, and may tell where to die.
usage: train.py MODEL STEPS MICROBATCH BATCH CLIP OUT [NAME=VALUE...]
"""

import json
import os
import signal
import sys
import time

import models
import phos.pipeline as pp
import torch
from phos.pipeline import backup, checkpoint, commit, evaluation, exchange, iteration, leader, member, transfer, whole

# The places where a rank can be told to die, and the function that begins there.
PLACES = {
    "report": (member.Member, "_agree"), "decision": (member.Member, "_act"), "send": (transfer, "send"),
    "transfer": (transfer, "receive"),
    "ready": (member.Member, "_barrier"), "forward": (iteration.Iteration, "_forward"),
    "backward": (iteration.Iteration, "_backward"), "exchange": (exchange.Exchange, "run"),
    "assemble": (exchange.Exchange, "_assemble"), "sums": (commit, "agree"),
    "apply": (member.Member, "_apply"), "save": (whole, "save"), "write": (checkpoint.Checkpoints, "write_rest"),
    "evaluate": (evaluation.Evaluation, "_microbatch"),
}


def die_at(place, count):
    """Kills this process when a place is reached for the count-th time."""
    owner, name = PLACES[place]
    function, left = getattr(owner, name), [int(count)]

    def dying(*arguments, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)

    setattr(owner, name, dying)


def note_passes(path):
    """Writes which microbatches this rank has computed as a last stage: step and number."""
    forward = iteration.Iteration._forward

    def noting(self, number, losses):
        forward(self, number, losses)
        if self.after is None:
            with open(path, "a") as file:
                print(self.step, number, file=file)

    iteration.Iteration._forward = noting


def be_slow(seconds):
    """Lets each backward pass take longer."""
    backward = iteration.Iteration._backward

    def slow(*arguments):
        time.sleep(seconds)
        backward(*arguments)

    iteration.Iteration._backward = slow


def cost_the_same():
    """Lets all layers cost the same, so that the plan does not depend on a clock."""
    measure = leader.measure

    def even(*arguments):
        profile = json.loads(measure(*arguments))
        for layer in profile["layers"]:
            layer.update(forward_ms="1", backward_ms="2")
        return json.dumps(profile)

    leader.measure = even


def main(name, steps, microbatch, batch, clip, out, *options):
    given = dict(each.split("=") for each in options)
    if given.get("die"):
        die_at(*given["die"].split(":"))
    if given.get("machine"):
        os.environ["PHOS_NODE"] = given["machine"]
    batch = int(given.get("batch", batch))
    if given.get("backup"):
        backup.LEAST, backup.PACE = float(given["backup"]), 0.0
    if given.get("slow"):
        be_slow(float(given["slow"]))
    if given.get("costs") == "even":
        cost_the_same()
    if given.get("passes"):
        note_passes(given["passes"])
    layers, data, loss = models.make(name, batch * steps)
    if given.get("threads"):
        torch.set_num_threads(int(given["threads"]))
    if given.get("wait"):
        open(given["wait"] + ".ready", "w").close()
        while not os.path.exists(given["wait"]):
            time.sleep(0.01)
    job = pp.Training(
        layers, loss, models.optimizer, data, microbatch=microbatch, batch=batch, faults=int(given.get("faults", 0)),
        loss_scale=float(given["scale"]) if given.get("scale") else None, scheduler=models.scheduler, clip=clip, shuffle=given.get("shuffle") == "yes",
        recompute=given.get("recompute") == "yes", memory=int(given.get("memory", 0)),
        patience=float(given.get("patience", 30)), reproducible=given.get("reproducible") != "no", resume=given.get("resume"),
    )
    if given.get("checkpoint"):
        job.checkpoint(given["checkpoint"], every=2)
    with open(f"{out}.{job.rank}.steps", "w") as file:
        for step in job:
            print(json.dumps({"number": step.number, "loss": step.loss, "norm": step.norm}), file=file, flush=True)
            time.sleep(float(given.get("pause", 0)))
            if given.get("evaluate") == "always":
                job.evaluate(data[:5])
            if str(step.number) == given.get("evaluate"):
                print(job.evaluate(data[:5]).hex(), file=file, flush=True)
            if step.number == int(given.get("end", -1)):
                return
    job.save(f"{out}.pt")


if __name__ == "__main__":
    main(
        sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), sys.argv[6], *sys.argv[7:]
    )
