"""with_models.py MODEL STEPS SECONDS SCALE: PyTorch trains, or decodes with, one of the models of
the step benchmark. Prints every step's result exactly, and writes the final weights to a file.
Ends with status 7."""

import os
import sys
import time

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../torch"))

from hold import hold  # noqa: E402
from models import make, torch  # noqa: E402
from weights import leave  # noqa: E402

KIND, STEPS, REST, SCALE = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])


def main():
    torch.use_deterministic_algorithms(True)
    # Only this implementation of attention has a deterministic backward pass.
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    step, model = make(KIND, SCALE)
    for number in range(STEPS):
        print("step", number, float(step()).hex(), flush=True)
        time.sleep(REST)
    hold()
    leave(model)
    print("ok", KIND, flush=True)


main()
sys.exit(7)
