package plan

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/cli/verb"
)

// say runs a plan verb and returns its output.
func say(ctx context.Context, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	set := verb.Set{Program: "pos_cli", Verbs: Verbs()}
	_, err := set.Run(ctx, append([]string{"plan"}, args...), verb.Streams{Out: &stdout, Err: &stderr})
	return stdout.String(), err
}

// file writes a file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	model  = "name,forward_ms,backward_ms,state_bytes\na,1,2,9\nb,2,3,9\nc,2,2,9\nd,1,1,9\n"
	failed = "time_s,node,event\n10,1,down\n20,1,up\n"
)

// TestInterrupted: an interrupted verb prints nothing, and says so.
func TestInterrupted(t *testing.T) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	profile, trace := file(t, "model.csv", model), file(t, "trace.csv", failed)
	for _, args := range [][]string{
		{"make", "--microbatches", "8"},
		{"make", "--microbatches", "8", "--gpu-memory", "20"},
		{"templates"},
		{"templates", "--gpus-per-node", "2"},
		{"replay", "--microbatches", "8", "--trace", trace},
	} {
		args = append(args, "--profile", profile, "--nodes", "2")
		if out, err := say(context.Background(), args...); err != nil || out == "" {
			t.Errorf("%q: %q, %v", args, out, err)
		}
		out, err := say(done, args...)
		if err == nil || err.Error() != "interrupted: there is no result" || out != "" {
			t.Errorf("%q, interrupted: %q, %v", args, out, err)
		}
	}
}
