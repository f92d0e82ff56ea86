package workload

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
)

// samples are files of every format, written for this test, and their meaning.
var samples = []struct {
	file, format string
	jobs         []cluster.Job
	nodes        []cluster.Node
	notes        []string
}{
	{
		file: "csv/all.csv", format: "csv",
		jobs: []cluster.Job{
			{ID: 3, Submit: 500 * ms, Length: 60 * s, Estimate: 60 * s, GPUs: 1, Share: 250},
			{
				ID: 7, Name: `first, "quoted"`, Submit: 10*s + 1, Length: 35424347198088, Estimate: 1000 * s, GPUs: 2, Share: 1000,
				MinGPUs: 1, MaxGPUs: 8, GPUType: "A100", GPUMemoryBytes: 79<<30 + 1<<29, User: "a/b", Priority: -3,
				Model: "resnet50",
			},
		},
	},
	{
		file: "philly/cluster_job_log", format: "philly",
		jobs: []cluster.Job{
			{
				ID:       0,
				Name:     "application_1_0001",
				Length:   10 * s,
				Estimate: 10 * s,
				GPUs:     1,
				Share:    1000,
				User:     "bb22/u2",
			},
			{
				ID:       1,
				Name:     "application_1_0002",
				Submit:   120 * s,
				Length:   3690 * s,
				Estimate: 3690 * s,
				GPUs:     4,
				Share:    1000,
				User:     "aa11/u1",
			},
		},
		notes: []string{
			"1 job left out: no attempt of theirs has GPUs, a start and a later end",
			"1 job left out: they have no time of submission",
		},
	},
	{
		file: "helios/cluster_log.csv", format: "helios",
		jobs: []cluster.Job{
			{ID: 900, Length: 36848 * s, Estimate: 36848 * s, GPUs: 1, Share: 1000, User: "vcY/uB"},
			{ID: 901, Submit: 26 * s, Length: 249 * s, Estimate: 249 * s, GPUs: 4, Share: 1000, User: "vcX/uA"},
		},
		notes: []string{"1 job left out: they need no GPU"},
	},
	{
		file: "alibaba2020/pai_task_table.csv", format: "alibaba2020", jobs: paiJobs, nodes: paiNodes, notes: paiNotes,
	},
	{
		file: "alibaba2020/pai_job_table.csv", format: "alibaba2020", jobs: paiJobs, nodes: paiNodes, notes: paiNotes,
	},
	{
		file: "alibaba2023/openb_pod_list_sample.csv", format: "alibaba2023",
		jobs: []cluster.Job{
			{ID: 0, Name: "pod-1", Length: 495 * s, Estimate: 495 * s, GPUs: 1, Share: 220, GPUType: "T4"},
			{ID: 1, Name: "pod-2", Submit: 300 * s, Length: 100 * s, Estimate: 100 * s, GPUs: 1, Share: 1000},
			{ID: 2, Name: "pod-3", Submit: 600 * s, Length: 3990 * s, Estimate: 3990 * s, GPUs: 8, Share: 1000},
		},
		nodes: []cluster.Node{
			{ID: 0, Name: "node-1", GPUs: 8, GPUType: "V100M32"},
			{ID: 1, Name: "node-2", GPUs: 2, GPUType: "T4"},
		},
		notes: []string{
			"1 job left out: they need no GPU", "1 job left out: they never ran",
			"1 job name several GPU models; here they run on any",
		},
	},
	{
		file:   "gavel/old.trace",
		format: "gavel",
		jobs:   gavelJobs(4500*ms, 250*s, 300*s),
		notes:  []string{"lengths are those on a v100"},
	},
	{
		file:   "gavel/new.trace",
		format: "gavel",
		jobs:   gavelJobs(3750*ms, 250*s, 300*s),
		notes:  []string{"lengths are those on a v100"},
	},
	{file: "gavel/shockwave.trace", format: "gavel", jobs: gavelJobs(3750*ms, 333*s, 1418*s)},
	{
		file: "pollux/workload-1.csv", format: "pollux",
		jobs: []cluster.Job{
			{ID: 0, Name: "bert-1", Length: 7200 * s, Estimate: 7200 * s, GPUs: 4, Share: 1000, Model: "bert"},
			{
				ID:       1,
				Name:     "cifar10-0",
				Submit:   17 * s,
				Length:   3600*s + 500*ms,
				Estimate: 3600*s + 500*ms,
				GPUs:     1,
				Share:    1000,
				Model:    "cifar10",
			},
		},
	},
	{
		file: "pollux/philly.csv", format: "pollux",
		jobs: []cluster.Job{
			{ID: 0, Length: 2951 * s, Estimate: 2951 * s, GPUs: 2, Share: 1000, User: "6214e9"},
			{ID: 1, Submit: 2932 * s, Length: 66 * s, Estimate: 66 * s, GPUs: 1, Share: 1000, User: "11cb48"},
		},
	},
	{
		file: "alibaba2023/openb_pod_list_multigpu20.csv", format: "alibaba2023",
		jobs: []cluster.Job{
			{ID: 0, Name: "pod-1", Length: 495 * s, Estimate: 495 * s, GPUs: 1, Share: 220},
			{ID: 1, Name: "pod-6", Submit: 100 * s, Length: 100 * s, Estimate: 100 * s, GPUs: 8, Share: 1000},
			{ID: 2, Name: "pod-2", Submit: 300 * s, Length: 100 * s, Estimate: 100 * s, GPUs: 8, Share: 1000},
			{ID: 3, Name: "pod-7", Submit: 300 * s, Length: 250 * s, Estimate: 250 * s, GPUs: 8, Share: 1000},
			{ID: 4, Name: "pod-8", Submit: 500 * s, Length: 100 * s, Estimate: 100 * s, GPUs: 8, Share: 1000},
			{ID: 5, Name: "pod-10", Submit: 700 * s, Length: 250 * s, Estimate: 250 * s, GPUs: 8, Share: 1000},
			{ID: 6, Name: "pod-3", Submit: 800 * s, Length: 250 * s, Estimate: 250 * s, GPUs: 8, Share: 1000},
		},
		nodes: []cluster.Node{
			{ID: 0, Name: "node-1", GPUs: 8, GPUType: "V100M32"},
			{ID: 1, Name: "node-2", GPUs: 2, GPUType: "T4"},
		},
		notes: []string{
			"1 job left out: they have no times, and no pod of openb_pod_list_default.csv with the same request ran",
			"1 job left out: they need no GPU", "1 job left out: they never ran",
			"4 of 7 jobs: " + openBCopied, "3 of 7 jobs: " + openBNamed,
		},
	},
	{
		file: "pollux/profiles/workload-2.csv", format: "pollux",
		jobs: []cluster.Job{
			{ID: 0, Name: "bert-0", Length: 2460 * s, Estimate: 2460 * s, GPUs: 8, Share: 1000, Model: "bert"},
			{
				ID:       1,
				Name:     "bert-1",
				Submit:   30 * s,
				Length:   2460 * s,
				Estimate: 2460 * s,
				GPUs:     10,
				Share:    1000,
				Model:    "bert",
			},
			{
				ID: 2, Name: "cifar10-2", Submit: 40 * s, Length: 1335 * s, Estimate: 1335 * s, GPUs: 8, Share: 1000,
				Model: "cifar10",
			},
			{
				ID: 3, Name: "imagenet-3", Submit: 60 * s, Length: 319360 * s, Estimate: 319360 * s, GPUs: 2, Share: 1000,
				Model: "imagenet",
			},
			{
				ID:       4,
				Name:     "ncf-4",
				Submit:   70 * s,
				Length:   927 * s,
				Estimate: 927 * s,
				GPUs:     64,
				Share:    1000,
				Model:    "ncf",
			},
		},
		notes: []string{
			"3 of 5 jobs: " + polluxFewer, "1 of 5 jobs: " + polluxMore,
			"lengths follow from Pollux's published profiles, on nodes of 4 GPUs",
		},
	},
	{
		file: "swf/parts.swf", format: "swf",
		jobs: []cluster.Job{
			{ID: 1, Length: 100 * s, Estimate: 200 * s, GPUs: 12, Share: 1000, User: "group2/user3"},
			{ID: 3, Submit: 20 * s, Length: 50 * s, Estimate: 100 * s, GPUs: 8, Share: 1000, User: "group2/user3"},
			{ID: 4, Submit: 30 * s, Length: 400 * ms, Estimate: 400 * ms, GPUs: 1, Share: 1000},
			{ID: 7, Submit: 60 * s, Length: 500 * s, Estimate: 300 * s, GPUs: 32, Share: 1000, User: "group2/user3"},
		},
		nodes: []cluster.Node{{ID: 0, GPUs: 8}, {ID: 1, GPUs: 8}, {ID: 2, GPUs: 8}, {ID: 3, GPUs: 8}},
		notes: []string{
			"2 lines left out: they are parts of a job that has a line of its own",
			"1 job left out: their run time is unknown",
			"1 job left out: their time of submission is unknown",
			"1 job left out: they were cancelled before they ran",
			"1 of 4 jobs: no requested processors; as many as were allocated",
			"1 of 4 jobs: no requested time; the estimate is the run time",
			"1 of 4 jobs: " + swfFollows,
			"processors are taken for GPUs",
		},
	},
	{
		file: "swf/sample.swf", format: "swf",
		jobs: []cluster.Job{
			{
				ID:             1,
				Length:         100 * s,
				Estimate:       200 * s,
				GPUs:           8,
				Share:          1000,
				User:           "group2/user3",
				GPUMemoryBytes: 1 << 20,
			},
			{ID: 3, Submit: 40*s + 500*ms, Length: 60 * s, Estimate: 60 * s, GPUs: 16, Share: 1000},
		},
		notes: []string{
			"1 job left out: their processors are unknown",
			"1 job left out: their run time is unknown",
			"1 of 2 jobs: no requested processors; as many as were allocated",
			"1 of 2 jobs: no requested time; the estimate is the run time",
			"processors are taken for GPUs",
		},
	},
}

