package throughput

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// apart ends the names of types in Gavel's table for jobs that are spread over nodes.
const apart = "_unconsolidated"

// isGavel reports whether a file is Gavel's table of throughputs: the only JSON among the formats.
func isGavel(in *bufio.Reader) bool {
	for n := 1; ; n++ {
		start, err := in.Peek(n)
		if err != nil {
			return false
		}
		if c := start[n-1]; !strings.ContainsRune(" \t\r\n", rune(c)) {
			return c == '{'
		}
	}
}

// readGavel reads the table that Gavel's simulations use (simulation_throughputs.json): by type of
// GPU and kind of job, the steps per second alone and beside others. Only the former count. A kind
// is a model and a number of GPUs, as ('ResNet-18 (batch size 16)', 2).
func readGavel(in io.Reader) ([]*Model, error) {
	var table map[string]map[string]map[string]json.RawMessage
	if err := json.NewDecoder(in).Decode(&table); err != nil {
		return nil, &InputError{Line: 1, Want: "not Gavel's table of throughputs: " + shortened(err.Error())}
	}
	types := slices.Sorted(maps.Keys(table))
	if i := slices.Index(types, "v100"); i > 0 {
		types[0], types[i] = types[i], types[0] // the type for which Gavel makes its traces
	}
	models := map[string]*Model{}
	for _, gpuType := range types {
		for _, kind := range slices.Sorted(maps.Keys(table[gpuType])) {
			name, gpus, ok := gavelKind(kind)
			if !ok {
				return nil, &InputError{1, gpuType, kind, "a model and a number of GPUs, as ('ResNet-18', 2)"}
			}
			var rate float64
			if alone := table[gpuType][kind]["null"]; alone != nil {
				if err := json.Unmarshal(alone, &rate); err != nil || rate < 0 {
					return nil, &InputError{1, gpuType + "." + kind, string(alone), "steps per second"}
				}
			}
			if rate < minPositive {
				continue // it does not run on the type
			}
			m := models[name]
			if m == nil {
				base, _ := strings.CutSuffix(gpuType, apart)
				m = &Model{
					Name: name, Batch: 1, MaxBatch: 1, Local: 1,
					measured: &measured{reference: base, curves: map[layout][]point{}},
				}
				models[name] = m
			}
			base, spread := strings.CutSuffix(gpuType, apart)
			m.measured.add(layout{base, spread}, point{gpus, rate})
		}
	}
	var all []*Model
	for _, name := range slices.Sorted(maps.Keys(models)) {
		all = append(all, models[name])
	}
	if all == nil {
		return nil, &InputError{Line: 1, Want: "no throughputs"}
	}
	return all, nil
}

// shortened cuts a long text, such as an error of the JSON decoder that repeats a value.
func shortened(text string) string {
	if len(text) > maxQuoted {
		return text[:maxQuoted] + "..."
	}
	return text
}

// gavelKind parses ('NAME', GPUS).
func gavelKind(kind string) (name string, gpus int, ok bool) {
	inner, opened := strings.CutPrefix(kind, "('")
	inner, closed := strings.CutSuffix(inner, ")")
	i := strings.LastIndex(inner, "', ")
	if !opened || !closed || i <= 0 {
		return "", 0, false
	}
	gpus, err := strconv.Atoi(inner[i+len("', "):])
	return inner[:i], gpus, err == nil && gpus > 0 && gpus <= 1<<20
}
