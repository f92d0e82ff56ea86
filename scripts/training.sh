# shellcheck shell=bash
# PyTorch for CPUs, with which the tests train in pipelines: the distribution's. And Hugging Face's
# transformers, the last version for PyTorch 1.13, in a virtual environment beside it.

TRANSFORMERS_VENV=$CACHE/transformers-4.30.2-$(sha256sum <"$ROOT/scripts/transformers.txt" | cut -c 1-12)

# need_training sets TRAINING_PYTHON and TRANSFORMERS.
need_training() {
	need python3-torch python3-venv
	export TRAINING_PYTHON=/usr/bin/python3
	if [ "$("$TRAINING_PYTHON" -c 'import sys; print(sys.version_info[:2])')" != "(3, 11)" ]; then
		export TRANSFORMERS_MISSING="transformers 4.30.2 needs Python 3.11, as in Debian 12"
		return
	fi
	export TRANSFORMERS=$TRANSFORMERS_VENV/lib/python3.11/site-packages
	if [ -d "$TRANSFORMERS/transformers" ]; then
		say ok "transformers 4.30.2 (found)"
	else
		need ca-certificates
		step "install transformers 4.30.2 (150 MB)" make_whole_venv "$TRANSFORMERS_VENV" transformers.txt
	fi
}