const (
	s  = time.Second
	ms = time.Millisecond
)

var (
	paiJobs = []cluster.Job{
		{ID: 0, Name: "job-a", Length: 100*s + 500*ms, Estimate: 100*s + 500*ms, GPUs: 1, Share: 500, User: "user1"},
		{ID: 1, Name: "job-b", Submit: 18 * s, Length: 300 * s, Estimate: 300 * s, GPUs: 2, Share: 1000, User: "user2"},
		{
			ID:       2,
			Name:     "job-c",
			Submit:   199 * s,
			Length:   700 * s,
			Estimate: 700 * s,
			GPUs:     2,
			Share:    1000,
			User:     "user1",
		},
	}
	paiNodes = []cluster.Node{
		{ID: 0, Name: "mach1", GPUs: 2, GPUType: "T4"},
		{ID: 1, Name: "mach3", GPUs: 8, GPUType: "V100"},
	}
	paiNotes = []string{
		"1 job left out: a task of theirs has no start, no end or no length",
		"1 job left out: they need no GPU",
	}
)

func gavelJobs(second, first, last time.Duration) []cluster.Job {
	return []cluster.Job{
		{ID: 0, Length: first, Estimate: first, GPUs: 2, Share: 1000, Model: "LM (batch size 10)"},
		{ID: 1, Submit: second, Length: last, Estimate: last, GPUs: 1, Share: 1000, Model: "ResNet-18 (batch size 16)"},
	}
}

