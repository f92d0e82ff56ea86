# shellcheck shell=bash
# PyTorch for CPUs, with which the tests train in pipelines: the distribution's.

# need_training sets TRAINING_PYTHON.
need_training() {
	need python3-torch
	export TRAINING_PYTHON=/usr/bin/python3
}
