"""threads.py STEPS SECONDS: threads of one process, each with its stream and its file, in lockstep.
Ends with status 7."""

import sys
import threading
import time

import driver
from hold import hold

STEPS, REST = int(sys.argv[1]), float(sys.argv[2])
THREADS = 4
together = threading.Barrier(THREADS + 1)
latest = [0] * THREADS


def work(index, context):
    driver.call("cuCtxSetCurrent", context)
    numbers = driver.Numbers(700 + 100 * index, index + 1)
    with open(f"thread-{index}", "w", buffering=1) as log:
        for i in range(STEPS):
            latest[index] = numbers.step()
            print(i, f"{latest[index]:08x}", file=log)
            together.wait()
            time.sleep(REST)
            together.wait()


context = driver.context()
threads = [threading.Thread(target=work, args=(index, context)) for index in range(THREADS)]
for thread in threads:
    thread.start()
for step in range(STEPS):
    together.wait()
    print("step", step, *(f"{x:08x}" for x in latest), flush=True)
    together.wait()
for thread in threads:
    thread.join()
hold()
print("ok threads", flush=True)
sys.exit(7)
