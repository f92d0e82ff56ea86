package rules

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"path"
	"strings"
	"testing"
)

// TestGeneratedMessages: the generated files beside each .proto file are up to date. They carry the
// sum of their source, so that this needs no protoc.
func TestGeneratedMessages(t *testing.T) {
	for _, source := range files(t, func(f file) bool { return f.has(".proto") }) {
		name := strings.TrimSuffix(path.Base(source.path), ".proto")
		want := fmt.Appendf(nil, "// sha256 of %s.proto: %x\n", name, sha256.Sum256(source.text))
		for _, generated := range []string{"zz_" + name + "_pb.go", "zz_" + name + "_grpc_pb.go"} {
			at := path.Join(source.dir(), generated)
			for _, f := range files(t, func(f file) bool { return f.path == at }) {
				if !bytes.Contains(f.text, want) {
					t.Errorf("%s is out of date: run go generate ./%s", at, source.dir())
				}
			}
		}
	}
}
