#!/usr/bin/env bash
# Builds, shows, tests and installs phos. "./build.sh help" lists the verbs.
set -euo pipefail
CALLED_FROM=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"
. scripts/lib.sh
. scripts/go.sh
. scripts/shim.sh
. scripts/tinygrad.sh
. scripts/cuda.sh
. scripts/frameworks.sh
. scripts/nccl.sh
. scripts/nvml.sh
. scripts/clusterfudge.sh
. scripts/training.sh
. scripts/criu.sh
. scripts/prometheus.sh
. scripts/chromium.sh
. scripts/containers.sh
. scripts/verbs.sh
. scripts/gpu.sh
. scripts/roots.sh
. scripts/package.sh
. scripts/image.sh

# CRIU cannot save a program whose session's leader it does not see.
! leaderless || in_own_session "$CALLED_FROM" "$ROOT/build.sh" "$@"

usage() {
	cat <<-EOF
		usage: ./build.sh [VERB]

		  (none)            build the programs and libphos.so into bin/, the Python package into dist/
		  demo [ranks]      train a small network on the software GPU, save, kill and restore it, compare;
		                    or two ranks on two GPUs, as one job
		  demo cluster      run a launch on three hosts, made of namespaces; kill one, drain one
		  test              install what the tests need, build, run every test
		  install [PREFIX]  install into PREFIX (/usr/local); "uninstall [PREFIX]" removes it
		  package           make a .deb and an OCI image of phosd, in dist/
		  cover [SUITE...]  show which code of the backend for real GPUs no test runs (cover --help)
		  lint              golangci-lint, clang-format, shellcheck
		  bench [GROUP...]  measure, and print the speed table as ratios of one run (bench --help)
		  gpu [PART...]     test and measure on this machine's NVIDIA GPU (gpu --help)
		  gpu-bundle        pack "gpu" for a machine without Go, compilers and the internet
		  generate          write all generated files
		  clean             remove bin/, dist/ and the cache
		  help              this text

		The cache holds downloads and tools that were built for tests: .cache/, or \$PHOS_CACHE.
	EOF
}

verb=${1:-build}
[ $# = 0 ] || shift
case $verb in
build | demo | lint | bench | generate | clean | install | uninstall | package | gpu) "verb_$verb" "$@" ;;
gpu-bundle) verb_gpu_bundle "$@" ;;
cover) verb_cover "$@" ;;
test) verb_test "$@" ;;
help | -h | --help) usage ;;
*)
	echo "build.sh: no verb is called $verb" >&2
	usage >&2
	exit 2
	;;
esac
