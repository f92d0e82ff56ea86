package api

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestGeneratedFiles checks that the generated files are up to date with the .proto files.
func TestGeneratedFiles(t *testing.T) {
	for _, name := range []string{"daemon", "worker"} {
		source, err := os.ReadFile(name + ".proto")
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("// sha256 of %s.proto: %x\n", name, sha256.Sum256(source))
		for _, generated := range []string{"zz_" + name + "_pb.go", "zz_" + name + "_grpc_pb.go"} {
			text, err := os.ReadFile(generated)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), want) {
				t.Errorf("%s is out of date: run go generate ./daemon/api", generated)
			}
		}
	}
}
