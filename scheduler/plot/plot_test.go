package plot

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/sim"
)

// TestFiles checks every file of an album.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	files, err := sample(300).Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f))
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		switch filepath.Ext(f) {
		case ".svg":
			wellFormed(t, f, text)
		case ".png":
			painted(t, f, text)
		}
	}
	want := []string{"jct", "queue", "use", "gantt-fifo", "gantt-sjf", "load"}
	for _, name := range want {
		if !slices.Contains(names, name+".svg") || !slices.Contains(names, name+".png") {
			t.Errorf("there is no %s among %v", name, names)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2*len(want)+1 {
		t.Errorf("the folder holds %v", left)
	}
}

// wellFormed checks that an SVG is XML with a title, labelled axes with units, and lines or boxes.
func wellFormed(t *testing.T, file string, text []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(text))
	shapes, said := 0, ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "path" {
				shapes++
			}
		case xml.CharData:
			said += string(token) + "\n"
		}
	}
	if shapes < 5 {
		t.Errorf("%s: only %d shapes", file, shapes)
	}
	for _, name := range map[string][]string{
		"jct.svg": {"Job completion time (JCT)", "fifo", "sjf", "100 %", "1 h"}, "queue.svg": {"waiting jobs", "time (days)"},
		"use.svg": {"GPUs", "all GPUs", "time (days)"}, "gantt-fifo.svg": {"nodes and their GPUs", "Jobs on GPUs: fifo"},
		"load.svg": {"load (share of all GPUs)", "mean JCT (h)", "srtf"},
	}[filepath.Base(file)] {
		if !strings.Contains(said, name) {
			t.Errorf("%s does not say %q but %q", file, name, said)
		}
	}
	if strings.Contains(said, "-0\n") || strings.Contains(said, "NaN") {
		t.Errorf("%s says %q", file, said)
	}
}

// painted checks a PNG's size and that it has the colours of both results on white.
func painted(t *testing.T, file string, text []byte) {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	b := img.Bounds()
	if b.Dx() != 1152 || b.Dy() < 600 {
		t.Errorf("%s has %d x %d dots", file, b.Dx(), b.Dy())
	}
	found := map[color.Color]int{}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			found[color.RGBAModel.Convert(img.At(x, y))]++
		}
	}
	all := b.Dx() * b.Dy()
	other := palette[1]
	if filepath.Base(file) == "load.png" {
		other = palette[2] // The third name occurs only in curves.
	}
	if found[color.RGBA{255, 255, 255, 255}] < all/4 || found[palette[0]] < all/5000 || found[other] < all/5000 {
		t.Errorf(
			"%s: of %d dots %d are white, %d and %d of the colours",
			file,
			all,
			found[color.RGBA{255, 255, 255, 255}],
			found[palette[0]],
			found[other],
		)
	}
}

