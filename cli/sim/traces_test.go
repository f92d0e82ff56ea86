package sim

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/scheduler/workload"
)

// swfText is a log in which jobs lack requested processors and times.
const swfText = `; MaxNodes: 4
; MaxProcs: 32
1  0 -1 3600 32 -1 -1 32 7200 -1 1 1 1 -1 -1 -1 -1 -1
2 60 -1 3600 24 -1 -1 -1   -1 -1 1 2 1 -1 -1 -1 -1 -1
`

// swfNotes are what the results say of it.
var swfNotes = []string{
	"1 of 2 jobs: no requested processors; as many as were allocated",
	"1 of 2 jobs: no requested time; the estimate is the run time",
	"8 processors are taken for a GPU",
}

// TestSaid: what was assumed of a trace is in the text, in the files and on the page.
func TestSaid(t *testing.T) {
	dir := t.TempDir()
	log := file(t, dir, "log.swf", swfText)
	for verb, summary := range map[string]string{"run": "summary.json", "compare": "compare.json"} {
		out := filepath.Join(dir, verb)
		args := []string{verb, "--jobs", log, "--processors-per-gpu", "8", "--order", "fifo", "--out", out}
		text, err := say(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		printed, err := say(t.Context(), append(args[:len(args)-2], "--json")...)
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{
			"the text": text, "the JSON": printed, summary: contentOf(t, out, summary), "the page": contentOf(t, out,
				"index.html"),
		} {
			for _, note := range swfNotes {
				if !strings.Contains(content, note) {
					t.Errorf("sim %s: %s lacks %q:\n%.1000s", verb, name, note, content)
				}
			}
		}
	}
	var summary struct {
		Configuration struct {
			Trace            traceFacts `json:"trace"`
			ProcessorsPerGPU int        `json:"processors_per_gpu"`
		} `json:"configuration"`
	}
	if err := json.Unmarshal([]byte(contentOf(t, filepath.Join(dir, "run"), "summary.json")), &summary); err != nil {
		t.Fatal(err)
	}
	if c := summary.Configuration; c.Trace.Format != "swf" || c.Trace.Jobs != 2 || len(c.Trace.Notes) != 3 ||
		c.ProcessorsPerGPU != 8 {
		t.Errorf("got %+v", c)
	}
}

// TestUnknownTypes: nodes of a trace whose types have no known speed are equally fast, so that jobs
// that do not wait take their lengths: 495, 100 and 3990 s.
func TestUnknownTypes(t *testing.T) {
	pods := "../../scheduler/workload/testdata/alibaba2023/openb_pod_list_sample.csv"
	note := `no speed is known of its GPU type "V100M32"; all its types are taken for equally fast`
	for _, line := range []string{"run --order fifo --json --jobs " + pods, "compare --order fifo --json --jobs " + pods} {
		text, err := say(t.Context(), strings.Fields(line)...)
		said := strings.Contains(strings.ReplaceAll(text, `\`, ""), note)
		if err != nil || !said || !strings.Contains(text, "1528.33") {
			t.Errorf("sim %s: got %v\n%s", line, err, text)
		}
	}
	if text, err := say(t.Context(), "run", "--order", "fifo", "--json", "--jobs", pods, "--type-speeds", "T4=1,V100M32=2"); err != nil ||
		strings.Contains(text, note) ||
		strings.Contains(text, "1528.33") {
		t.Errorf("with speeds: got %v\n%s", err, text)
	}
}

// TestNothingSaid: a trace that lacks nothing leaves the results as they were.
func TestNothingSaid(t *testing.T) {
	dir := t.TempDir()
	jobs := file(t, dir, "jobs.csv", header+"0,0,10,1\n")
	text, err := say(t.Context(), "run", "--jobs", jobs, "--nodes", "1", "--gpus-per-node", "1", "--json")
	if err != nil || strings.Contains(text, "trace") {
		t.Errorf("got %v\n%s", err, text)
	}
}

func contentOf(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestProcessorsPerGPU: the flag has an effect only on logs that count processors.
func TestProcessorsPerGPU(t *testing.T) {
	dir := t.TempDir()
	jobs := file(t, dir, "jobs.csv", header+"0,0,10,1\n")
	log := file(t, dir, "log.swf", swfText)
	for _, each := range []struct{ args, want string }{
		{"run --jobs " + log + " --processors-per-gpu 0", "--processors-per-gpu takes 1 to 4096"},
		{"run --jobs " + log + " --processors-per-gpu 4097", "--processors-per-gpu takes 1 to 4096"},
		{
			"run --jobs " + jobs + " --nodes 1 --gpus-per-node 1 --processors-per-gpu 2",
			"jobs.csv: want no number of processors per GPU: it is read as csv, which counts GPUs",
		},
		{
			"compare --nodes 1 --gpus-per-node 1 --load 1 --processors-per-gpu 2",
			"--processors-per-gpu has no effect without --jobs",
		},
	} {
		if _, err := say(t.Context(), strings.Fields(each.args)...); err == nil ||
			!strings.Contains(err.Error(), each.want) {
			t.Errorf("%s: got %v, want %s", each.args, err, each.want)
		}
	}
}

// TestHelpOfTraces: each format is in the help with an example, which is read as that format.
func TestHelpOfTraces(t *testing.T) {
	headings := regexp.MustCompile(`(?m)^    (\S+) +\S.*\n(?: {17}.*\n)+`)
	examples := regexp.MustCompile(`(?m)^ {21}(.*\n)`)
	seen := map[string]bool{}
	for _, section := range headings.FindAllStringSubmatch(aboutTraces, -1) {
		name, dir, text := section[1], t.TempDir(), ""
		for _, line := range examples.FindAllStringSubmatch(section[0], -1) {
			text += line[1]
		}
		switch name {
		case "philly":
			text = "[" + text + "]"
		case "gavel":
			text = regexp.MustCompile(` {2,}`).ReplaceAllString(text, "\t")
			file(t, dir, "simulation_throughputs.json", `{"v100": {"('CycleGAN', 1)": {"null": 4.4}}}`)
		}
		trace, err := workload.Read(file(t, dir, "example", text), workload.Options{})
		if err != nil || trace.Format != name || trace.Jobs.Len() != 1 {
			t.Errorf("%s: got %d jobs in format %q, %v from\n%s", name, trace.Jobs.Len(), trace.Format, err, text)
		}
		seen[name] = true
	}
	for _, name := range formats() {
		if !seen[name] {
			t.Errorf("format %s is not in the help", name)
		}
	}
}
