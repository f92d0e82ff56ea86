package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var sources = fstest.MapFS{
	"daemon/gpu/cuda/memory.go": {Data: []byte(`package cuda

func (m *Memory) ReadAt() error {
	if m.ended {
		return nothing
	}

	return nil
}

var late = func() { go on() }
`)},
	"cgo/cudadrv/driver.c": {Data: []byte("int phos_open(void)\n{\n\treturn gone ? 1 : 0;\n}\n")},
	"cgo/cudadrv/zz_calls.go": {Data: []byte(`package cudadrv

/*
static int32_t phos_cuInit(uint32_t a0)
{
	return ((int32_t (*)(uint32_t))phos_driver[0])(a0);
}
*/
import "C"
`)},
}

const profile = `mode: atomic
github.com/phos-gpu/phos/daemon/gpu/cuda/memory.go:3.33,4.13 1 7
github.com/phos-gpu/phos/daemon/gpu/cuda/memory.go:4.13,6.3 1 0
github.com/phos-gpu/phos/daemon/gpu/cuda/memory.go:8.2,8.12 1 0
github.com/phos-gpu/phos/daemon/gpu/cuda/memory.go:8.2,8.12 1 3
github.com/phos-gpu/phos/daemon/gpu/cuda/memory.go:11.19,11.29 1 0
github.com/phos-gpu/phos/daemon/gpu/cuda/memory.go:11.29,11.29 0 0
github.com/phos-gpu/phos/cgo/cudadrv/counted.go:1.1,2.2 1 0
github.com/phos-gpu/phos/cli/phosd/main.go:1.1,2.2 1 0
`

func notRun(places []place) (all []string) {
	for _, p := range places {
		if !p.run {
			all = append(all, p.String())
		}
	}
	return all
}

