package workload

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// fuzz checks that any bytes are a valid trace or an error, and that a trace can be written and
// read again.
func fuzz(f *testing.F, format string, files ...string) {
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, b := range badFiles {
		if len(b.text) < 1000 {
			f.Add([]byte(b.text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		options := Options{Format: format}
		switch {
		case format == "gavel":
			options.Beside = "testdata/gavel/my_throughputs.json"
		case format == "alibaba2023" && !bytes.Contains(text, []byte("_time")):
			options.Beside = "testdata/alibaba2023/" + openBDefault
		case format == "swf" && len(text)%2 == 0:
			options.ProcessorsPerGPU = 3
		}
		trace, err := ReadFrom(bytes.NewReader(text), "fuzzed", options)
		if err != nil {
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("the file's end got out: %v", err)
			}
			if utf8.RuneCountInString(err.Error()) > words.MaxError {
				t.Fatalf("error of %d bytes: %v", len(err.Error()), err)
			}
			return
		}
		sound(t, trace)
		var out bytes.Buffer
		if err := Write(&out, trace.Jobs); err != nil {
			t.Fatal(err)
		}
		again, err := ReadFrom(&out, "written", Options{Format: "csv"})
		if err != nil {
			t.Fatal(err)
		}
		if again.Jobs.Len() != trace.Jobs.Len() {
			t.Fatalf("%d jobs were written, %d read again", trace.Jobs.Len(), again.Jobs.Len())
		}
		for i, j := range again.Jobs.All() {
			if was := trace.Jobs.At(i); j.ID != was.ID || j.Submit != was.Submit || j.Length != was.Length ||
				j.GPUs != was.GPUs ||
				j.Share != was.Share {
				t.Fatalf("%+v was written, %+v read again", was, j)
			}
		}
	})
}

// sound checks what every reader guarantees of jobs.
func sound(t *testing.T, trace Trace) {
	t.Helper()
	ids := map[cluster.JobID]bool{}
	for i, j := range trace.Jobs.All() {
		if j.Submit < 0 || j.Length < 0 || j.Estimate < 0 || j.GPUs < 1 || j.Share < 1 || j.Share > cluster.WholeGPU ||
			ids[j.ID] {
			t.Fatalf("job %+v", j)
		}
		if j.MaxGPUs != 0 && (j.MinGPUs < 1 || j.MinGPUs > j.GPUs || j.MaxGPUs < j.GPUs) {
			t.Fatalf("bounds of job %+v", j)
		}
		if i > 0 && j.Submit < trace.Jobs.At(i-1).Submit {
			t.Fatalf("job %+v comes before its predecessor", j)
		}
		ids[j.ID] = true
	}
}

func FuzzGuessed(f *testing.F) { fuzz(f, "", "csv/all.csv", "swf/sample.swf") }
func FuzzCSV(f *testing.F)     { fuzz(f, "csv", "csv/all.csv") }
func FuzzPhilly(f *testing.F)  { fuzz(f, "philly", "philly/cluster_job_log") }
func FuzzHelios(f *testing.F)  { fuzz(f, "helios", "helios/cluster_log.csv") }
func FuzzPAI(f *testing.F) {
	fuzz(f, "alibaba2020", "alibaba2020/pai_task_table.csv", "alibaba2020/pai_job_table.csv")
}

func FuzzOpenB(f *testing.F) {
	fuzz(f, "alibaba2023", "alibaba2023/openb_pod_list_sample.csv", "alibaba2023/openb_pod_list_multigpu20.csv")
}

func FuzzGavel(f *testing.F) {
	fuzz(f, "gavel", "gavel/old.trace", "gavel/new.trace", "gavel/shockwave.trace")
}

func FuzzPollux(f *testing.F) {
	fuzz(f, "pollux", "pollux/workload-1.csv", "pollux/profiles/workload-2.csv", "pollux/philly.csv")
}
func FuzzSWF(f *testing.F) { fuzz(f, "swf", "swf/sample.swf", "swf/parts.swf") }
