#!/usr/bin/env bash
# Everything that can be said of the sources without running them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

version=v2.5.0
linter=$CACHE/bin/golangci-lint-$version-$(go env GOVERSION)

# golangci-lint refuses sources of a newer Go than it was built with itself.
install_linter() {
	GOTOOLCHAIN=$(go env GOVERSION) GOBIN=$CACHE/bin go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version"
	mv "$CACHE/bin/golangci-lint" "$linter"
}
c_sources() { find hijack/shim hijack/nvml tests \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) ! -name 'zz_*'; }
format_c() { c_sources | xargs clang-format --dry-run -Werror; }
no_drift() { go mod tidy -diff && go test ./hijack/gen/...; }

[ -x "$linter" ] || step "install golangci-lint" install_linter
# What counts for scripts/cover.sh is in no build that the linters see.
vet_counted() { CGO_ENABLED=1 CGO_CFLAGS_ALLOW='-f(profile|test-coverage).*' go vet -tags counted ./cgo/cudadrv ./tests/nested; }

step "golangci-lint" "$linter" run ./...
step "vet what counts" vet_counted
step "clang-format" format_c
step "shellcheck" shellcheck -x -P SCRIPTDIR build.sh scripts/*.sh scripts/hooks/* .ci/run \
	deploy/debian/{postinst,prerm,postrm} tests/packages/testdata/*.sh
step "go mod tidy, generated files" no_drift
