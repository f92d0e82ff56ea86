package goodput

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline/replay"
	"github.com/phos-gpu/phos/tests/golden"
	"github.com/phos-gpu/phos/tests/harness"
)

// trace is when nodes fail and come back.
type trace struct {
	name   string
	events []replay.Event
}

// spot reads a trace of testdata.
func spot(t *testing.T, name, file string) trace {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := replay.ReadTrace(f)
	if err != nil {
		t.Fatal(err)
	}
	return trace{name, events}
}

func traces(t *testing.T) []trace {
	t.Helper()
	return []trace{
		{"a failure every 6 h", OneByOne(6 * time.Hour)},
		{"a failure every hour", OneByOne(time.Hour)},
		{"a failure every 10 min", OneByOne(TenMinutes)},
		spot(t, "spot instances, Google", "gcp.csv"), spot(t, "spot instances, Amazon P3", "p3.csv"),
	}
}

// ways are how a training goes on after a failure.
var ways = []string{"restart", "re-plan", "phos", "ideal"}

// result is a training of a model through a trace, in each way.
type result struct {
	Model, Trace string
	Every        int // steps between two checkpoints, with restarts
	Ways         map[string]*replay.Report
}

// run replays a trace in all ways.
func run(t *testing.T, m *Model, tr trace) result {
	t.Helper()
	r := result{Model: m.name, Trace: tr.name, Ways: map[string]*replay.Report{}}
	for way, each := range map[string]*replay.Run{
		"re-plan": m.Replanned(tr.events), "phos": m.Phos(tr.events, measuredPause), "ideal": m.Ideal(tr.events),
	} {
		report, err := each.Replay()
		if err != nil {
			t.Fatal(err)
		}
		r.Ways[way] = report
	}
	// The best time between checkpoints for this trace, which no user knows before.
	for every := 1; every <= 400; every++ {
		restarts := replay.Restarts{Run: m.start(tr.events), Restart: m.restart, Checkpoint: m.checkpoint, Every: every}
		report, err := restarts.Replay()
		if err != nil {
			t.Fatal(err)
		}
		if best := r.Ways["restart"]; best == nil || report.SamplesPerSecond > best.SamplesPerSecond {
			r.Ways["restart"], r.Every = report, every
		}
	}
	return r
}

// TestGoodput: docs/goodput.md says what the replays give. No way is better than recoveries that
// cost nothing, and phos.pipeline is never worse than the others.
func TestGoodput(t *testing.T) {
	var all []result
	for i := range models {
		for _, tr := range traces(t) {
			r := run(t, &models[i], tr)
			all = append(all, r)
			rate := func(way string) float64 { return r.Ways[way].SamplesPerSecond }
			if rate("phos") > rate("ideal") || rate("phos") < rate("re-plan") || rate("phos") < rate("restart") {
				t.Errorf("%s, %s: %+v", r.Model, r.Trace, r.Ways)
			}
		}
	}
	// Table 2 of the paper.
	for i, want := range map[int]string{0: "287.10", 1: "286.28", 2: "282.11", 5: "4.33", 6: "4.22", 7: "3.55"} {
		if got := fmt.Sprintf("%.2f", all[i].Ways["re-plan"].SamplesPerSecond); got != want {
			t.Errorf("%s, %s: %s samples a second, published %s", all[i].Model, all[i].Trace, got, want)
		}
	}
	if ten := all[7]; ten.share("phos") < 0.97 {
		t.Errorf("%s, %s: %.3f of recoveries that cost nothing", ten.Model, ten.Trace, ten.share("phos"))
	}
	var text strings.Builder
	parsed := template.Must(template.ParseFiles(filepath.Join("testdata", "goodput.md.tmpl")))
	if err := parsed.Execute(&text, document(all)); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, harness.Path("docs/goodput.md"), []byte(text.String()))
	golden.Check(t, harness.Path("docs/goodput.svg"), picture(all[5:]))
}

// share returns what a way reaches of recoveries that cost nothing.
func (r *result) share(way string) float64 {
	return r.Ways[way].SamplesPerSecond / r.Ways["ideal"].SamplesPerSecond
}

// document returns the tables: samples a second, and where the time went.
func document(all []result) map[string]any {
	var rates, times []string
	for _, r := range all {
		row := []string{r.Model, r.Trace}
		for _, way := range ways[:3] {
			row = append(row, fmt.Sprintf("%.4g (%.0f %%)", r.Ways[way].SamplesPerSecond, 100*r.share(way)))
		}
		rates = append(rates, cells(append(row, fmt.Sprintf("%.4g", r.Ways["ideal"].SamplesPerSecond))))
		for _, way := range ways[:3] {
			row := []string{r.Model, r.Trace, names[way]}
			for _, each := range shares(r.Ways[way]) {
				row = append(row, fmt.Sprintf("%.1f", 100*each))
			}
			times = append(times, cells(row))
		}
	}
	big := GPT67()
	return map[string]any{
		"rates": rates, "times": times, "pause": big.with(measuredPause), "backup": big.backup(), "published": big.pause,
		"measured": measuredPause,
	}
}

// cells returns a row of a table.
func cells(of []string) string { return "| " + strings.Join(of, " | ") + " |" }

// shares returns the parts of the time, in the order of parts.
func shares(r *replay.Report) []float64 {
	all := float64(r.End - r.First)
	return []float64{
		float64(r.Useful) / all, float64(r.Lost+r.Unfinished) / all, float64(r.Paused) / all, float64(r.Checkpoints) / all,
		float64(r.Idle) / all,
	}
}
