"""Keeps a program from ending too early for a test."""

import os
import time


def hold():
    """Waits for the file that the environment variable HOLD names, if it names one."""
    while "HOLD" in os.environ and not os.path.exists(os.environ["HOLD"]):
        time.sleep(0.005)
