#!/usr/bin/env bash
# The speed table: ratios and times measured side by side in one run, on this machine, now.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

PHOS_BENCH=1 exec go test -count=1 -run '^TestSpeed$' -v ./tests/bench