// TestRead reads every format, detected and named, and with variations of other systems:
// compressed, with a byte order mark, with other line ends.
func TestRead(t *testing.T) {
	for _, sample := range samples {
		path := filepath.Join("testdata", sample.file)
		for _, name := range []string{"", sample.format} {
			trace, err := Read(path, Options{Format: name})
			if err != nil {
				t.Errorf("%s as %q: %v", sample.file, name, err)
				continue
			}
			if trace.Format != sample.format {
				t.Errorf("%s is taken for %s", sample.file, trace.Format)
			}
			same(t, sample.file+": jobs", trace.Jobs.Slice(), sample.jobs)
			same(t, sample.file+": nodes", trace.Nodes, sample.nodes)
			same(t, sample.file+": notes", trace.Notes, sample.notes)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, changed := range map[string][]byte{
			"gzip": zipped(t, text),
			"BOM":  append([]byte("\xef\xbb\xbf"), text...),
			"CRLF": bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")),
			"end":  bytes.TrimSuffix(text, []byte("\n")),
		} {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Dir(path))); err != nil {
				t.Fatal(err)
			}
			other := filepath.Join(dir, filepath.Base(path))
			if err := os.WriteFile(other, changed, 0o644); err != nil {
				t.Fatal(err)
			}
			trace, err := Read(other, Options{})
			if err != nil {
				t.Errorf("%s with %s: %v", sample.file, what, err)
				continue
			}
			same(t, sample.file+" with "+what, trace.Jobs.Slice(), sample.jobs)
		}
	}
}

