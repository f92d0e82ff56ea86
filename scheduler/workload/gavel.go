package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// gavelLine is the position of each field in a line.
type gavelLine struct{ model, steps, gpus, length, arrival int }

// gavelLines are Gavel's line formats by the number of fields: the older one; the one since
// commands run in a folder and jobs have a weight and a deadline; and Shockwave's, with a mode and
// a length.
var gavelLines = map[int]gavelLine{
	7:  {model: 0, steps: 4, arrival: 5, gpus: 6},
	10: {model: 0, steps: 5, gpus: 6, arrival: 9},
	12: {model: 0, steps: 5, gpus: 6, length: 10, arrival: 11},
}

// guessGavel reports whether the first line has tabs, which no other format has.
func guessGavel(h head) bool {
	_, ok := gavelLines[strings.Count(h.first, "\t")+1]
	return ok
}

// readGavel reads a trace of Gavel: a job is a model and a number of steps. Its length follows from
// the table of throughputs, for Gavel's reference GPU. The table is in the same folder, or, as in
// Gavel's repository, in one above it.
func readGavel(s *source) (Trace, error) {
	trace := newTrace()
	var rates *gavelRates
	err := s.each(func(line []byte) (err error) {
		words := bytes.Split(line, []byte("\t"))
		if at, ok := gavelLines[len(words)]; ok && rates == nil && at.length == 0 {
			if rates, err = s.gavelRates(); err != nil {
				return err
			}
			trace.Notes = append(trace.Notes, "lengths are those on a "+rates.gpuType)
			if rates.above {
				trace.Notes = append(trace.Notes, "throughputs are from "+rates.path+", above the trace")
			}
		}
		job, err := s.gavelJob(words, rates)
		trace.Jobs.Add(&job)
		return err
	})
	if err != nil {
		return Trace{}, err
	}
	return trace, nil
}

// gavelJob parses a line. Jobs have no names, so two equal lines are two jobs.
func (s *source) gavelJob(words [][]byte, rates *gavelRates) (j cluster.Job, err error) {
	at, known := gavelLines[len(words)]
	if !known {
		return j, s.badValue(
			"",
			string(bytes.Join(words, []byte(" "))),
			fmt.Sprintf("7, 10 or 12 words between tabs; there are %d", len(words)),
		)
	}
	steps, ok := whole(words[at.steps])
	if !ok || steps < 1 {
		return j, s.badValue("total steps", string(words[at.steps]), "a whole number of 1 or more")
	}
	gpus, ok := whole(words[at.gpus])
	if !ok || gpus < 1 || gpus > maxGPUs {
		return j, s.badValue("scale factor", string(words[at.gpus]), wantCount)
	}
	j = cluster.Job{Model: string(words[at.model]), GPUs: int(gpus), Share: cluster.WholeGPU}
	if j.Submit, ok = seconds(words[at.arrival]); !ok {
		return j, s.badValue("arrival time", string(words[at.arrival]), wantSeconds)
	}
	if at.length > 0 {
		if j.Length, ok = seconds(words[at.length]); !ok {
			return j, s.badValue("duration", string(words[at.length]), wantSeconds)
		}
		j.Estimate = j.Length
		return j, nil
	}
	rate, rule := rates.of(j.Model, j.GPUs)
	if rate == 0 {
		return j, s.badValue("model", j.Model, "one that the table of throughputs has, as "+gavelKey(j.Model, j.GPUs))
	}
	if rule != "" {
		s.assumed[rule]++
	}
	length := float64(steps) / rate * float64(time.Second)
	if !(length < math.MaxInt64) {
		return j, s.badValue(
			"total steps",
			string(words[at.steps]),
			fmt.Sprintf("steps for 9.2e9 s at %v a second", rate),
		)
	}
	j.Length = time.Duration(length)
	j.Estimate = j.Length
	return j, nil
}

// gavelReference is the GPU type for which Gavel generates its traces.
const gavelReference = "v100"

// gavelRates is how many steps per second models make alone on a GPU type.
type gavelRates struct {
	gpuType string
	path    string // of the table, from the trace
	above   bool   // whether the table is not in the trace's folder
	exact   map[string]float64
	counts  map[string][]gavelCount // of each model, by the number of GPUs
}

// gavelCount is the rate of a model on a number of GPUs.
type gavelCount struct {
	gpus int
	rate float64
}

// What replaces a rate that the table lacks. Most published traces have such jobs: the table has
// each model on 1 GPU, and some on 2, 4 and 8.
const (
	gavelFewer = "GPU count not in the table of throughputs; speed is that of the next smaller count"
	gavelMore  = "GPU count not in the table of throughputs; speed is a part of the next greater count's"
)

