"""Prints the members of its launch, now and after each change."""

import phos

generation = -1
while True:
    now = phos.inside.wait_for_change(generation)
    generation = now.generation
    members = " ".join(f"{m.replica}/{m.attempt}@{m.node}={m.address}" for m in now.members)
    ranks = [m.rank for m in now.members]
    assert ranks == list(range(len(ranks))) and all(m.job == "main" and m.port > 0 for m in now.members), now
    print("members", members, flush=True)
