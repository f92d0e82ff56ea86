package generator

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/workload"
	"github.com/phos-gpu/phos/tests/golden"
)

// TestStream compares with the first numbers that the authors' C program prints for the seed
// 1234567.
func TestStream(t *testing.T) {
	s := stream{1234567}
	for i, want := range []uint64{
		6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431,
		16408922859458223821,
	} {
		if got := s.next(); got != want {
			t.Errorf("number %d is %d, want %d", i, got, want)
		}
	}
}

// TestGoldenHeads compares the first jobs of every generator: a trace that is cited by its seed
// must not change.
func TestGoldenHeads(t *testing.T) {
	for name, p := range map[string]Parameters{
		"poisson": {Seed: 1, Jobs: 12, GPUs: 128, Load: 0.9, Sizes: MultiGPU(), EstimateError: 1},
		"burst":   {Seed: 1, Jobs: 12, JobsPerHour: 20},
		"tenants": {Seed: 1, Jobs: 12, GPUs: 64, Load: 1, GPUTypes: Choice{{"A100", 1}, {"", 3}}},
	} {
		trace := generated(t, name, p)
		var out bytes.Buffer
		if err := workload.Write(&out, trace.Jobs); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, filepath.Join("testdata", name+".csv"), out.Bytes())
	}
}