// of returns the rate of a model on a number of GPUs, and the rule by which it was found; "" if the
// table has it. The rate is 0 if the model is unknown.
//
// More GPUs than were measured are no faster: Gavel's models without a rate on 2 GPUs or more
// cannot use them, and for the others any speedup would be invented.
func (r *gavelRates) of(model string, gpus int) (rate float64, rule string) {
	if rate, ok := r.exact[gavelKey(model, gpus)]; ok {
		return rate, ""
	}
	counts := r.counts[model]
	if len(counts) == 0 {
		return 0, ""
	}
	for _, c := range counts {
		if c.gpus < gpus {
			rate = c.rate
		}
	}
	if rate > 0 {
		return rate, gavelFewer
	}
	return counts[0].rate * float64(gpus) / float64(counts[0].gpus), gavelMore
}

// gavelKey is Gavel's key of a model on a number of GPUs: ('ResNet-18 (batch size 16)', 1).
func gavelKey(model string, gpus int) string { return fmt.Sprintf("('%s', %d)", model, gpus) }

// parseGavelKey is the inverse of gavelKey.
func parseGavelKey(key string) (model string, gpus int, ok bool) {
	text, opened := strings.CutPrefix(key, "('")
	text, closed := strings.CutSuffix(text, ")")
	at := strings.LastIndex(text, "', ")
	if !opened || !closed || at < 0 {
		return "", 0, false
	}
	gpus, err := strconv.Atoi(text[at+len("', "):])
	return text[:at], gpus, err == nil && gpus >= 1 && gpus <= maxGPUs
}

// gavelTables are where the table of throughputs is, in this order. In Gavel's repository traces
// are up to three folders below it.
var gavelTables = []string{
	"simulation_throughputs.json*", "*throughputs*.json*",
	"../simulation_throughputs.json", "../../simulation_throughputs.json", "../../../simulation_throughputs.json",
}

// maxTable bounds the table of throughputs, which is in memory as a whole. Gavel's has 1.2 MB.
const maxTable = 64 << 20

// gavelRates reads the table of throughputs.
func (s *source) gavelRates() (*gavelRates, error) {
	in, done, err := s.openSecond(gavelTables...)
	if err != nil {
		return nil, err
	}
	if in == nil {
		return nil, &Error{
			File: s.file,
			Want: "Gavel's simulation_throughputs.json in the folder or above it, or --beside: the trace counts steps, not " +
				"seconds",
		}
	}
	defer done()
	table, err := readGavelTable(in)
	if err != nil {
		return nil, err
	}
	r := &gavelRates{gpuType: gavelReference, exact: map[string]float64{}, counts: map[string][]gavelCount{}}
	if table[r.gpuType] == nil {
		r.gpuType = slices.Sorted(maps.Keys(table))[0]
	}
	if s.beside == "" {
		r.path, _ = filepath.Rel(filepath.Dir(s.path), s.second)
		r.above = strings.HasPrefix(r.path, "..")
	}
	return r, r.fill(in.file, table[r.gpuType])
}

// gavelTable has raw rates by the type of GPU, by a job's key and the key of the job beside it.
type gavelTable map[string]map[string]map[string]json.RawMessage

// readGavelTable reads JSON of limited size.
func readGavelTable(in *lines) (table gavelTable, err error) {
	limited := &io.LimitedReader{R: in.in, N: maxTable}
	err = json.NewDecoder(limited).Decode(&table)
	switch {
	case limited.N <= 0:
		return nil, &Error{File: in.file, Want: fmt.Sprintf("a table of throughputs of at most %d MiB", maxTable>>20)}
	case err != nil:
		return nil, &Error{File: in.file, Want: "JSON, by kind of GPU and model; " + err.Error()}
	case len(table) == 0:
		return nil, &Error{File: in.file, Want: "at least one kind of GPU"}
	}
	return table, nil
}

// fill takes the rates of jobs alone on their GPUs. A rate of 0 means that the model cannot run
// so, and is as if it were missing.
func (r *gavelRates) fill(file string, jobs map[string]map[string]json.RawMessage) error {
	for key, alone := range jobs {
		var rate float64
		if raw := alone["null"]; raw != nil {
			if err := json.Unmarshal(raw, &rate); err != nil || rate < 0 {
				return &Error{
					File:   file,
					Column: r.gpuType + "." + key + ".null",
					Value:  shortened(string(raw)),
					Has:    true,
					Want:   "steps a second",
				}
			}
		}
		if rate == 0 {
			continue
		}
		r.exact[key] = rate
		if model, gpus, ok := parseGavelKey(key); ok {
			r.counts[model] = append(r.counts[model], gavelCount{gpus, rate})
		}
	}
	for _, counts := range r.counts {
		slices.SortFunc(counts, func(a, b gavelCount) int { return a.gpus - b.gpus })
	}
	return nil
}
