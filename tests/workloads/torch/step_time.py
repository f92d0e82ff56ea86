"""Measures the time of a step: of a training of GPT-2's size, of a ResNet-50, of a decoding loop.

usage: step_time.py MODEL STEPS [SCALE], where MODEL is gpt2, resnet50 or decode

Prints the median and the 90th percentile in milliseconds, and a sum of the results, so that two
runs can be compared.
"""

import statistics
import sys
import time

from models import make


def main():
    kind, steps = sys.argv[1], int(sys.argv[2])
    step, _ = make(kind, float(sys.argv[3]) if len(sys.argv) > 3 else 1.0)
    for _ in range(max(3, steps // 5)):
        step()
    times, total = [], 0.0
    for _ in range(steps):
        start = time.perf_counter()
        total += step()
        times.append(1000 * (time.perf_counter() - start))
    times.sort()
    print(f"median_ms {statistics.median(times):.6g}")
    print(f"p90_ms {times[len(times) * 9 // 10]:.6g}")
    print(f"sum {total:.9g}")


main()
