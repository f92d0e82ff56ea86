package generator

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/workload"
)

// Parameters of a generated trace.
type Parameters struct {
	// Seed determines all random numbers. The same seed gives the same trace.
	Seed uint64

	// Jobs is the number of jobs.
	Jobs int

	// GPUs is the number of GPUs that Load refers to.
	GPUs int

	// Load is how much of the cluster the jobs need on average, 1 being all of it. JobsPerHour is the
	// alternative; exactly one of them is set.
	Load, JobsPerHour float64

	// Lengths and Sizes default to BloxLaw and SingleGPU.
	Lengths Law
	Sizes   Mix

	// EstimateError is by how much owners misjudge their jobs: an estimate is the length multiplied or
	// divided by up to 1+EstimateError.
	EstimateError float64

	// GPUTypes are the GPU models that jobs require, Models what they train; empty means neither.
	GPUTypes, Models Choice

	// Tenants are the users of the generator "tenants"; empty means Tenants().
	Tenants []Tenant

	// Burst configures the generator "burst"; the zero value means its defaults.
	Burst Burst
}

// Tenant is a user with jobs of its own kind.
type Tenant struct {
	Name     string
	Weight   float64 // of its jobs among all
	Lengths  Law
	Sizes    Mix
	Priority int
}

// Burst is when many short jobs arrive on top of a steady stream.
type Burst struct {
	Period  time.Duration // from the start of one burst to the next
	Lasting time.Duration
	Factor  float64 // short jobs for each of the others during a burst
	Lengths Law
}

// generators by name.
var generators = map[string]func(p Parameters) generator{
	"poisson": steady,
	"burst":   bursting,
	"tenants": mixed,
}

// Names returns the generators.
func Names() []string { return slices.Sorted(maps.Keys(generators)) }

// generator generates jobs one by one.
type generator struct {
	// work is the mean GPU time of a job in seconds.
	work float64

	// arrive returns the next arrival, for a mean rate in jobs per second.
	arrive func(rate float64, last time.Duration) time.Duration

	// fill sets the job's other fields.
	fill func(j *cluster.Job)
}

// Make generates a trace. Arrivals, lengths and sizes come from separate random streams, so that
// two traces of one seed at two loads have the same jobs.
func Make(name string, p Parameters) (workload.Trace, error) {
	if p.Lengths.draw == nil {
		p.Lengths = BloxLaw()
	}
	if p.Sizes == nil {
		p.Sizes = SingleGPU()
	}
	if err := p.check(); err != nil {
		return workload.Trace{}, err
	}
	begin, ok := generators[name]
	if !ok {
		return workload.Trace{}, fmt.Errorf("unknown generator %q; want one of %s", name, strings.Join(Names(), ", "))
	}
	g := begin(p)
	rate := p.JobsPerHour / 3600
	if p.Load > 0 {
		rate = p.Load * float64(p.GPUs) / g.work
	}
	guesses, types, models := newStream(p.Seed, forEstimates), newStream(p.Seed, forTypes), newStream(p.Seed, forModels)
	trace := workload.Trace{Format: name, Jobs: &packed.Jobs{}}
	var now time.Duration
	for i := range p.Jobs {
		if now = g.arrive(rate, now); now < 0 {
			return workload.Trace{}, fmt.Errorf("generate: job %d would arrive more than 292 years after the first", i)
		}
		j := &cluster.Job{ID: cluster.JobID(i), Submit: now, Share: cluster.WholeGPU}
		g.fill(j)
		j.GPUType, j.Model = p.GPUTypes.next(types), p.Models.next(models)
		j.Estimate = perturbed(guesses, j.Length, p.EstimateError)
		trace.Jobs.Add(j)
	}
	return trace, nil
}

// check returns an error for invalid parameters.
func (p Parameters) check() error {
	for _, c := range []struct {
		wrong bool
		want  string
	}{
		{p.Jobs < 1 || p.Jobs > 100_000_000, "1 to 100,000,000 jobs"},
		{(p.Load > 0) == (p.JobsPerHour > 0), "either a load or a number of jobs an hour, more than 0"},
		{p.Load > 0 && p.GPUs < 1, "the number of GPUs that the load refers to"},
		{!(p.Load >= 0 && p.Load <= 1000), "a load from 0 to 1000, 1 being all GPUs"},
		{!(p.JobsPerHour >= 0 && p.JobsPerHour <= 1e9), "from 0 to 1e9 jobs an hour"},
		{!(p.EstimateError >= 0 && p.EstimateError <= 1000), "an error of estimates from 0 to 1000"},
		{
			!p.Burst.unset() && !p.Burst.valid(),
			"bursts that last, in a period no shorter, by a factor of more than 0, with a law of lengths",
		},
		{slices.ContainsFunc(p.Tenants, func(t Tenant) bool { return !(t.Weight > 0) }), "tenants with weights above 0"},
	} {
		if c.wrong {
			return fmt.Errorf("generate: want %s", c.want)
		}
	}
	return nil
}

// perturbed returns an owner's estimate of a length.
func perturbed(s *stream, length time.Duration, wrong float64) time.Duration {
	if wrong == 0 {
		return length
	}
	by := math.Exp(float64(s.between(-1, 1) * math.Log1p(wrong)))
	return max(milliseconds(length.Seconds()*by), time.Millisecond)
}

// poisson generates independent arrivals.
func poisson(s *stream) func(rate float64, last time.Duration) time.Duration {
	return func(rate float64, last time.Duration) time.Duration { return addSeconds(last, s.exponential()/rate) }
}

// addSeconds adds seconds to a time. It returns a negative time on overflow.
func addSeconds(at time.Duration, seconds float64) time.Duration {
	if seconds > 9e9 || at > math.MaxInt64-time.Duration(seconds*1e9)-time.Second {
		return -1
	}
	return at + milliseconds(seconds)
}

// setSize sets how many GPUs a job needs.
func setSize(j *cluster.Job, gpus float64) {
	j.GPUs = max(int(gpus), 1)
	if gpus < 1 {
		j.Share = int(math.Round(gpus * cluster.WholeGPU))
	}
}

// steady is the generator "poisson": independent arrivals of equal jobs.
func steady(p Parameters) generator {
	lengths, sizes := newStream(p.Seed, forLengths), newStream(p.Seed, forSizes)
	return generator{
		work:   p.Lengths.mean * p.Sizes.mean(),
		arrive: poisson(newStream(p.Seed, forArrivals)),
		fill: func(j *cluster.Job) {
			j.Length = p.Lengths.next(lengths)
			setSize(j, p.Sizes.next(sizes))
		},
	}
}
