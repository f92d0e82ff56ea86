package checkpoint

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestPartial saves some kinds of a program's state between whole checkpoints. The image must
// contain the chosen kinds and nothing else, and a restore must refuse it with the reason. The
// program and the whole generations must be unaffected.
func TestPartial(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	want, status := runUndisturbed(daemon.Job(t, program, "60", "20000", "0"))
	job := daemon.Job(t, program, "60", "20000", "20000")
	job.Hold = true
	job.Start()
	job.WaitLines(5)
	kinds := []string{
		"cuda_context",
		"cuda_module",
		"cuda_function",
		"cuda_var",
		"cuda_device",
		"cuda_memory",
		"cuda_stream",
		"cuda_event",
	}
	for i, test := range []struct {
		flags            []string
		kinds            []string // nil: whole
		entries, objects string
	}{
		{
			[]string{"--target", "cuda_memory"},
			[]string{"cuda_memory"},
			"arena gpu0 worker",
			"memory, memory pool, pinned memory",
		},
		{
			[]string{"--target", "cuda_event,cuda_stream"},
			[]string{"cuda_stream", "cuda_event"},
			"objects session worker",
			"event, stream",
		},
		{nil, nil, "arena gpu0 objects session worker", ""},
		{
			[]string{"--skip-target", "cuda_memory,cuda_var", "--skip-target", "cuda_function"},
			[]string{"cuda_context", "cuda_module", "cuda_device", "cuda_stream", "cuda_event"},
			"objects session worker", "context, event, module, stream",
		},
		{[]string{"--target", strings.Join(kinds, ",")}, nil, "arena gpu0 objects session worker", ""},
	} {
		said := job.PreDump(test.flags...)
		n := uint64(i + 1)
		if strings.Contains(said, "partial") != (test.kinds != nil) {
			t.Errorf("%v: pos_cli printed %q", test.flags, said)
		}
		m, entries := readGeneration(t, job.Image, n)
		if !slices.Equal(m.Kinds, test.kinds) || entries != test.entries {
			t.Errorf("%v: saved %v, with %s", test.flags, m.Kinds, entries)
		}
		if m.Partial() != (m.CPU.Tree == "" && len(m.Files) == 0) {
			t.Errorf("%v: partial %v, CPU half %q, %d files", test.flags, m.Partial(), m.CPU.Tree, len(m.Files))
		}
		if test.kinds == nil {
			continue
		}
		if counted := strings.Join(slices.Sorted(maps.Keys(m.Processes[0].GPU.Objects)), ", "); counted != test.objects {
			t.Errorf("%v: counted %s, want %s", test.flags, counted, test.objects)
		}
		refused(t, job, n, test.kinds)
	}
	for _, flags := range [][]string{
		{"--target", "cuda_var", "--skip-target", "cuda_event"},
		{"--skip-target", strings.Join(kinds, ",")},
		{"--target", "cuda_dance"},
	} {
		if said, err := job.TryCli(append([]string{
			"--pre-dump", "--dir", job.Image, "--pid", fmt.Sprint(job.PID),
		}, flags...)...); err == nil {
			t.Errorf("%v: %s", flags, said)
		}
	}
	job.Kill()
	for _, n := range []int{3, 5} {
		job.Restore("--generation", fmt.Sprint(n))
		job.FinishLike(t, fmt.Sprint("generation ", n), want, status)
	}
	daemon.Empty()
}

// refused checks that every command that restores, or checks a restore, names what is missing.
func refused(t *testing.T, job *harness.Job, n uint64, kinds []string) {
	t.Helper()
	dir := []string{"--dir", job.Image, "--generation", fmt.Sprint(n)}
	for _, command := range [][]string{
		append([]string{"--restore", "--new-pids"}, dir...), append([]string{"--pre-restore"}, dir...),
		{"image", "check", job.Image, "--generation", fmt.Sprint(n), "--new-pids"},
	} {
		said, err := job.TryCli(command...)
		if err == nil || !strings.Contains(said, strings.Join(kinds, ", ")) {
			t.Errorf("%v: %q, %v", command, said, err)
		}
	}
	said := job.Cli("image", "show", job.Image, "--generation", fmt.Sprint(n))
	if !strings.Contains(said, "partial: only "+strings.Join(kinds, ", ")+"; it cannot be restored") {
		t.Errorf("image show printed %q", said)
	}
	var shown struct {
		Manifest struct{ Kinds []string } `json:"manifest"`
	}
	if err := json.Unmarshal([]byte(job.Cli(
		"image", "show", job.Image, "--json", "--generation", fmt.Sprint(n),
	)), &shown); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(shown.Manifest.Kinds, kinds) {
		t.Errorf("image show --json: kinds %v", shown.Manifest.Kinds)
	}
}

// readGeneration reads a generation: its manifest, and the names in its only GPU half.
func readGeneration(t *testing.T, path string, n uint64) (*image.Manifest, string) {
	t.Helper()
	return readTree(t, path, n, func(m *image.Manifest) string { return m.Processes[0].GPU.Tree })
}

// readTree reads a generation, or with 0 the newest: its manifest, and the names in one of its
// trees.
func readTree(
	t *testing.T, path string, n uint64, treeOf func(*image.Manifest) string,
) (*image.Manifest, string) {
	t.Helper()
	dir, err := os.Open(filepath.Clean(path))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	d, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m, err := d.Inspect(n)
	if err != nil {
		t.Fatal(err)
	}
	reader, done, err := d.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	hash, err := image.ParseHash(treeOf(m))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := reader.Tree(hash)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range tree.Entries {
		names = append(names, entry.Name)
	}
	return m, strings.Join(names, " ")
}
