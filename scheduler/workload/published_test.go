package workload

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestPublished reads every trace below the folder that PHOS_TRACES names, such as clones of
// stanford-futuredata/gavel, petuum/adaptdl (branch osdi21-artifact), alibaba/clusterdata and
// uw-mad-dash/shockwave, and logs of the Parallel Workloads Archive. None may be refused. Logs in
// the Standard Workload Format, and Gavel's steps, are also read by a few lines of another reader
// here.
func TestPublished(t *testing.T) {
	dir := os.Getenv("PHOS_TRACES")
	if dir == "" {
		t.Skip("PHOS_TRACES names no folder of published traces")
	}
	files, jobs, refused := map[string]int{}, map[string]int{}, 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !published(path) {
			return err
		}
		trace, err := Read(path, Options{})
		if err != nil {
			refused++
			t.Errorf("%s: %v", path, err)
			return nil
		}
		files[trace.Format]++
		jobs[trace.Format] += trace.Jobs.Len()
		t.Logf("%s: %s, %d jobs; %s", path, trace.Format, trace.Jobs.Len(), strings.Join(trace.Notes, "; "))
		switch trace.Format {
		case "swf":
			compareSWF(t, path, trace)
		case "gavel":
			compareGavel(t, path, trace)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("read: files %v, jobs %v; refused: %d files", files, jobs, refused)
	if len(files) == 0 {
		t.Errorf("no traces below %s", dir)
	}
}

// published reports whether a file's name is that of a published trace.
func published(path string) bool {
	name := strings.TrimSuffix(filepath.Base(path), ".gz")
	for _, pattern := range []string{
		"*.trace", "*.swf", "openb_pod_list_*.csv", "workload-[0-9]*.csv", "philly.csv", "cluster_log.csv", "cluster_job_log",
		"pai_task_table*.csv",
	} {
		if match, _ := filepath.Match(pattern, name); match {
			return true
		}
	}
	return false
}

// sums are what the readers are compared by.
type sums struct {
	jobs             int
	gpus             int
	seconds, largest float64
}

func (s sums) near(o sums) bool {
	equal := func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Max(math.Abs(a), 1) }
	return s.jobs == o.jobs && s.gpus == o.gpus && equal(s.seconds, o.seconds) && equal(s.largest, o.largest)
}

// add counts a job.
func (s *sums) add(gpus int, seconds float64) {
	s.jobs++
	s.gpus += gpus
	s.seconds += seconds
	s.largest = math.Max(s.largest, seconds)
}

// sumsOf counts the jobs of a trace.
func sumsOf(trace Trace) (s sums) {
	for _, j := range trace.Jobs.All() {
		s.add(j.GPUs, j.Length.Seconds())
	}
	return s
}

// rows returns the lines of a file, split.
func rows(t *testing.T, path string, split func(string) []string) (all [][]string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var in io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	for scan := bufio.NewScanner(in); scan.Scan(); {
		if text := strings.TrimSpace(scan.Text()); text != "" && text[0] != ';' {
			all = append(all, split(text))
		}
	}
	return all
}

// compareSWF reads a log by the definition of its fields, as floats. Logs with parts of jobs are
// left to TestRead.
func compareSWF(t *testing.T, path string, trace Trace) {
	t.Helper()
	var want sums
	for _, row := range rows(t, path, strings.Fields) {
		var n [18]float64
		for i := range n {
			n[i], _ = strconv.ParseFloat(row[i], 64)
		}
		processors := n[7]
		if processors <= 0 {
			processors = n[4]
		}
		if processors <= 0 || n[3] < 0 || n[1] < 0 || n[10] == 5 && n[3] == 0 {
			continue
		}
		want.add(int(processors), n[3])
	}
	if got := sumsOf(trace); !got.near(want) {
		t.Errorf("%s: got %+v, want %+v", path, got, want)
	}
}

// compareGavel computes lengths from Gavel's table, by the rule for counts that it lacks.
func compareGavel(t *testing.T, path string, trace Trace) {
	t.Helper()
	var table map[string]map[string]map[string]any
	for dir, up := filepath.Dir(path), 0; up < 4 && table == nil; dir, up = filepath.Dir(dir), up+1 {
		if text, err := os.ReadFile(filepath.Join(dir, "simulation_throughputs.json")); err == nil {
			if err := json.Unmarshal(text, &table); err != nil {
				t.Fatal(err)
			}
		}
	}
	var want sums
	for _, row := range rows(t, path, func(line string) []string { return strings.Split(line, "\t") }) {
		if len(row) == 12 { // Shockwave's jobs say how long they are
			length, _ := strconv.ParseFloat(row[10], 64)
			gpus, _ := strconv.Atoi(row[6])
			want.add(gpus, length)
			continue
		}
		count, steps := row[6], row[4]
		if len(row) == 10 {
			steps = row[5]
		}
		gpus, _ := strconv.Atoi(count)
		rate := 0.0
		for fewer := gpus; fewer > 0 && rate == 0; fewer-- {
			rate, _ = table["v100"]["('"+row[0]+"', "+strconv.Itoa(fewer)+")"]["null"].(float64)
		}
		n, _ := strconv.ParseFloat(steps, 64)
		want.add(gpus, n/rate)
	}
	if got := sumsOf(trace); !got.near(want) {
		t.Errorf("%s: got %+v, want %+v", path, got, want)
	}
}
