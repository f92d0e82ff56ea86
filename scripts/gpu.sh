# shellcheck shell=bash
# What only a machine with a GPU can show: compiled here, run there.

CHECKS=$BIN/checks
check_packages=(tests/nested tests/e2e tests/checkpoint tests/bench)

# build_checks: the tests as programs, and the command that runs them. None knows where it was
# built, so that the same tree gives the same bytes.
build_checks() {
	local package
	mkdir -p "$CHECKS"
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$CHECKS/gpu" ./tests/gpu
	for package in "${check_packages[@]}"; do
		go test -c -trimpath -ldflags "-s -w" -o "$CHECKS/${package//\//-}.test" "./$package"
	done
}

# with_modules MODULE...: a Python of the machine's own that has them.
with_modules() {
	local python import
	python=$(command -v python3) || return 1
	import=$(
		IFS=,
		echo "$*"
	)
	"$python" -c "import $import" >/dev/null 2>&1 && echo "$python"
}

# system_pythons: the tests of frameworks run by what the machine has; what it has not, they skip by
# name.
system_pythons() {
	FRAMEWORKS_PYTHON=${FRAMEWORKS_PYTHON:-$(with_modules numba cupy)} || FRAMEWORKS_PYTHON_MISSING="python3 has no numba and cupy"
	NVML_PYTHON=${NVML_PYTHON:-$(with_modules pynvml)} || NVML_PYTHON_MISSING="python3 has no pynvml (nvidia-ml-py)"
	export FRAMEWORKS_PYTHON FRAMEWORKS_PYTHON_MISSING NVML_PYTHON NVML_PYTHON_MISSING PYCUDA_PYTHON_MISSING="pycuda compiles when it runs"
}

verb_gpu() {
	# A bundle brings all that is built or fetched, for a machine where neither can be done.
	if [ -e "$ROOT/bundle" ]; then
		# shellcheck source=/dev/null
		. "$ROOT/bundle"
	else
		verb_build
		need_criu
		need_cuda
		need_tinygrad
		step "compile the checks" build_checks
	fi
	system_pythons
	exec "$CHECKS/gpu" --root "$ROOT" "$@"
}

# compiled_from: what tells whether compiled programs are those of this tree: the tests that ask for
# them, and their sources.
compiled_from() {
	cat "$CHECKS"/tests-{e2e,checkpoint,bench}.test | sha256sum
	git -C "$ROOT" ls-files -co --exclude-standard tests/workloads tests/bench/testdata | (cd "$ROOT" && xargs sha256sum --)
	"$NVCC" --version
}

# compile_workloads: every program that the checks start, for a machine without compilers. No test
# is counted as passed here.
compile_workloads() {
	local package stamp=$CHECKS/compiled/.from
	export PHOS_COMPILED=$CHECKS/compiled PHOS_ONLY_COMPILE=1 PHOS_TEST_GPUS=soft:1 PHOS_BENCH='calls|pause|driver' PHOS_ROOT=$ROOT
	mkdir -p "$PHOS_COMPILED"
	compiled_from >"$stamp.new"
	! cmp -s "$stamp" "$stamp.new" || return 0
	for package in tests/e2e tests/checkpoint tests/bench; do
		(cd "$package" && "$CHECKS/${package//\//-}.test" -test.timeout 20m) || true
	done
	# What was not asked for belongs to an earlier tree.
	find "$PHOS_COMPILED" -name 'program*' ! -newer "$stamp.new" -delete
	find "$PHOS_COMPILED" -mindepth 1 -type d -empty -delete
	[ "$(find "$PHOS_COMPILED" -name program | wc -l)" -ge 40 ] || { echo "too few programs were compiled"; return 1; }
	mv "$stamp.new" "$stamp"
}

# bundle_criu: CRIU with its libraries, which the other machine need not have.
bundle_criu() {
	local to=$1
	mkdir -p "$to/lib"
	cp "$CRIU" "$to/criu.program"
	ldd "$CRIU" | awk '$3 ~ /^\// && $1 !~ /^(libc|libm|libdl|libpthread|librt)\.so/ { print $3 }' | xargs -r cp -t "$to/lib" --
	cat >"$to/criu" <<-'EOF'
		#!/bin/sh
		here=$(dirname "$(readlink -f "$0")")
		LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/criu.program" "$@"
	EOF
	chmod 755 "$to/criu"
}

# bundle_tinygrad: it is Python alone, so that any Python with numpy runs it.
bundle_tinygrad() {
	local to=$1 at
	at=$("$TINYGRAD_PYTHON" -c 'import os, tinygrad; print(os.path.dirname(tinygrad.__file__))')
	mkdir -p "$to"/{site,bin,source/tinygrad-0.14.0}
	cp -r "$at" "$to/site/"
	cp -r "$TINYGRAD/source/tinygrad-0.14.0/test" "$to/source/tinygrad-0.14.0/"
	find "$to" -name __pycache__ -prune -exec rm -rf {} +
	cat >"$to/bin/python" <<-'EOF'
		#!/bin/sh
		here=$(dirname "$(readlink -f "$0")")
		PYTHONPATH=$here/../site${PYTHONPATH:+:$PYTHONPATH} exec python3 "$@"
	EOF
	chmod 755 "$to/bin/python"
}

