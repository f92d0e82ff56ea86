#!/usr/bin/env bash
# The speed table: ratios and times measured side by side in one run, on this machine, now.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

usage() {
	cat <<-EOF
		usage: ./build.sh bench [--size 4GiB] [--nodes 1000] [--rounds 3] [--dir /var/tmp] [--write] [GROUP...]

		GROUP      only these rows: calls interpreter digests pause tmpfs rate second restore migrate elsewhere away cut budget growth host comeback threads steps driver scheduler
		           sim peers planning training cluster
		--size     device memory of the program that is saved; the table of growth goes to twice as much
		--nodes    how many nodes of 8 GPUs the cluster has; ten times as many launches wait
		--rounds   how often what is compared is measured by turns; medians are compared
		--dir      where images are put: a disk
		--write    leave the table in bench/results, as Markdown and JSON: from a machine that does nothing else
	EOF
}

groups=()
while [ $# -gt 0 ]; do
	case $1 in
	--size | --nodes | --rounds | --dir)
		[ $# -gt 1 ] || die "$1 wants a value"
		variable=PHOS_BENCH_${1#--}
		export "${variable^^}=$2"
		shift
		;;
	--write) export PHOS_BENCH_WRITE=$ROOT/bench/results ;;
	-h | --help)
		usage
		exit 0
		;;
	-*) die "there is no $1; see: ./build.sh bench --help" ;;
	*) groups+=("$1") ;;
	esac
	shift
done
PHOS_BENCH=$(
	IFS='|'
	echo "${groups[*]-}"
)
export PHOS_BENCH=${PHOS_BENCH:-1}
exec go test -pgo=cli/pos_cli/default.pgo -count=1 -timeout 3h -run '^TestSpeed$' -v ./tests/bench