// decoded is the data of a page.
func decoded(t *testing.T, page []byte) (d struct {
	Names []string
	Runs  []struct {
		Name     string
		Summary  sim.Summary
		Jobs     struct{ ID, GPUs, Submit, Start, Finish []*float64 }
		Timeline struct{ At, Waiting, Running, Busy, Capacity []float64 }
		Gantt    struct{ Job, From, To, Row, Rows []float64 }
	}
	Curves []struct {
		Name string
		Load []float64
		Mean []float64 `json:"mean_s"`
	}
},
) {
	t.Helper()
	_, rest, _ := bytes.Cut(page, []byte(`<script id="data" type="application/json">`))
	data, _, found := bytes.Cut(rest, []byte("</script>"))
	if !found {
		t.Fatal("the page has no data")
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func rendered(t *testing.T, a Album) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := a.Page(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestPageHoldsTheResult compares every number of a page with its result.
func TestPageHoldsTheResult(t *testing.T) {
	a := sample(300)
	results := a.Runs[0].Result.Jobs.Slice()
	results[3].Started, results[3].Outcome = false, sim.Unfinished
	a.Runs[0].Result.Jobs = sim.ResultsOf(results...)
	a.Runs[1].Result.Summary = sim.Summary{N: 7, AvgJCT: 12.5, Partial: true, Configuration: "secret"}
	d := decoded(t, rendered(t, a))
	for n, run := range a.Runs {
		got := d.Runs[n]
		if got.Name != run.Name || got.Summary.N != run.Result.Summary.N ||
			got.Summary.AvgJCT != run.Result.Summary.AvgJCT {
			t.Errorf("result %d is %s with %+v", n, got.Name, got.Summary)
		}
		equal(t, "jobs", len(got.Jobs.ID), run.Result.Jobs.Len())
		for i, j := range run.Result.Jobs.All() {
			equal(t, "id", int64(*got.Jobs.ID[i]), int64(j.ID))
			equal(t, "GPUs", int(*got.Jobs.GPUs[i]), j.GPUs)
			equal(t, "submit", nanoseconds(got.Jobs.Submit[i]), j.Submit)
			equal(t, "started", got.Jobs.Start[i] != nil, j.Started)
			equal(t, "ended", got.Jobs.Finish[i] != nil, j.Outcome != sim.Unfinished)
			if j.Started {
				equal(t, "start", nanoseconds(got.Jobs.Start[i]), j.Start)
				equal(t, "finish", nanoseconds(got.Jobs.Finish[i]), j.Finish)
			}
		}
		equal(t, "samples", len(got.Timeline.At), run.Result.Timeline.Len())
		i := 0
		for m := range run.Result.Timeline.All() {
			equal(t, "at", nanoseconds(&got.Timeline.At[i]), m.At)
			equal(t, "waiting", int(got.Timeline.Waiting[i]), m.Waiting+m.Held)
			equal(t, "running", int(got.Timeline.Running[i]), m.Running)
			equal(t, "busy", int64(got.Timeline.Busy[i]*1000), m.BusyMilli)
			equal(t, "capacity", int(got.Timeline.Capacity[i]), m.Capacity)
			i++
		}
		held := map[cluster.JobID]time.Duration{}
		for _, r := range run.Result.Runs {
			held[r.Job] += (r.To - r.From) * time.Duration(len(r.On))
		}
		for i, job := range got.Gantt.Job {
			held[cluster.JobID(job)] -= (nanoseconds(&got.Gantt.To[i]) - nanoseconds(&got.Gantt.From[i])) * time.Duration(
				got.Gantt.Rows[i],
			)
		}
		for job, left := range held {
			equal(t, "GPU time beyond job's bars", left, 0)
			_ = job
		}
	}
	for n, c := range a.Curves {
		for i, p := range c.Points {
			equal(t, "load", d.Curves[n].Load[i], p.Load)
			equal(t, "mean", nanoseconds(&d.Curves[n].Mean[i]), p.MeanJCT)
		}
	}
	if want := []string{"fifo", "sjf", "las", "srtf"}; !slices.Equal(d.Names, want) {
		t.Errorf("the names are %v, want %v", d.Names, want)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func nanoseconds(s *float64) time.Duration { return time.Duration(math.Round(*s * 1e9)) }

// TestPageNeedsNothing: the page loads nothing, and names are escaped.
func TestPageNeedsNothing(t *testing.T) {
	a := sample(50)
	a.Title = `<b>"R&D"</b> {{DATA}}</title><script>alert(1)</script>`
	a.Runs[0].Name = `</script><script>alert(2)</script>`
	text := string(rendered(t, a))
	loads := regexp.MustCompile(`(?i)https?:|//[a-z]+\.|src\s*=|@import|url\(|<link|<img|<iframe|alert\(2\)</`)
	if got := loads.FindAllString(text, -1); got != nil {
		t.Errorf("the page holds %q", got)
	}
	if n := strings.Count(text, "<script"); n != 2 {
		t.Errorf("the page has %d scripts, want its data and its program", n)
	}
	if !strings.Contains(text, `content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"`) {
		t.Error("the page does not forbid itself to load anything")
	}
	if d := decoded(t, []byte(text)); d.Runs[0].Name != a.Runs[0].Name {
		t.Errorf("the name became %q", d.Runs[0].Name)
	}
}

// TestProgram checks the page's scripts with node.
func TestProgram(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node on this machine, which would check the page's JavaScript")
	}
	text := rendered(t, sample(20))
	at := bytes.LastIndex(text, []byte("<script>"))
	program, _, _ := bytes.Cut(text[at+len("<script>"):], []byte("</script>"))
	path := filepath.Join(t.TempDir(), "page.js")
	if err := os.WriteFile(path, program, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(node, "--check", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestSame: an album has the same bytes each time.
func TestSame(t *testing.T) {
	a := sample(100)
	for _, f := range a.figures() {
		var one, two bytes.Buffer
		if err := errors.Join(f.SVG(&one), f.SVG(&two)); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Errorf("%s is not the same twice (%v)", f.Name, err)
		}
	}
	if !bytes.Equal(rendered(t, a), rendered(t, a)) {
		t.Error("the page is not the same twice")
	}
}

// TestSmall draws nearly empty albums.
func TestSmall(t *testing.T) {
	one := &sim.Result{
		Jobs:     sim.ResultsOf(sim.JobResult{ID: 1, GPUs: 1, Started: true, Outcome: sim.Done}),
		Timeline: sim.TimelineOf(sim.Sample{Capacity: 1}),
		Nodes:    []cluster.Node{{GPUs: 1}},
		Runs:     []sim.Run{{Job: 1, On: cluster.Placement{{}}}},
	}
	for what, a := range map[string]Album{
		"nothing":      {},
		"an empty run": {Runs: []Run{{"none", &sim.Result{}}}},
		"a sample":     {Runs: []Run{{"one", one}, {"none", &sim.Result{}}}},
		"a load":       {Curves: []Curve{{"one", []Point{{1, 0}}}, {"none", nil}}},
		"many names":   {Runs: slices.Repeat([]Run{{"a name that is rather long for a legend", one}}, 12)},
	} {
		if _, err := a.Write(t.TempDir()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestMany draws a hundred thousand jobs, with bounded file sizes.
func TestMany(t *testing.T) {
	r := many(100_000)
	a := Album{Runs: []Run{{"many", r}}}
	for _, f := range a.figures() {
		var out bytes.Buffer
		if err := errors.Join(f.PNG(io.Discard), f.SVG(&out)); err != nil {
			t.Fatal(err)
		}
		if out.Len() > 100*maxBars { // A bar takes at most that many bytes; lines take little.
			t.Errorf("%s has %d bytes", f.Name, out.Len())
		}
	}
	text := rendered(t, a)
	if len(text) > 32<<20 {
		t.Errorf("the page has %d bytes", len(text))
	}
	if d := decoded(t, text); len(d.Runs[0].Jobs.ID) != 100_000 {
		t.Errorf("the page has %d jobs", len(d.Runs[0].Jobs.ID))
	}
}

// many is a result of jobs that follow each other on 512 GPUs.
func many(jobs int) *sim.Result {
	random := rand.New(rand.NewPCG(1, 1))
	r := &sim.Result{}
	for n := range 64 {
		r.Nodes = append(r.Nodes, cluster.Node{ID: cluster.NodeID(n), GPUs: 8})
	}
	var free [512]time.Duration
	var results []sim.JobResult
	var samples []sim.Sample
	for i := range jobs {
		gpu, length := i%512, time.Duration(random.Int64N(int64(time.Hour)))
		from := free[gpu]
		free[gpu] += length
		results = append(
			results,
			sim.JobResult{
				ID:      cluster.JobID(i),
				GPUs:    1,
				Submit:  from,
				Start:   from,
				Started: true,
				Finish:  free[gpu],
				Outcome: sim.Done,
			},
		)
		r.Runs = append(
			r.Runs,
			sim.Run{
				Job:  cluster.JobID(i),
				From: from,
				To:   free[gpu],
				On:   cluster.Placement{{Node: cluster.NodeID(gpu / 8), Index: int32(gpu % 8)}},
			},
		)
		samples = append(
			samples,
			sim.Sample{
				At:        time.Duration(i) * time.Second,
				Waiting:   random.IntN(900),
				BusyMilli: random.Int64N(512_000),
				Capacity:  512,
			},
		)
	}
	r.Jobs, r.Timeline = sim.ResultsOf(results...), sim.TimelineOf(samples...)
	slices.SortStableFunc(r.Runs, func(a, b sim.Run) int { return int((a.From - b.From) / time.Microsecond) })
	return r
}

// TestThin: a thinned line has the same extremes in every interval, increasing times, and few
// points.
func TestThin(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range 50 {
		var s series
		x := 0.0
		for range 5000 + random.IntN(5000) {
			x += random.ExpFloat64()
			s.x, s.y = append(s.x, x), append(s.y, random.NormFloat64())
		}
		const stretches = 100
		thin := s.thin(stretches)
		if len(thin.x) > 4*(stretches+1) || !slices.IsSorted(thin.x) || thin.x[0] != s.x[0] ||
			thin.x[len(thin.x)-1] != x {
			t.Fatalf("%d points of %d, from %v to %v", len(thin.x), len(s.x), thin.x[0], thin.x[len(thin.x)-1])
		}
		bounds := func(s series) (low, high [stretches + 1]float64) {
			for i := range s.x {
				k := int((s.x[i] - s.x[0]) / ((x - s.x[0]) / stretches))
				low[k], high[k] = min(low[k], s.y[i]), max(high[k], s.y[i])
			}
			return low, high
		}
		low, high := bounds(s)
		gotLow, gotHigh := bounds(series{thin.x, thin.y})
		if low != gotLow || high != gotHigh {
			t.Fatal("a stretch has lost its least or greatest value")
		}
	}
}

// TestBars: adjacent GPUs make one bar, and nodes begin where the ones before them end.
func TestBars(t *testing.T) {
	r := &sim.Result{
		Nodes: []cluster.Node{{GPUs: 4}, {GPUs: 8}},
		Runs: []sim.Run{
			{
				On: cluster.Placement{
					{Node: 0, Index: 1},
					{Node: 0, Index: 2},
					{Node: 0, Index: 3},
					{Node: 1, Index: 0},
					{Node: 1, Index: 5},
				},
			},
			{On: cluster.Placement{{Node: 1, Index: 6}}},
		},
	}
	want := []bar{{0, 1, 4}, {0, 9, 1}, {1, 10, 1}}
	if got, _ := bars(r); !slices.Equal(got, want) {
		t.Errorf("bars are %v, want %v", got, want)
	}
}

func TestRoundNumbers(t *testing.T) {
	for _, c := range []struct {
		least, most float64
		want        []float64
	}{
		{0, 1, []float64{0, .2, .4, .6, .8, 1}},
		{0, 60, []float64{0, 10, 20, 30, 40, 50, 60}},
		{-1, 1, []float64{-1, -.5, 0, .5, 1}},
		{0, 24.7, []float64{0, 5, 10, 15, 20}},
		{3, 3, []float64{3}},
	} {
		got := roundNumbers(c.least, c.most)
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
			t.Errorf("between %v and %v: %v, want %v", c.least, c.most, got, c.want)
		}
	}
	for _, v := range roundNumbers(-1, 1) {
		if v == 0 && math.Signbit(v) {
			t.Error("0 is negative")
		}
	}
}

// TestNoRoom: if writing fails, no files are left.
func TestNoRoom(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if files, err := sample(20).Write(dir); err == nil || len(files) > 0 {
		t.Errorf("wrote %v (%v)", files, err)
	}
	blocked := t.TempDir()
	if err := os.MkdirAll(filepath.Join(blocked, "index.html", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := (Album{}).Write(blocked); err == nil {
		t.Error("a folder was overwritten")
	}
	if left, _ := filepath.Glob(filepath.Join(blocked, "*.tmp")); left != nil {
		t.Errorf("%v are left", left)
	}
}

// TestGanttFiles checks that charts have the names of their results, each its own.
func TestGanttFiles(t *testing.T) {
	var taken []string
	for _, run := range []string{"fifo", "srtf + best-fit", "srtf + best-fit", "../x", "fifo"} {
		taken = append(taken, ganttFile(run, taken))
	}
	want := []string{"gantt-fifo", "gantt-srtf---best-fit", "gantt-srtf---best-fit-2", "gantt-..-x", "gantt-fifo-2"}
	if !slices.Equal(taken, want) {
		t.Errorf("got %q, want %q", taken, want)
	}
}

// TestLogTicks checks that logarithmic axes of any range have enough labels, and not too many.
func TestLogTicks(t *testing.T) {
	for _, span := range [][2]float64{
		{1, 100},
		{30, 3600},
		{60, 86400},
		{600, 6 * 3600},
		{.01, 1},
		{3600, 30 * 86400},
		{1, 365 * 86400},
	} {
		labels, last := 0, ""
		for _, tick := range logTicks(math.Log(span[0]), math.Log(span[1])) {
			if tick.Label != "" {
				labels++
				last = tick.Label
			}
		}
		if labels < 5 || labels > 14 {
			t.Errorf("%v s: got %d labels, the last %q, want 5 to 14", span, labels, last)
		}
	}
}

// TestCoincidingLines checks that no two of many lines have the same look, and that each of those
// in one chart has gaps in which the first shows.
func TestCoincidingLines(t *testing.T) {
	var a Album
	for i := range 20 {
		a.Runs = append(a.Runs, Run{Name: strconv.Itoa(i)})
	}
	looks := map[string]bool{}
	for i := range a.Runs {
		line := a.lineStyle(a.Runs[i].Name)
		if i > 0 && i < len(dashes) && line.Dashes == nil {
			t.Errorf("line %d has no gaps", i)
		}
		looks[fmt.Sprint(line.Color, line.Dashes)] = true
	}
	if len(looks) != len(a.Runs) {
		t.Errorf("got %d looks of %d lines", len(looks), len(a.Runs))
	}
}

// TestMostUsed: of many users the page has those with the most GPU hours, and the result keeps all.
func TestMostUsed(t *testing.T) {
	f := &sim.Figures{}
	for i := range 100 {
		f.ByUser = append(f.ByUser, sim.Group{Name: strconv.Itoa(i), GPUHours: float64(i)})
	}
	got, left := mostUsed(f)
	if left != 100-maxUsers || len(got.ByUser) != maxUsers || got.ByUser[0].Name != "99" || len(f.ByUser) != 100 ||
		f.ByUser[0].Name != "0" {
		t.Errorf("got %d users, %d left out", len(got.ByUser), left)
	}
	if got, left := mostUsed(nil); got != nil || left != 0 {
		t.Errorf("got %v, %d", got, left)
	}
}