# bundle_settings: where the things are that build.sh would fetch or build.
bundle_settings() {
	cat <<-'EOF'
		# shellcheck shell=bash
		# Where the things are that build.sh would fetch or build.
		export NVCC_MISSING="the bundle has no compilers" CUDA_LIBRARIES=$CHECKS/cuda/lib CRIU_MISSING="the bundle has no criu"
		[ ! -e "$CHECKS/criu/criu" ] || export CRIU=$CHECKS/criu/criu
		if [ -n "$(with_modules numpy)" ]; then
			export TINYGRAD_PYTHON=$CHECKS/tinygrad/bin/python
		else
			export TINYGRAD_PYTHON_MISSING="there is no python3 with numpy"
		fi
	EOF
}

# bundle_head UNPACKER: a script that unpacks what follows it, by a program that follows it too:
# zstd is not on every machine.
bundle_head() {
	local head unpacker
	unpacker=$(stat -c %s "$1")
	head=$(
		cat <<-'EOF'
			#!/bin/sh
			# phos for a machine with a GPU: unpacks itself below the folder that is named, or here.
			set -e
			to=${1:-.} head=@HEAD@ unpacker=@UNPACKER@
			mkdir -p "$to"
			program=$(mktemp "$to/.unpack.XXXXXX")
			trap 'rm -f "$program"' EXIT
			tail -c +$((1$head - 9999)) "$0" | head -c "$unpacker" >"$program"
			chmod 700 "$program"
			tail -c +$((1$head - 9999 + unpacker)) "$0" | "$program" unpack | tar -x -C "$to"
			echo "now: $to/phos-gpu-bundle/build.sh gpu"
			exit 0
		EOF
	)
	head=${head/@UNPACKER@/$unpacker}
	# Its own length stands in it: a mark of as many letters as there will be digits.
	head=${head/@HEAD@/####}
	printf '%s\n' "${head/\#\#\#\#/$(printf '%04d' $((${#head} + 1)))}"
}

pack_bundle() {
	local stage=$CACHE/bundle name=phos-gpu-bundle
	rm -rf "$stage"
	mkdir -p "$stage/$name/bin"
	cp -r "$BIN"/{pos_cli,phosd,libphos.so,lib,checks} "$stage/$name/bin/"
	rm -f "$stage/$name/bin/checks/compiled/".from*
	strip "$stage/$name/bin"/{pos_cli,phosd}
	# What the tests read of the repository, and what runs them.
	git -C "$ROOT" ls-files -co --exclude-standard build.sh scripts tests/workloads tests/e2e tests/checkpoint tests/bench tests/nested go.mod |
		(cd "$ROOT" && xargs cp --parents -t "$stage/$name" --)
	[ -z "$CRIU" ] || bundle_criu "$stage/$name/bin/checks/criu"
	bundle_tinygrad "$stage/$name/bin/checks/tinygrad"
	mkdir -p "$stage/$name/bin/checks/cuda/lib"
	cp -L "$(dirname "$NVCC")"/../lib/libcudart.so.12 "$stage/$name/bin/checks/cuda/lib/"
	bundle_settings >"$stage/$name/bundle"
	bundle_head "$CHECKS/gpu" >"$stage/head"
	# The programs have much in common, as each holds the same runtime library. The same tree gives
	# the same bundle.
	tar -C "$stage" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go-w,u+rw -c "$name" |
		zstd -12 --long=27 -T0 -q -c >"$stage/body"
	cat "$stage/head" "$CHECKS/gpu" "$stage/body" >"$ROOT/$name.sh"
	rm -rf "$stage"
	local bytes
	bytes=$(stat -c %s "$ROOT/$name.sh")
	echo "$bytes bytes"
	[ "$bytes" -le $((60 << 20)) ] || { echo "the bundle has $bytes bytes; at most 60 MiB are promised"; return 1; }
}

verb_gpu_bundle() {
	phosd_needs_root
	verb_build
	need_criu
	need_cuda
	need_tinygrad
	[ -n "$NVCC" ] || die "the bundle contains compiled programs: $NVCC_MISSING"
	need zstd
	step "compile the checks" build_checks
	step "compile the programs that they start" compile_workloads
	step "pack phos-gpu-bundle.sh" pack_bundle
	say ok "on the other machine: sh phos-gpu-bundle.sh && phos-gpu-bundle/build.sh gpu"
}
