# shellcheck shell=bash
# NVIDIA's Python bindings of NVML, by which the tests ask what libphos.so answers under the name of
# libnvidia-ml.so.1.

NVML=$CACHE/nvidia-ml-py-12.575.51-$(sha256sum <"$ROOT/scripts/nvml.txt" | cut -c 1-12)

# need_nvml sets NVML_PYTHON.
need_nvml() {
	need python3-venv
	export NVML_PYTHON=$NVML/bin/python
	if "$NVML_PYTHON" -c 'import pynvml' >/dev/null 2>&1; then
		say ok "nvidia-ml-py 12.575.51 (found)"
	else
		need ca-certificates
		step "install nvidia-ml-py 12.575.51" make_whole_venv "$NVML" nvml.txt
	fi
}
