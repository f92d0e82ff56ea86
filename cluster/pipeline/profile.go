package pipeline

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/zeebo/blake3"
)

// Layer is the costs of one layer of a model for one microbatch on one GPU.
type Layer struct {
	Name              string
	Forward, Backward time.Duration

	// StateBytes are parameters, gradients and optimizer state: what must be copied to a node that
	// takes the layer over.
	StateBytes int64
	// ActivationBytes are kept from a microbatch's forward pass to its backward pass.
	ActivationBytes int64

	// InNode is the time of an all-reduce among so many GPUs of a node, which a stage on several GPUs
	// pays in each direction.
	InNode map[int]time.Duration
	// Across is the time of an all-reduce among so many nodes.
	Across map[int]time.Duration
}

// Profile is a model's layers.
type Profile struct {
	Layers []Layer

	// Prefix sums: work[i] is that of the layers before i.
	work, forward, state, activation []int64
	// reduces are, by number of GPUs, the prefix sums of both directions of InNode; nil for a number
	// that some layer lacks.
	reduces [MaxGPUs + 1][]int64
}

// NewProfile validates layers and returns their profile.
func NewProfile(layers []Layer) (*Profile, error) {
	if len(layers) == 0 {
		return nil, &InputError{Problem: "no layers", Want: "at least one"}
	}
	p := &Profile{Layers: layers, work: []int64{0}, forward: []int64{0}, state: []int64{0}, activation: []int64{0}}
	if len(layers) > 1<<10 {
		return nil, &InputError{Problem: fmt.Sprintf("%d layers", len(layers)), Want: "at most 1024"}
	}
	for i := range layers {
		l := &layers[i]
		if err := l.check(i); err != nil {
			return nil, err
		}
		p.work = append(p.work, p.work[i]+int64(l.Forward+l.Backward))
		p.forward = append(p.forward, p.forward[i]+int64(l.Forward))
		p.state = append(p.state, p.state[i]+l.StateBytes)
		p.activation = append(p.activation, p.activation[i]+l.ActivationBytes)
	}
	if p.work[len(layers)] > int64(maxTime) {
		return nil, &InputError{
			Problem: fmt.Sprintf("all layers take %v for a microbatch", time.Duration(p.work[len(layers)])),
			Want:    "at most 18 minutes",
		}
	}
	if all := p.state[len(layers)] + p.activation[len(layers)]; all > 1<<50 {
		return nil, &InputError{Problem: "all layers have " + Size(all), Want: "at most 2^50"}
	}
	for width := range layers[0].InNode {
		if sums, all := p.reduceSums(width); all && width <= MaxGPUs {
			p.reduces[width] = sums
		}
	}
	return p, nil
}

// MaxGPUs is the most GPUs of a node.
const MaxGPUs = 64

// MaxMicrobatches and maxTime bound the operands here, so that no sum or product overflows: a
// microbatch may take 18 minutes.
const (
	MaxMicrobatches = 1 << 20
	maxTime         = time.Duration(1) << 40
)

func (l *Layer) check(i int) error {
	at := fmt.Sprintf("layer %d (%s)", i, l.Name)
	if l.Forward <= 0 || l.Backward < 0 || l.Forward > maxTime || l.Backward > maxTime {
		return &InputError{
			Where: at, Problem: fmt.Sprintf("forward %v, backward %v", l.Forward, l.Backward),
			Want: "a forward time above 0 and a backward time of at least 0, not over 18 minutes",
		}
	}
	if l.StateBytes < 0 || l.ActivationBytes < 0 || l.StateBytes > 1<<49 || l.ActivationBytes > 1<<49 {
		return &InputError{
			Where: at, Problem: fmt.Sprintf("%d bytes of state, %d of activations", l.StateBytes, l.ActivationBytes),
			Want: "from 0 to 2^49 bytes",
		}
	}
	for _, times := range []map[int]time.Duration{l.InNode, l.Across} {
		for members, took := range times {
			if members < 1 || took < 0 || took > maxTime {
				return &InputError{
					Where: at, Problem: fmt.Sprintf("an all-reduce of %v among %d", took, members),
					Want: "at least 1 member and a time from 0 to 18 minutes",
				}
			}
		}
	}
	return nil
}

