"""Says that it was shipped, and waits if it is told to."""

import os
import pathlib
import time

print("shipped to", os.environ["PHOS_NODE"], "with", os.environ["CUDA_VISIBLE_DEVICES"])
if pathlib.Path("hold").exists():
    time.sleep(3600)
