package workload

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGavelCounts: a GPU count that the table lacks has the speed of the next smaller one, or else
// a part of the next greater one's. The table is found three folders above the trace, as in Gavel's
// repository.
func TestGavelCounts(t *testing.T) {
	trace, err := Read("testdata/gavel/repository/traces/vc/a.trace", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var lengths []time.Duration
	for _, j := range trace.Jobs.All() {
		lengths = append(lengths, j.Length)
	}
	same(t, "lengths", lengths, []time.Duration{300 * s, 180 * s, 180 * s, 180 * s, 1000 * s, 250 * s, 5 * s})
	same(t, "notes", trace.Notes, []string{
		"4 of 7 jobs: " + gavelFewer, "1 of 7 jobs: " + gavelMore, "lengths are those on a v100",
		"throughputs are from ../../simulation_throughputs.json, above the trace",
	})
}

// TestFolderWithPattern: the folder of a trace may contain characters of patterns.
func TestFolderWithPattern(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "seed=[0]*")
	if err := os.CopyFS(dir, os.DirFS("testdata/gavel")); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(filepath.Join(dir, "old.trace"), Options{}); err != nil {
		t.Error(err)
	}
}

// TestPolluxProfiles: profiles are sorted by GPUs, which polluxLength relies on, and more GPUs than
// were measured never make a job slower than fewer of them.
func TestPolluxProfiles(t *testing.T) {
	for application, profiles := range polluxProfiles {
		for i, p := range profiles {
			if length, rule := polluxLength(application, p.gpus, p.batch); length != time.Duration(p.seconds)*s ||
				rule != "" {
				t.Errorf("%s %+v: got %v, %q", application, p, length, rule)
			}
			if i > 0 && p.gpus < profiles[i-1].gpus {
				t.Errorf("%s %+v comes behind %+v", application, p, profiles[i-1])
			}
			if length, rule := polluxLength(application, maxGPUs, p.batch); length <= 0 || rule != polluxFewer {
				t.Errorf("%s on %d GPUs: got %v, %q", application, maxGPUs, length, rule)
			}
		}
	}
}

// TestProcessorsPerGPU: several processors are a GPU, rounded up; nodes have whole GPUs, also
// together, or are unknown.
func TestProcessorsPerGPU(t *testing.T) {
	for _, each := range []struct {
		per    int
		gpus   []int
		nodes  int
		onNode int
	}{
		{0, []int{12, 8, 1, 32}, 4, 8},
		{1, []int{12, 8, 1, 32}, 4, 8},
		{4, []int{3, 2, 1, 8}, 4, 2},
		{3, []int{4, 3, 1, 11}, 0, 0},
		{16, []int{1, 1, 1, 2}, 2, 1},
		{64, []int{1, 1, 1, 1}, 0, 0},
	} {
		trace, err := Read("testdata/swf/parts.swf", Options{ProcessorsPerGPU: each.per})
		if err != nil {
			t.Fatal(err)
		}
		var gpus []int
		for _, j := range trace.Jobs.All() {
			gpus = append(gpus, j.GPUs)
		}
		same(t, "GPUs", gpus, each.gpus)
		if len(trace.Nodes) != each.nodes || each.nodes > 0 && trace.Nodes[0].GPUs != each.onNode {
			t.Errorf("%d processors for a GPU: got nodes %+v", each.per, trace.Nodes)
		}
	}
	_, err := Read("testdata/pollux/workload-1.csv", Options{ProcessorsPerGPU: 4})
	if want := "workload-1.csv: want no number of processors per GPU: it is read as pollux, which counts GPUs"; err == nil ||
		err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestHeaders: a header that is no size, or an absurd one, describes no cluster.
func TestHeaders(t *testing.T) {
	for header, want := range map[string]int{
		"; MaxNodes: 3\n":                             3,
		";MaxNodes:3\n;MaxProcs:3\n":                  3,
		"; MaxProcs: 64\n":                            0,
		"; MaxNodes: 3\n; MaxProcs: 4\n":              0,
		"; MaxNodes: 0\n; MaxProcs: 0\n":              0,
		"; MaxNodes: -3\n":                            0,
		"; MaxNodes: UNKNOWN\n":                       0,
		"; MaxNodes: 99999999999999999999999\n":       0,
		"; MaxNodes: 9223372036854775807\n":           0,
		"; MaxNodes: 1\n; MaxProcs: 65\n":             0,
		"; MaxNodes\n; : 7\n;\n; Note: MaxNodes: 7\n": 0,
	} {
		trace, err := ReadFrom(strings.NewReader(header+swfLine), "f", Options{Format: "swf"})
		if err != nil || len(trace.Nodes) != want {
			t.Errorf("%q: got %d nodes, %v, want %d", header, len(trace.Nodes), err, want)
		}
	}
}

// TestLongEntries: an entry of JSON that does not end is not read into memory.
func TestLongEntries(t *testing.T) {
	in := io.MultiReader(strings.NewReader(`[{"jobid": "`), io.LimitReader(letters{}, 1<<40))
	_, err := ReadFrom(in, "f", Options{Format: "philly"})
	if want := "f:1: want entries of at most 64 MiB"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	dir := t.TempDir()
	table, err := os.Create(filepath.Join(dir, "throughputs.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	if _, err := table.WriteString(`{"`); err != nil {
		t.Fatal(err)
	}
	if err := table.Truncate(1 << 36); err != nil { // a hole: it needs no space
		t.Fatal(err)
	}
	trace := filepath.Join(dir, "a.trace")
	if err := os.WriteFile(trace, []byte("m\tc\ta\t1\t10\t0\t1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(trace, Options{}); err == nil || !strings.HasPrefix(err.Error(), "throughputs.json: want") {
		t.Errorf("a table of 64 GiB: got %v", err)
	}
}

// letters is an endless text.
type letters struct{}

func (letters) Read(to []byte) (int, error) {
	for i := range to {
		to[i] = 'x'
	}
	return len(to), nil
}

// TestLongErrors: errors have at most words.MaxError characters, whatever they quote.
func TestLongErrors(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	for _, e := range []*Error{
		{File: long, Line: 1 << 40, Column: long, Value: long, Has: true, Want: long},
		{File: long, Value: shortened(strings.Repeat("\xff", 5000)), Has: true, Want: long},
		{File: "f", Want: long},
	} {
		if text := e.Error(); len([]rune(text)) > 200 || !strings.HasSuffix(text, "…") {
			t.Errorf("%d characters: %s", len([]rune(text)), text)
		}
	}
	if _, err := ReadFrom(strings.NewReader(""), "f", Options{Format: long}); len([]rune(err.Error())) > 200 {
		t.Errorf("an unknown format: %d characters", len([]rune(err.Error())))
	}
}