// reduceSums returns the prefix sums of the all-reduce times of a stage on width GPUs; all is false
// if a layer has no such measurement.
func (p *Profile) reduceSums(width int) (sums []int64, all bool) {
	sums = []int64{0}
	for i := range p.Layers {
		took, measured := p.Layers[i].InNode[width]
		if !measured {
			return nil, false
		}
		sums = append(sums, sums[i]+2*int64(took))
	}
	return sums, true
}

// Len returns the number of layers.
func (p *Profile) Len() int { return len(p.Layers) }

// Widths returns the possible numbers of GPUs of a stage, on a node with so many: one, and each
// that was measured for all layers.
func (p *Profile) Widths(gpus int) []int {
	widths := []int{1}
	for width := 2; width <= gpus; width++ {
		if p.Measured(width) {
			widths = append(widths, width)
		}
	}
	return widths
}

// Measured reports whether a stage can have so many GPUs.
func (p *Profile) Measured(width int) bool {
	return width == 1 || 1 < width && width <= MaxGPUs && p.reduces[width] != nil
}

// Time returns a stage's time for a microbatch, forward and backward, for the layers from..to-1 on
// width GPUs. Layers divide evenly among the GPUs, rounded up to a nanosecond.
func (p *Profile) Time(from, to, width int) int64 {
	work := p.work[to] - p.work[from]
	if width == 1 {
		return work
	}
	sums := p.reduces[width]
	return (work+int64(width)-1)/int64(width) + sums[to] - sums[from]
}

// Forward returns the forward part of Time.
func (p *Profile) Forward(from, to, width int) int64 {
	work := p.forward[to] - p.forward[from]
	if width == 1 {
		return work
	}
	sums := p.reduces[width]
	return work/int64(width) + (sums[to]-sums[from])/2
}

// StateBytes returns the state of the layers from..to-1.
func (p *Profile) StateBytes(from, to int) int64 { return p.state[to] - p.state[from] }

// Bytes returns what a stage of the layers from..to-1 needs on each of its GPUs with so many
// microbatches in flight.
func (p *Profile) Bytes(from, to, width, inFlight int) int64 {
	all := p.state[to] - p.state[from] + int64(inFlight)*(p.activation[to]-p.activation[from])
	return (all + int64(width) - 1) / int64(width)
}

// InFlight returns for how many microbatches a stage of the layers from..to-1 has memory on GPUs of
// so many bytes each: the inverse of Bytes.
func (p *Profile) InFlight(from, to, width int, gpuBytes int64) int {
	// No stage needs that much, and larger products would overflow.
	most := int64(1) << 61 / int64(width)
	left := int64(width)*min(gpuBytes, most) - (p.state[to] - p.state[from])
	activation := p.activation[to] - p.activation[from]
	switch {
	case left < 0:
		return 0
	case activation == 0:
		return math.MaxInt32
	}
	return int(min(left/activation, math.MaxInt32))
}

// AllReduce returns how long pipelines wait for one another at the end of an iteration: the
// all-reduce of the first layer, whose gradient is ready last; those of the other layers overlap
// with backward passes. If the number of pipelines was not measured the next larger one counts, and
// beyond the largest that one.
func (p *Profile) AllReduce(pipelines int) int64 {
	if pipelines < 2 {
		return 0
	}
	best, largest := 0, 0
	for members := range p.Layers[0].Across {
		largest = max(largest, members)
		if members >= pipelines && (best == 0 || members < best) {
			best = members
		}
	}
	if best == 0 {
		best = largest
	}
	return int64(p.Layers[0].Across[best])
}

// Hash identifies a profile: it covers everything that planning depends on, and the names.
func (p *Profile) Hash() Hash {
	h := blake3.New()
	for i := range p.Layers {
		l := &p.Layers[i]
		fmt.Fprintf(h, "%q %d %d %d %d", l.Name, l.Forward, l.Backward, l.StateBytes, l.ActivationBytes)
		for _, times := range []map[int]time.Duration{l.InNode, l.Across} {
			fmt.Fprint(h, " |")
			for _, members := range sortedKeys(times) {
				fmt.Fprintf(h, " %d:%d", members, times[members])
			}
		}
		fmt.Fprintln(h)
	}
	return Hash(fmt.Sprintf("%x", h.Sum(nil)[:16]))
}

// sortedKeys returns the numbers of GPUs or nodes for which times are known.
func sortedKeys(times map[int]time.Duration) []int {
	var keys []int
	for key := range times {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
