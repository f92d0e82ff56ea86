# shellcheck shell=bash
# What only a machine with a GPU can show: compiled here, run there.

CHECKS=$BIN/checks
check_packages=(tests/nesting tests/e2e tests/checkpoint tests/bench)

# build_checks: the tests as programs, and the command that runs them.
build_checks() {
	local package
	mkdir -p "$CHECKS"
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$CHECKS/gpu" ./tests/gpu
	for package in "${check_packages[@]}"; do
		go test -c -ldflags "-s -w" -o "$CHECKS/${package//\//-}.test" "./$package"
	done
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
	exec "$CHECKS/gpu" --root "$ROOT" "$@"
}

# compile_workloads: every program that the checks start, for a machine without compilers. No test passes meanwhile.
compile_workloads() {
	local package
	export PHOS_COMPILED=$CHECKS/compiled PHOS_ONLY_COMPILE=1 PHOS_TEST_GPUS=soft:1 PHOS_BENCH='calls|pause|driver'
	rm -rf "$PHOS_COMPILED"
	mkdir -p "$PHOS_COMPILED"
	for package in tests/e2e tests/checkpoint tests/bench; do
		(cd "$package" && "$CHECKS/${package//\//-}.test" -test.timeout 10m) || true
	done
	[ "$(find "$PHOS_COMPILED" -name program | wc -l)" -ge 40 ] || { echo "too few programs were compiled"; return 1; }
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

# bundle_tinygrad: it is Python alone, so that any Python runs it.
bundle_tinygrad() {
	local to=$1
	mkdir -p "$to/site"
	cp -r "$("$TINYGRAD_PYTHON" -c 'import os, tinygrad; print(os.path.dirname(tinygrad.__file__))')" "$to/site/"
	cat >"$to/python" <<-'EOF'
		#!/bin/sh
		here=$(dirname "$(readlink -f "$0")")
		PYTHONPATH=$here/site${PYTHONPATH:+:$PYTHONPATH} exec python3 "$@"
	EOF
	chmod 755 "$to/python"
}

pack_bundle() {
	local stage=$CACHE/bundle name=phos-gpu-bundle
	rm -rf "$stage"
	mkdir -p "$stage/$name/bin"
	cp -r "$BIN"/{pos_cli,phosd,libphos.so,lib,checks} "$stage/$name/bin/"
	strip "$stage/$name/bin"/{pos_cli,phosd}
	# What the tests read of the repository, and what runs them.
	git -C "$ROOT" ls-files build.sh scripts tests/workloads tests/e2e tests/checkpoint tests/bench tests/nesting go.mod |
		(cd "$ROOT" && xargs cp --parents -t "$stage/$name" --)
	[ -z "$CRIU" ] || bundle_criu "$stage/$name/bin/checks/criu"
	bundle_tinygrad "$stage/$name/bin/checks/tinygrad"
	mkdir -p "$stage/$name/bin/checks/cuda/lib" "$stage/$name/bin/checks/cuda/bin"
	cp -L "$(dirname "$NVCC")"/../lib/libcudart.so.12 "$stage/$name/bin/checks/cuda/lib/"
	cat >"$stage/$name/bundle" <<-'EOF'
		# shellcheck shell=bash
		# Where the things are that build.sh would fetch or build.
		[ ! -e "$CHECKS/criu/criu" ] || export CRIU=$CHECKS/criu/criu
		export TINYGRAD_PYTHON=$CHECKS/tinygrad/python NVCC_MISSING="the bundle has no compilers"
		export LD_LIBRARY_PATH=$CHECKS/cuda/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	EOF
	# The programs have much in common, as each holds the same runtime library.
	tar -C "$stage" -c "$name" | zstd -12 --long=27 -T0 -q -f -o "$ROOT/$name.tar.zst"
	rm -rf "$stage"
	local bytes
	bytes=$(stat -c %s "$ROOT/$name.tar.zst")
	[ "$bytes" -le $((60 << 20)) ] || { echo "the bundle has $bytes bytes; at most 60 MiB are promised"; return 1; }
}

verb_gpu_bundle() {
	phosd_needs_root
	verb_build
	need_criu
	need_cuda
	need_tinygrad
	[ -n "$NVCC" ] || die "the bundle brings compiled programs: $NVCC_MISSING"
	need zstd
	step "compile the checks" build_checks
	step "compile the programs that they start" compile_workloads
	step "pack phos-gpu-bundle.tar.zst" pack_bundle
	say ok "on the other machine: zstd -dc --long=27 phos-gpu-bundle.tar.zst | tar -x && phos-gpu-bundle/build.sh gpu"
}