func same[T any](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("%s are\n%+v\nwant\n%+v", what, got, want)
	}
}

func zipped(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestGreatestID reads the greatest number that a job can have.
func TestGreatestID(t *testing.T) {
	trace, err := ReadFrom(strings.NewReader(head4+"9223372036854775807,0,1,1\n"), "f", Options{})
	if err != nil || trace.Jobs.At(0).ID != 9223372036854775807 {
		t.Errorf("%+v, %v", trace.Jobs.Slice(), err)
	}
}

// TestOrderOfLines: the order of a file's lines does not matter.
func TestOrderOfLines(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, file := range []string{
		"csv/all.csv", "helios/cluster_log.csv", "alibaba2023/openb_pod_list_sample.csv",
		"pollux/philly.csv", "swf/sample.swf",
	} {
		path := filepath.Join("testdata", file)
		want, err := Read(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(path)
		rows := strings.Split(strings.TrimSpace(string(text)), "\n")
		for range 10 {
			random.Shuffle(len(rows)-1, func(a, b int) { rows[a+1], rows[b+1] = rows[b+1], rows[a+1] })
			got, err := ReadFrom(strings.NewReader(strings.Join(rows, "\n")), file, Options{})
			if err != nil {
				t.Fatal(err)
			}
			same(t, file, got.Jobs.Slice(), want.Jobs.Slice())
		}
	}
}

// TestDecimals compares with arbitrary precision.
func TestDecimals(t *testing.T) {
	texts := []string{
		"0", "0.0", "00012", "1.", ".5", "35424.3471980879", "0.1", "0.0000000005", "0.00000000049", "1e3", "1.5E-3",
		"1e-10", "12e-9",
		"9223372035.9999999999", "123456789.123456789", "0e400", "1e-400", "100e-2",
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		texts = append(texts, fmt.Sprintf("%d.%0*d", random.Int64N(1e9), 1+random.IntN(14), random.Int64N(1e14)))
	}
	for _, text := range texts {
		exact, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("%s is not a number", text)
		}
		exact.Mul(exact, big.NewRat(2e9, 1)).Add(exact, big.NewRat(1, 1)) // Half up: floor((2x+1)/2).
		want := new(big.Int).Div(exact.Num(), new(big.Int).Mul(exact.Denom(), big.NewInt(2)))
		got, ok := seconds([]byte(text))
		if !ok || int64(got) != want.Int64() {
			t.Errorf("%s s are %d ns (%v), want %v", text, int64(got), ok, want)
		}
	}
	for _, text := range []string{
		"", ".", "-1", "+1", "1,5", "1.2.3", "NaN", "nan", "inf", "1e", "e5", "1e5000", "0x10", " 1", "9223372037", "1e30",
		strings.Repeat("9", 500),
	} {
		if got, ok := seconds([]byte(text)); ok {
			t.Errorf("%q was parsed as %v", text, got)
		}
	}
}

// TestWriteRead writes jobs of all kinds and reads them again.
func TestWriteRead(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		var jobs []cluster.Job
		for i := range 1 + random.IntN(5) {
			j := cluster.Job{
				ID: cluster.JobID(i * 3), Submit: time.Duration(i)*time.Hour + time.Duration(random.Int64N(1e12)),
				Length: time.Duration(random.Int64N(1e15)), GPUs: 1, Share: cluster.WholeGPU,
			}
			j.Estimate = j.Length
			if random.IntN(2) == 0 {
				j.Share, j.Name, j.Priority = 1+random.IntN(1000), `a "b", c`, random.IntN(9)-4
			} else if random.IntN(2) == 0 {
				j.GPUs, j.MinGPUs, j.MaxGPUs, j.User, j.Model = 4, 2, 8, "x/y", " m"
				j.GPUType, j.GPUMemoryBytes, j.Estimate = "H100", random.Int64N(1<<37), time.Duration(random.Int64N(1e15))
			}
			jobs = append(jobs, j)
		}
		var out bytes.Buffer
		if err := Write(&out, packed.Of(jobs...)); err != nil {
			t.Fatal(err)
		}
		trace, err := ReadFrom(bytes.NewReader(out.Bytes()), "written", Options{Format: "csv"})
		if err != nil {
			t.Fatalf("%v\n%s", err, out.Bytes())
		}
		same(t, "jobs that were written", trace.Jobs.Slice(), jobs)
	}
}

