package pipeline

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/zeebo/blake3"
)

// Layer is what one layer of a model costs for one microbatch on one GPU.
type Layer struct {
	Name              string
	Forward, Backward time.Duration

	// StateBytes are parameters, gradients and optimizer: what must be copied to a node that takes the
	// layer over.
	StateBytes int64
	// ActivationBytes are kept from a microbatch's forward pass to its backward pass.
	ActivationBytes int64

	// InNode is the time of an all-reduce among so many GPUs of a node, which a stage on several GPUs
	// pays in each direction.
	InNode map[int]time.Duration
	// Across is the time of an all-reduce among so many nodes.
	Across map[int]time.Duration
}

// Profile is a model as its layers.
type Profile struct {
	Layers []Layer

	// Sums from the first layer on: work[i] is that of the layers before i.
	work, forward, state, activation []int64
	// reduces are, by number of GPUs, the sums of both directions of InNode; nil for a number that
	// some layer lacks.
	reduces [MaxGPUs + 1][]int64
}

// NewProfile checks layers and makes a profile of them.
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
		return nil, &InputError{Problem: fmt.Sprintf("all layers have %d bytes", all), Want: "at most 2^50"}
	}
	for width := range layers[0].InNode {
		if sums, all := p.reduceSums(width); all && width <= MaxGPUs {
			p.reduces[width] = sums
		}
	}
	return p, nil
}

// MaxGPUs is how many GPUs a node can have.
const MaxGPUs = 64

// MaxMicrobatches and longest bound what is added and multiplied here, so that no sum overflows: a
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

// reduceSums are the running sums of what a stage on width GPUs pays to all-reduce; all is false
// where a layer was not measured so.
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

// Len is the number of layers.
func (p *Profile) Len() int { return len(p.Layers) }

// Widths are the numbers of GPUs that a stage can have on a node of so many: one, and each that was
// measured for all layers.
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

// Time is how long a stage of the layers from..to-1 works on a microbatch, both ways, on width
// GPUs. Layers are divided among the GPUs without remainder that matters: what is left of a
// nanosecond counts as one.
func (p *Profile) Time(from, to, width int) int64 {
	work := p.work[to] - p.work[from]
	if width == 1 {
		return work
	}
	sums := p.reduces[width]
	return (work+int64(width)-1)/int64(width) + sums[to] - sums[from]
}

// Forward is the forward half of Time.
func (p *Profile) Forward(from, to, width int) int64 {
	work := p.forward[to] - p.forward[from]
	if width == 1 {
		return work
	}
	sums := p.reduces[width]
	return work/int64(width) + (sums[to]-sums[from])/2
}

// StateBytes is the state of the layers from..to-1.
func (p *Profile) StateBytes(from, to int) int64 { return p.state[to] - p.state[from] }

// Bytes is what a stage of the layers from..to-1 needs on each of its GPUs while so many
// microbatches are in flight.
func (p *Profile) Bytes(from, to, width, inFlight int) int64 {
	all := p.state[to] - p.state[from] + int64(inFlight)*(p.activation[to]-p.activation[from])
	return (all + int64(width) - 1) / int64(width)
}

// InFlight is for how many microbatches a stage of the layers from..to-1 has memory on GPUs of so
// many bytes each; it is Bytes, turned round.
func (p *Profile) InFlight(from, to, width int, gpuBytes int64) int {
	// No stage takes as much, and the product of any more would overflow.
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

// AllReduce is how long pipelines wait for one another at an iteration's end: the all-reduce of the
// first layer, whose gradient is the last to be ready; those of the others hide behind the backward
// passes. Where their number was not measured the next larger one counts, and beyond the largest
// that one.
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

// Hash tells profiles apart: it covers everything that planning depends on, and the names.
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

func sortedKeys(times map[int]time.Duration) []int {
	var keys []int
	for key := range times {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