func checkEqual(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestBlocks: a block counts as run if one program has run it. Blocks without statements are
// ignored.
func TestBlocks(t *testing.T) {
	places, err := readBlocks([]byte(profile), sources)
	if err != nil {
		t.Fatal(err)
	}
	if len(places) != 4 {
		t.Errorf("%d blocks", len(places))
	}
	checkEqual(t, "not run", notRun(places), []string{
		"daemon/gpu/cuda/memory.go:5 Memory.ReadAt: return nothing",
		"daemon/gpu/cuda/memory.go:11 a variable: { go on() }",
	})
}

// gcov reports a line three times: for an inlined function, run and not run, and for another
// program. Code that cgo adds is not ours.
const gcov = `{"files": [{"file": "driver.c", "lines": [
	{"line_number": 1, "count": 5, "unexecuted_block": false, "function_name": "phos_open"},
	{"line_number": 3, "count": 5, "unexecuted_block": true, "function_name": "phos_open"}]},
	{"file": "cgo-gcc-prolog", "lines": [{"line_number": 9, "count": 0, "unexecuted_block": true, "function_name": "x"}]},
	{"file": "_cgo_export.c", "lines": [{"line_number": 9, "count": 0, "unexecuted_block": true, "function_name": "x"}]},
	{"file": "/usr/include/stdlib.h", "lines": [{"line_number": 9, "count": 0, "unexecuted_block": true, "function_name": "x"}]},
	{"file": "/tmp/go-build/counted.cover.go", "lines": [{"line_number": 9, "count": 0, "unexecuted_block": true, "function_name": "x"}]}]}
{"files": [{"file": "/tmp/go-build/zz_calls.cover.go", "lines": [
	{"line_number": 6, "count": 0, "unexecuted_block": true, "function_name": "a_call"}]}]}
{"files": [{"file": "/tmp/go-build/zz_calls.cover.go", "lines": [
	{"line_number": 6, "count": 1, "unexecuted_block": false, "function_name": "another"}]}]}
`

func TestLines(t *testing.T) {
	places, err := readLines([]byte(gcov), sources)
	if err != nil {
		t.Fatal(err)
	}
	if len(places) != 3 || places[2].Function != "a_call" || places[2].Line != 6 {
		t.Errorf("counted: %v", places)
	}
	checkEqual(t, "not run", notRun(places), []string{"cgo/cudadrv/driver.c:3 phos_open: return gone ? 1 : 0;"})
}

// TestReport: each exception is for one place, and an unused exception is reported.
func TestReport(t *testing.T) {
	exceptions, err := parseExceptions(`# What need not be run.
daemon/gpu/cuda/memory.go Memory.ReadAt: return nothing
	ends in between,
	which no test sees

daemon/gpu/cuda/memory.go Memory.ReadAt: return nil
	a mistake
daemon/gpu/cuda/memory.go Memory.WriteAt: return nil
	was there once
`)
	if err != nil {
		t.Fatal(err)
	}
	places, err := readBlocks([]byte(profile), sources)
	if err != nil {
		t.Fatal(err)
	}
	twice := append(
		slices.Clone(places),
		place{"daemon/gpu/cuda/memory.go", 7, "Memory.ReadAt", "return nothing", inGo, "", false},
	)
	for left, places := range map[int][]place{1: places, 2: twice} {
		var said strings.Builder
		r := newReport(places, exceptions)
		r.print(&said, "exceptions")
		t.Logf("%s", said.String())
		if r.Left != left {
			t.Errorf("got %d places left, want %d", r.Left, left)
		}
		checkEqual(t, "needless", r.Needless, []string{
			"line 6: daemon/gpu/cuda/memory.go Memory.ReadAt: return nil: is run after all",
			"line 8: daemon/gpu/cuda/memory.go Memory.WriteAt: return nil: no longer exists",
		})
		for _, want := range []string{
			"ends in between, which no test sees", "not run: daemon/gpu/cuda/memory.go:11 a variable",
			"of    4 blocks not run",
		} {
			if left == 1 && !strings.Contains(said.String(), want) {
				t.Errorf("the report lacks %q", want)
			}
		}
	}
}

// TestStale: counts of other sources are refused.
func TestStale(t *testing.T) {
	for _, line := range []string{"memory.go:100.2,101.3 1 0", "gone.go:1.1,2.2 1 0", "memory.go:2.2,3.3"} {
		if places, err := readBlocks([]byte("mode: atomic\n"+module+"daemon/gpu/cuda/"+line+"\n"), sources); err == nil {
			t.Errorf("%s is %v", line, places)
		}
	}
	if _, err := parseExceptions("daemon/gpu/cuda/memory.go Memory.ReadAt: return nil\n"); err == nil {
		t.Error("an exception without a reason was accepted")
	}
	if _, err := parseExceptions("daemon/gpu/cuda/memory.go:5: return nil\n\treason\n"); err == nil {
		t.Error("an exception without a function was accepted")
	}
}

// TestRun reads files and writes a report. The command fails if code is left, or if a file has no
// counts.
func TestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.CopyFS(".", sources); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"blocks": profile, "lines": gcov, "none": "",
		"exceptions": "daemon/gpu/cuda/memory.go Memory.ReadAt: return nothing\n\tends in between\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := run(options{"blocks", "lines", "exceptions", "report"}); err != nil || left != 2 {
		t.Errorf("got %d places left: %v", left, err)
	}
	var r report
	content, err := os.ReadFile("report")
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err != nil || r.Left != 2 || len(r.NotRun) != 3 || r.NotRun[0].Reason != "ends in between" ||
		r.NotRun[0].Line != 5 {
		t.Errorf("%v: the report is\n%s", err, content)
	}
	for _, o := range []options{
		{"blocks", "none", "exceptions", ""}, {"none", "lines", "exceptions", ""}, {"blocks", "lines", "gone", ""},
	} {
		if left, err := run(o); err == nil {
			t.Errorf("%+v: got %d places left", o, left)
		}
	}
}
