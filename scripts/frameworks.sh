# shellcheck shell=bash
# numba, CuPy and pycuda, whose programs are saved and restored by the tests, in a virtual
# environment of their own.

FRAMEWORKS=$CACHE/frameworks

make_frameworks() {
	local new=$FRAMEWORKS.new
	rm -rf "$FRAMEWORKS"
	make_venv "$new" frameworks.txt || return 1
	cp "$ROOT/scripts/frameworks.txt" "$new/holds.txt" || return 1
	mv "$new" "$FRAMEWORKS"
}

# need_frameworks sets FRAMEWORKS_PYTHON. NVIDIA's nvJitLink is left out: it would make machine code
# of what numba compiles, and without it numba has the driver link PTX.
need_frameworks() {
	need python3-venv
	export FRAMEWORKS_PYTHON=$FRAMEWORKS/bin/python
	if cmp -s "$ROOT/scripts/frameworks.txt" "$FRAMEWORKS/holds.txt" && "$FRAMEWORKS_PYTHON" -c 'import llvmlite, numpy' >/dev/null 2>&1; then
		say ok "numba 0.68.1 and CuPy 14.2.0 (found)"
	else
		need ca-certificates
		step "install numba 0.68.1 and CuPy 14.2.0 (300 MB)" make_frameworks
	fi
}

# build_pycuda CUDA: links with libphos.so, which has the driver's name for what links with it.
build_pycuda() {
	local source=$FRAMEWORKS/pycuda
	rm -rf "$source"
	"$FRAMEWORKS_PYTHON" -m pip download --disable-pip-version-check --no-deps --no-build-isolation --no-binary pycuda -d "$source" \
		--require-hashes -r "$ROOT/scripts/pycuda.txt" || return 1
	cd "$source" || return 1
	tar -xf pycuda-*.tar.gz --strip-components 1 || return 1
	cat >siteconf.py <<-END
		CUDA_ROOT = "$1"
		CUDA_ENABLE_CURAND = False
		CUDADRV_LIB_DIR = ["$ROOT/bin/lib"]
		CXXFLAGS = ["-O0", "-w"]
	END
	"$FRAMEWORKS_PYTHON" setup.py -q build_ext -j "$(nproc)" || return 1
	"$FRAMEWORKS_PYTHON" -m pip install --disable-pip-version-check --no-deps --no-index --no-build-isolation "$source" || return 1
	rm -rf "$source"
}

# need_pycuda sets PYCUDA_PYTHON, after need_frameworks, need_cuda and the build; empty where there
# is no nvcc to compile with.
need_pycuda() {
	export PYCUDA_PYTHON='' PYCUDA_PYTHON_MISSING=$NVCC_MISSING
	local include
	[ -n "$NVCC" ] || return 0
	PYCUDA_PYTHON=$FRAMEWORKS_PYTHON
	if "$PYCUDA_PYTHON" -c 'from importlib.metadata import version; assert version("pycuda") == "2026.1"' 2>/dev/null; then
		say ok "pycuda 2026.1 (found)"
		return
	fi
	include=$("$PYCUDA_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')
	[ -e "$include/Python.h" ] || need python3-dev
	need g++
	step "build pycuda 2026.1" build_pycuda "$(dirname "$(dirname "$NVCC")")"
}
