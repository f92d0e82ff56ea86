package plan

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/internal/words"
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

// TestShortErrors: an error about a file has at most 200 characters, whatever the file has in it,
// and names the file and the place.
func TestShortErrors(t *testing.T) {
	long := strings.Repeat("x", 2_000_000)
	layer := `{"layers": [{"name": "` + long + `", "forward_ms": 1, "backward_ms": 1, `
	for name, each := range map[string]struct{ text, place string }{
		"name.json":   {`{"layers": [{"name": "` + long + `", "forward_ms": 1}]}`, "layer 0 (xxx"},
		"key.json":    {`{"layers": [], "` + long + `": 1}`, "line 1, column "},
		"twice.json":  {`{"layers": [], "layers": []}`, "line 1, column "},
		"value.json":  {layer + `"state_bytes": 1` + strings.Repeat("0", 100_000) + `}]}`, "layer 0 (xxx"},
		"time.json":   {layer + `"allreduce_in_node_ms": {"` + long + `": 1}}]}`, "layer 0 (xxx"},
		"below.json":  {layer + `"state_bytes": -5}]}`, "layer 0 (xxx"},
		"column.csv":  {"name,forward_ms,backward_ms," + long + "\n", "line 1"},
		"number.csv":  {"name,forward_ms,backward_ms\na,1,2\nb," + long + ",2\n", "line 3"},
		"members.csv": {"name,forward_ms,backward_ms,allreduce_across_ms_" + long + "\na,1,2,3\n", "line 2"},
		"fields.csv":  {"name,forward_ms,backward_ms\na,1," + long + ",\n", "line 2"},
	} {
		path := file(t, name, each.text)
		_, err := say(context.Background(), "templates", "--nodes", "2", "--profile", path)
		if err == nil || len([]rune(err.Error())) > words.MaxError || !strings.Contains(err.Error(), name+": ") ||
			!strings.Contains(err.Error(), each.place) {
			t.Errorf("%s: %.300s", name, fmt.Sprint(err))
		}
	}
	path := file(t, strings.Repeat("y", 200)+".csv", "name,"+long+"\n")
	if _, err := say(context.Background(), "make", "--nodes", "2", "--microbatches", "4", "--profile", path); err == nil ||
		len([]rune(err.Error())) > words.MaxError || !strings.Contains(err.Error(), "yyy.csv: line 1: unknown column") {
		t.Errorf("a long path: %.300s", fmt.Sprint(err))
	}
}

// TestShortErrorsOfPlans: the same for plans.
func TestShortErrorsOfPlans(t *testing.T) {
	profile, long := file(t, "model.csv", model), strings.Repeat("9", 100_000)
	text, err := say(context.Background(), "make", "--nodes", "3", "--microbatches", "4", "--profile", profile, "--json")
	if err != nil {
		t.Fatal(err)
	}
	for old, edited := range map[string]string{
		`"hash": "`:        `"hash": "` + long,
		`"iteration_ms": `: `"iteration_ms": ` + long,
		`"time_ms": `:      `"time_ms": ` + long,
		`"template": `:     `"template": ` + long,
		`"nodes": [`:       `"nodes": [-5, ` + strings.Repeat("7, ", 50_000),
	} {
		path := file(t, "edited.json", strings.Replace(text, old, edited, 1))
		_, err := say(context.Background(), "fail", "--plan", path, "--dead", "1")
		if err == nil || len([]rune(err.Error())) > words.MaxError || !strings.Contains(err.Error(), "edited.json: ") {
			t.Errorf("%s: %.300s", old, fmt.Sprint(err))
		}
	}
}

// TestMachines: plans know the machines that nodes share, and say if they are too few.
func TestMachines(t *testing.T) {
	profile := file(t, "model.csv", model)
	all := []string{"make", "--profile", profile, "--nodes", "4", "--microbatches", "8", "--gpu-memory", "20", "--faults", "1"}
	// Each pipeline has two nodes, 0 and 1, and 2 and 3.
	out, err := say(t.Context(), append(all, "--machines", "0,2/1,3", "--json")...)
	if err != nil || !strings.Contains(strings.Join(strings.Fields(out), ""), `"machines":[[0,2],[1,3]]`) {
		t.Errorf("%v: %s", err, out)
	}
	made := file(t, "plan.json", out)
	for args, want := range map[string]string{
		"--machines 0,1,2/3": "--faults 1 takes: ", "--machines 0-3": "an iteration", "--machines 0/1/2/3": "an iteration",
	} {
		if out, err = say(t.Context(), append(all, strings.Fields(args)...)...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v: %s", args, err, out)
		}
	}
	if out, err = say(t.Context(), "fail", "--plan", made, "--machines", "0-2/3"); err != nil || !strings.Contains(out, "takes: ") {
		t.Errorf("%v: %s", err, out)
	}
	for _, bad := range []string{"", "/", "0-1/1", "x", "0-", "1/2/", "-1"} {
		if out, err := say(t.Context(), append(all, "--machines="+bad)...); err == nil {
			t.Errorf("--machines %q is taken: %s", bad, out)
		}
	}
	text, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	edited := file(t, "edited.json", strings.Replace(string(text), "[\n   0,\n   2\n  ]", "[0, 77]", 1))
	if _, err := say(t.Context(), "fail", "--plan", edited, "--dead", "1"); err == nil || !strings.Contains(err.Error(), "machines") {
		t.Errorf("a plan with other machines: %v", err)
	}
}
