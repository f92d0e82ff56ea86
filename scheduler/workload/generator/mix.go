package generator

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Mix is a distribution of GPUs, by weight.
type Mix []Part

// Part is one size of a Mix.
type Part struct {
	GPUs   float64 // below 1: a share of one GPU
	Weight float64
}

// SingleGPU is the mix of Blox's own runs.
func SingleGPU() Mix { return Mix{{1, 1}} }

// MultiGPU is Blox's mix for runs with larger jobs.
func MultiGPU() Mix { return Mix{{1, 70}, {2, 10}, {4, 15}, {8, 5}} }

// ParseMix parses a mix as 1:70,2:10,4:15,8:5; 0.5:20 means jobs that share a GPU.
func ParseMix(text string) (Mix, error) {
	var m Mix
	for item := range strings.SplitSeq(text, ",") {
		size, weight, weighted := strings.Cut(item, ":")
		p := Part{Weight: 1}
		var err error
		p.GPUs, err = strconv.ParseFloat(strings.TrimSpace(size), 64)
		if err == nil && weighted {
			p.Weight, err = strconv.ParseFloat(strings.TrimSpace(weight), 64)
		}
		whole := p.GPUs >= 1 && p.GPUs == math.Trunc(p.GPUs) && p.GPUs <= 1e6
		if err != nil || !(whole || p.GPUs >= 0.001 && p.GPUs < 1) || !(p.Weight > 0 && p.Weight < 1e9) {
			return nil, fmt.Errorf("mix of GPUs: %q is not a size with a weight, as 4:15 or 0.5:20", item)
		}
		m = append(m, p)
	}
	return m, nil
}

// mean returns the expectation of GPUs.
func (m Mix) mean() float64 {
	sum, weights := 0.0, 0.0
	for _, p := range m {
		sum += p.GPUs * p.Weight
		weights += p.Weight
	}
	return sum / weights
}

// next returns a random size.
func (m Mix) next(s *stream) float64 {
	weights := make([]float64, len(m))
	for i, p := range m {
		weights[i] = p.Weight
	}
	return m[pick(s, weights)].GPUs
}

// pick returns a random index by weight.
func pick(s *stream, weights []float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	at := float64(s.uniform() * sum)
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// Choice is a distribution of names, by weight: of required GPU models, or of trained models.
type Choice []Named

// Named is one name of a Choice; empty means none.
type Named struct {
	Name   string
	Weight float64
}

// ParseChoice parses names with weights, as A100:30,:70, where the second part means no name.
func ParseChoice(text string) (c Choice, err error) {
	for item := range strings.SplitSeq(text, ",") {
		name, weight, weighted := strings.Cut(strings.TrimSpace(item), ":")
		n := Named{name, 1}
		if weighted {
			n.Weight, err = strconv.ParseFloat(weight, 64)
		}
		if err != nil || !(n.Weight > 0 && n.Weight < 1e9) {
			return nil, fmt.Errorf("%q is not a name with a weight, as A100:30", item)
		}
		c = append(c, n)
	}
	return c, nil
}

// next returns a random name; "" if the choice is empty.
func (c Choice) next(s *stream) string {
	if len(c) == 0 {
		return ""
	}
	weights := make([]float64, len(c))
	for i, n := range c {
		weights[i] = n.Weight
	}
	return c[pick(s, weights)].Name
}
