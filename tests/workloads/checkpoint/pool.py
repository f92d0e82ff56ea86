"""pool.py STEPS SECONDS METHOD: worker processes (spawn, forkserver) that share the GPU with their parent. Ends with status 7."""

import multiprocessing
import sys
import time

import driver
from hold import hold


def work(index, tasks, results):
    driver.context()
    numbers = driver.Numbers(600 + 100 * index, index + 1)
    with open(f"worker-{index}", "w", buffering=1) as log:
        while (step := tasks.get()) is not None:
            value = numbers.step()
            print(step, f"{value:08x}", file=log)
            results.put((step, index, value))


def main():
    steps, rest, method = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    workers = multiprocessing.get_context(method)
    tasks, results = [workers.SimpleQueue() for _ in range(2)], workers.SimpleQueue()
    children = [workers.Process(target=work, args=(i, tasks[i], results)) for i in range(2)]
    for child in children:
        child.start()
    driver.context()
    numbers = driver.Numbers(500, 99)
    for step in range(steps):
        for task in tasks:
            task.put(step)
        mine = numbers.step()
        theirs = sorted(results.get() for _ in children)
        assert [t[:2] for t in theirs] == [(step, 0), (step, 1)], theirs
        print("step", step, f"{mine:08x}", *(f"{t[2]:08x}" for t in theirs), flush=True)
        time.sleep(rest)
    hold()
    for task in tasks:
        task.put(None)
    for child in children:
        child.join()
        assert child.exitcode == 0
    print("ok pool", flush=True)


if __name__ == "__main__":
    main()
    sys.exit(7)