func generated(t *testing.T, name string, p Parameters) workload.Trace {
	t.Helper()
	trace, err := Make(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// kolmogorov returns the largest distance between samples and a distribution, times the root of
// their number: under 1.63 in 99 of 100 cases.
func kolmogorov(values []float64, law func(x float64) float64) float64 {
	slices.Sort(values)
	n, most := float64(len(values)), 0.0
	for i, x := range values {
		f := law(x)
		most = max(most, f-float64(i)/n, float64(i+1)/n-f)
	}
	return most * math.Sqrt(n)
}

const kolmogorovBound = 1.63

func lengths(jobs []cluster.Job) (seconds []float64) {
	for _, j := range jobs {
		seconds = append(seconds, j.Length.Seconds())
	}
	return seconds
}

func gaps(jobs []cluster.Job) (seconds []float64) {
	for i := 1; i < len(jobs); i++ {
		seconds = append(seconds, (jobs[i].Submit - jobs[i-1].Submit).Seconds())
	}
	return seconds
}

func TestLawOfBlox(t *testing.T) {
	if mean := BloxLaw().mean; math.Abs(mean-60361) > 1 {
		t.Errorf("the mean is %v s, published 60361 s", mean)
	}
	trace := generated(t, "poisson", Parameters{Seed: 7, Jobs: 50_000, JobsPerHour: 7})
	law := func(x float64) float64 {
		u := math.Log10(x / 60)
		return 0.8*min(max((u-1.5)/1.5, 0), 1) + 0.2*min(max(u-3, 0), 1)
	}
	if d := kolmogorov(lengths(trace.Jobs.Slice()), law); d > kolmogorovBound {
		t.Errorf("lengths are %v from the law, want under %v", d, kolmogorovBound)
	}
}

func TestLaws(t *testing.T) {
	for text, law := range map[string]func(x float64) float64{
		"exponential:1h":  func(x float64) float64 { return 1 - math.Exp(-x/3600) },
		"uniform:10m-40m": func(x float64) float64 { return min(max((x-600)/1800, 0), 1) },
	} {
		l, err := ParseLaw(text)
		if err != nil {
			t.Fatal(err)
		}
		trace := generated(t, "poisson", Parameters{Seed: 3, Jobs: 20_000, JobsPerHour: 7, Lengths: l})
		if d := kolmogorov(lengths(trace.Jobs.Slice()), law); d > kolmogorovBound {
			t.Errorf("%s: lengths are %v from the law, want under %v", text, d, kolmogorovBound)
		}
	}
	for _, text := range []string{
		"", "blox:1h", "exponential", "exponential:x", "uniform:2h-1h", "fixed:-1s",
		"fixed:0s", "zipf:1h",
	} {
		if _, err := ParseLaw(text); err == nil {
			t.Errorf("the law %q was accepted", text)
		}
	}
}

func TestArrivals(t *testing.T) {
	trace := generated(t, "poisson", Parameters{Seed: 11, Jobs: 50_000, JobsPerHour: 36})
	law := func(x float64) float64 { return 1 - math.Exp(-x/100) }
	if d := kolmogorov(gaps(trace.Jobs.Slice()), law); d > kolmogorovBound {
		t.Errorf("times between arrivals are %v from an exponential law, want under %v", d, kolmogorovBound)
	}
}

// TestLoad checks for every generator that the jobs need the requested part of the cluster.
func TestLoad(t *testing.T) {
	for _, name := range Names() {
		for _, load := range []float64{0.3, 1.2} {
			p := Parameters{Seed: 5, Jobs: 200_000, GPUs: 256, Load: load, Sizes: MultiGPU()}
			trace := generated(t, name, p)
			got := 0.0
			for _, j := range trace.Jobs.All() {
				got += j.Length.Seconds() * float64(j.GPUs) * float64(j.Share) / cluster.WholeGPU
			}
			got /= trace.Jobs.At(p.Jobs-1).Submit.Seconds() * float64(p.GPUs)
			if math.Abs(got/load-1) > 0.03 {
				t.Errorf("%s: the load is %.3f, asked for %v", name, got, load)
			}
		}
	}
}

// TestBurst checks that bursts have the requested factor of more jobs, and that those are the short
// ones.
func TestBurst(t *testing.T) {
	trace := generated(t, "burst", Parameters{Seed: 2, Jobs: 100_000, JobsPerHour: 30})
	in, out := 0, 0
	for _, j := range trace.Jobs.All() {
		if j.Submit%(6*time.Hour) < 2*time.Hour {
			in++
		} else {
			out++
		}
	}
	if ratio := float64(in) / 2 / (float64(out) / 4); math.Abs(ratio-5) > 0.15 {
		t.Errorf("in bursts there are %.2f times as many jobs, want 5", ratio)
	}
	hours := trace.Jobs.At(trace.Jobs.Len() - 1).Submit.Hours()
	if rate := float64(trace.Jobs.Len()) / hours; math.Abs(rate/30-1) > 0.03 {
		t.Errorf("%.2f jobs an hour, asked for 30", rate)
	}
}

func TestTenants(t *testing.T) {
	tenants, err := ParseTenants("vision/try:60,mine:40")
	if err != nil {
		t.Fatal(err)
	}
	trace := generated(t, "tenants", Parameters{Seed: 4, Jobs: 50_000, JobsPerHour: 100, Tenants: tenants})
	jobs, shared := map[string]int{}, 0
	for _, j := range trace.Jobs.All() {
		jobs[j.User]++
		if j.Share < cluster.WholeGPU {
			shared++
		}
	}
	if part := float64(jobs["mine"]) / 50_000; math.Abs(part-0.4) > 0.01 {
		t.Errorf("a tenant of weight 40 in 100 has %.3f of the jobs", part)
	}
	if part := float64(shared) / float64(jobs["vision/try"]); math.Abs(part-0.3) > 0.02 {
		t.Errorf("%.3f of a tenant's jobs share their GPU, want 0.3", part)
	}
}

// TestSameJobsAtEveryLoad: only the arrival times depend on the load.
func TestSameJobsAtEveryLoad(t *testing.T) {
	for _, name := range []string{"poisson", "tenants"} {
		low := generated(t, name, Parameters{Seed: 9, Jobs: 500, GPUs: 100, Load: 0.5})
		high := generated(t, name, Parameters{Seed: 9, Jobs: 500, GPUs: 100, Load: 1})
		for i := range low.Jobs.All() {
			a, b := low.Jobs.At(i), high.Jobs.At(i)
			if math.Abs(float64(a.Submit-2*b.Submit)) > float64(time.Duration(i+2)*2*time.Millisecond) {
				t.Fatalf("%s: job %d arrives at %v at half the load, at %v at the whole", name, i, a.Submit, b.Submit)
			}
			if a.Submit, b.Submit = 0, 0; a != b {
				t.Fatalf("%s: job %d is %+v at one load and %+v at another", name, i, a, b)
			}
		}
	}
}

func TestEstimates(t *testing.T) {
	trace := generated(t, "poisson", Parameters{Seed: 6, Jobs: 20_000, JobsPerHour: 10, EstimateError: 1})
	under := 0
	for _, j := range trace.Jobs.All() {
		ratio := j.Estimate.Seconds() / j.Length.Seconds()
		if ratio < 0.499 || ratio > 2.001 {
			t.Fatalf("an estimate is %v of the length, want 0.5 to 2", ratio)
		}
		if ratio < 1 {
			under++
		}
	}
	if part := float64(under) / 20_000; math.Abs(part-0.5) > 0.02 {
		t.Errorf("%.3f of the estimates are too low, want half", part)
	}
}

func TestBadParameters(t *testing.T) {
	good := Parameters{Jobs: 1, GPUs: 1, Load: 1}
	for what, p := range map[string]func(p *Parameters){
		"no jobs":          func(p *Parameters) { p.Jobs = 0 },
		"no load":          func(p *Parameters) { p.Load = 0 },
		"two loads":        func(p *Parameters) { p.JobsPerHour = 1 },
		"no GPUs":          func(p *Parameters) { p.GPUs = 0 },
		"NaN":              func(p *Parameters) { p.Load = math.NaN() },
		"infinite":         func(p *Parameters) { p.Load = math.Inf(1) },
		"a burst too long": func(p *Parameters) { p.Burst = Burst{Period: 1, Lasting: 2, Factor: 1, Lengths: BloxLaw()} },
		"no weight":        func(p *Parameters) { p.Tenants = []Tenant{{Name: "a"}} },
		"negative error":   func(p *Parameters) { p.EstimateError = -1 },
		"no end":           func(p *Parameters) { p.Load, p.JobsPerHour, p.Jobs = 0, 1e-9, 10 },
	} {
		q := good
		p(&q)
		if _, err := Make("poisson", q); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	if _, err := Make("zipf", good); err == nil {
		t.Error("an unknown generator was accepted")
	}
	for _, mix := range []string{"", "0", "1.5", "-1", "1:0", "1:x", "NaN:1", "1:NaN", "1e99"} {
		if _, err := ParseMix(mix); err == nil {
			t.Errorf("the mix %q was accepted", mix)
		}
	}
}