// TestMillionJobs reads a million jobs with little more memory than the jobs themselves.
func TestMillionJobs(t *testing.T) {
	const jobs = 1_000_000
	in := &endless{left: []byte("job_id,submit_s,duration_s,num_gpus,user\n"), jobs: jobs}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	trace, err := ReadFrom(in, "million.csv", Options{})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if trace.Jobs.Len() != jobs || trace.Jobs.At(jobs-1).User != "user9" {
		t.Fatalf("%d jobs, the last %+v", trace.Jobs.Len(), trace.Jobs.At(trace.Jobs.Len()-1))
	}
	// Growing a slice by quarters copies it a few times; an allocation for each job or value would be
	// noticed.
	if allocations := after.Mallocs - before.Mallocs; allocations > 10_000 {
		t.Errorf("%d allocations for %d jobs", allocations, jobs)
	}
	if each := (after.TotalAlloc - before.TotalAlloc) / jobs; each > 2000 {
		t.Errorf("%d bytes were allocated for each job", each)
	}
}

// endless is a long file that is generated while it is read.
type endless struct {
	left, row  []byte
	next, jobs int
}

func (e *endless) Read(to []byte) (int, error) {
	if len(e.left) == 0 {
		if e.next == e.jobs {
			return 0, io.EOF
		}
		e.row = strconv.AppendInt(e.row[:0], int64(e.next), 10)
		e.row = append(strconv.AppendInt(append(e.row, ','), int64(e.next), 10), ".25,3600.125,"...)
		e.row = append(strconv.AppendInt(e.row, int64(1+e.next%8), 10), ",user"...)
		e.row = append(strconv.AppendInt(e.row, int64(e.next%10), 10), '\n')
		e.left = e.row
		e.next++
	}
	n := copy(to, e.left)
	e.left = e.left[n:]
	return n, nil
}
