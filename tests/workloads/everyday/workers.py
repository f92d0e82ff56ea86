"""workers METHOD: like asked.py, but two worker processes and this one run the steps, each with its
own vector."""
import multiprocessing
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gpu  # noqa: E402


def work(seed, orders, answers, total, event):
    vector = gpu.Vector(seed=seed)
    while True:
        steps = orders.get()
        if steps is None:
            break
        for _ in range(steps):
            vector.step()
        with total.get_lock():
            total.value += steps
        answers.put((seed, vector.steps, vector.check()))
    assert event.wait(30)


def main():
    os.closerange(3, 1024)
    context = multiprocessing.get_context(sys.argv[1])
    answers, total, event = context.Queue(), context.Value("l", 0), context.Event()
    orders = [context.Queue() for _ in range(2)]
    workers = [context.Process(target=work, args=(3 + i, orders[i], answers, total, event)) for i in range(2)]
    for worker in workers:
        worker.start()
    vector = gpu.Vector(seed=2)  # after the fork: a GPU is not inherited
    print("ready", flush=True)
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        if word == "end":
            break
        for queue in orders:
            queue.put(int(word))
        for _ in range(int(word)):
            vector.step()
        got = dict((seed, (steps, text)) for seed, steps, text in (answers.get(), answers.get()))
        mine = vector.check()
        assert sorted(got) == [3, 4] and all(steps == vector.steps for steps, _ in got.values()), got
        assert total.value == 2 * vector.steps, total.value
        assert len({mine, got[3][1], got[4][1]}) == 3, got
        print(vector.steps, flush=True)
    for queue in orders:
        queue.put(None)
    event.set()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0, worker.exitcode
    sys.exit(int(number))


if __name__ == "__main__":
    main()
