package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster"
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
// the table of throughputs in the same folder, for Gavel's reference GPU.
func readGavel(s *source) (Trace, error) {
	var trace Trace
	var rates map[string]float64
	err := s.each(func(line []byte) (err error) {
		words := bytes.Split(line, []byte("\t"))
		if at, ok := gavelLines[len(words)]; ok && rates == nil && at.length == 0 {
			var gpuType string
			if rates, gpuType, err = s.gavelRates(); err != nil {
				return err
			}
			trace.Notes = append(trace.Notes, "lengths are those on a "+gpuType)
		}
		job, err := s.gavelJob(words, rates)
		trace.Jobs = append(trace.Jobs, job)
		return err
	})
	if err != nil {
		return Trace{}, err
	}
	return trace, nil
}

// gavelJob parses a line. Jobs have no names, so two equal lines are two jobs.
func (s *source) gavelJob(words [][]byte, rates map[string]float64) (j cluster.Job, err error) {
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
	key := fmt.Sprintf("('%s', %d)", j.Model, j.GPUs)
	rate, known := rates[key]
	length := float64(steps) / rate * float64(time.Second)
	if !known || !(length < math.MaxInt64) {
		return j, s.badValue("model", j.Model, "one that the table of throughputs has, as "+key)
	}
	j.Length = time.Duration(length)
	j.Estimate = j.Length
	return j, nil
}

// gavelReference is the GPU type for which Gavel generates its traces.
const gavelReference = "v100"

// gavelRates reads how many steps per second models make alone, by Gavel's keys: ('ResNet-18 (batch
// size 16)', 1).
func (s *source) gavelRates() (rates map[string]float64, gpuType string, err error) {
	in, done, err := s.openSecond("*throughputs*.json*")
	if err != nil {
		return nil, "", err
	}
	if in == nil {
		return nil, "", &Error{
			File: s.file,
			Want: "a table of throughputs in the same folder, as Gavel's simulation_throughputs.json: the trace counts " +
				"steps, not seconds",
		}
	}
	defer done()
	var table map[string]map[string]map[string]json.RawMessage
	if err := json.NewDecoder(in.in).Decode(&table); err != nil {
		return nil, "", &Error{File: in.file, Want: "JSON, by kind of GPU and model; " + err.Error()}
	}
	if len(table) == 0 {
		return nil, "", &Error{File: in.file, Want: "at least one kind of GPU"}
	}
	gpuType = gavelReference
	if table[gpuType] == nil {
		gpuType = slices.Sorted(maps.Keys(table))[0]
	}
	rates = map[string]float64{}
	for key, alone := range table[gpuType] {
		var rate float64
		if raw := alone["null"]; raw != nil {
			if err := json.Unmarshal(raw, &rate); err != nil || rate < 0 {
				return nil, "", &Error{
					File:   in.file,
					Column: gpuType + "." + key + ".null",
					Value:  shortened(string(raw)),
					Has:    true,
					Want:   "steps a second",
				}
			}
		}
		if rate > 0 {
			rates[key] = rate
		}
	}
	return rates, gpuType, nil
}
