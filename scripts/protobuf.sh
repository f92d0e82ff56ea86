#!/bin/sh
# Generates zz_ files from the .proto files that are named, in the directory it is called in. Needs
# protoc (Debian: protobuf-compiler); the versions of the Go plugins are pinned in go.mod.
set -eu
command -v protoc >/dev/null || { echo "protoc is missing; install protobuf-compiler" >&2; exit 1; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
protoc -I . \
	--plugin="protoc-gen-go=$(go tool -n protoc-gen-go)" \
	--plugin="protoc-gen-go-grpc=$(go tool -n protoc-gen-go-grpc)" \
	--go_out="$out" --go_opt=paths=source_relative \
	--go-grpc_out="$out" --go-grpc_opt=paths=source_relative \
	"$@"
for file in "$out"/*.go; do
	# Drop the version of protoc, which differs between distributions. Add the sum of the source:
	# with it tests/rules finds files that are out of date, without protoc.
	source=$(basename "$file" | sed 's/\(_grpc\)*\.pb\.go$/.proto/')
	sed -e '/^\/\/.*protoc  *v[0-9]/d' -e "1a // sha256 of $source: $(sha256sum <"$source" | cut -d ' ' -f 1)" "$file" \
		>"zz_$(basename "$file" | tr . _ | sed 's/_go$/.go/')"
done
