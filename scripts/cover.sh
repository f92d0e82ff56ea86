#!/usr/bin/env bash
# Which code of the backend for real GPUs no test runs. phosd and the tests of tests/nested are
# built so that they count; most of their processes are killed, so that each writes its counts down
# all the time (cgo/cudadrv/counted.go).
set -euo pipefail

usage() {
	cat <<-EOF
		usage: ./build.sh cover [--json FILE] [SUITE...]

		Runs tests/nested and a sample of other suites over a second phosd, as the test verb does, and shows what of daemon/gpu/cuda and
		cgo/cudadrv was not run. It fails when tests/cover/exceptions.txt does not say why.

		SUITE   only these, whole: nested e2e checkpoint scenarios policy crash
		--json  write the report to a file, too
	EOF
}

report=()
suites=()
while [ $# -gt 0 ]; do
	case $1 in
	--json)
		[ $# -gt 1 ] || { echo "cover: --json wants a file" >&2; exit 2; }
		report=(-json "$(cd "${CALLED_FROM:-.}" && realpath -m "$2")")
		shift
		;;
	-h | --help)
		usage
		exit 0
		;;
	nested | e2e | checkpoint | scenarios | policy | crash) suites+=("$1") ;;
	*)
		echo "cover: no suite that runs over a second phosd is called $1" >&2
		usage >&2
		exit 2
		;;
	esac
	shift
done

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/suites.sh"
cd "$ROOT"

# What writes counts down while a program runs came then.
[ "$(gcc -dumpversion | cut -d. -f1)" -ge 12 ] || die "counting what is run of C takes GCC 12 or newer"

# The folders of notes are new each time, and among the compiler's flags: the go command compiles
# again, and does not keep the notes.
work=$WHILE_TESTING
mkdir -p "$work"/{bin,notes/{phosd,nested},counts/{go,c/{phosd,nested}}}
chmod -R 1777 "$work/counts" # workers have the rights of the programs' users

module=$(go list -m)
# phosd is counted too, because nothing is where main is not. It is passed over later.
packages=$module/daemon/gpu/cuda,$module/daemon/gpu/cuda/devicelist,$module/daemon/gpu/cuda/devprintf,$module/cgo/cudadrv,$module/cli/phosd
counted=(-tags "netgo osusergo counted" -ldflags "-X $module/cgo/cudadrv.countsFolder=$work/counts" -cover -covermode=atomic "-coverpkg=$packages")

# counting NAME COMMAND...: a build with notes of the C in it, in a folder of that name. Optimized,
# lines would be one with others.
counting() {
	CGO_ENABLED=1 CGO_CFLAGS="-O0 -g -dumpdir $work/notes/$1/" CGO_CFLAGS_ALLOW='-f(profile|test-coverage).*' "${@:2}"
}

build_counting() {
	cp -a bin/. "$work/bin"
	counting phosd go build "${counted[@]}" -o "$work/bin/" ./cli/phosd
}

# merge_c NAME: what all processes of a build have run of C, as JSON.
merge_c() {
	local all='' n=0 process
	shopt -s nullglob
	for process in "$work/counts/c/$1"/*; do
		! rmdir "$process" 2>/dev/null || continue # it was killed before it had written anything
		n=$((n + 1))
		if [ -z "$all" ]; then
			mkdir -p "$work/merged"
			cp -r "$process" "$work/merged/$1.$n"
		else
			gcov-tool merge "$all" "$process" -o "$work/merged/$1.$n"
			rm -r "$all"
		fi
		all=$work/merged/$1.$n
	done
	[ -n "$all" ] || return 0
	cp "$work/notes/$1"/_x*.gcno "$all"
	gcov --json-format --stdout "$all"/*.gcda
}

merge() {
	go tool covdata textfmt -i="$work/counts/go" -o="$work/blocks"
	{
		merge_c phosd
		merge_c nested
	} >"$work/lines"
}

step "build phosd so that it counts" build_counting
export PHOS_BIN=$work/bin
if [ ${#suites[@]} = 0 ] || [[ " ${suites[*]} " = *' nested '* ]]; then
	counting nested go_test nested-counted -timeout 15m -count=1 "${counted[@]}" ./tests/nested
fi
export PHOS_TEST_NESTED=1
[ ${#suites[@]} -gt 0 ] || nested_sample
for suite in "${suites[@]}"; do
	[ "$suite" = nested ] || go_test "nested-$suite" -timeout 40m -count=1 "./tests/$suite"
done
step "merge what was counted" merge
go run ./tests/cover -blocks "$work/blocks" -lines "$work/lines" "${report[@]}"
