package progress

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// MaxBytes is the most that a training may say of itself. It may have so many ranks and events.
const (
	MaxBytes  = 3 << 20
	maxRanks  = 4096
	maxEvents = 200
)

// Status is how a training is.
type Status struct {
	Run string `json:"run"`
	// Rank is the one that has answered.
	Rank int `json:"rank"`
	// Step is the number of steps that were made, of Steps.
	Step  int `json:"step"`
	Steps int `json:"steps"`
	// Loss and Norm are nil before the first step, and if they are no finite numbers.
	Loss *float64 `json:"loss"`
	Norm *float64 `json:"norm"`
	// Seconds is the median time of the last steps; 0: it is not known.
	Seconds float64 `json:"seconds"`
	// Faults is how many ranks the training wants to be able to lose at once.
	Faults int     `json:"faults"`
	Ranks  []Rank  `json:"ranks"`
	Events []Event `json:"events"`
	// Nodes has the rank of each of the plan's nodes.
	Nodes []int           `json:"nodes"`
	Raw   json.RawMessage `json:"plan"`

	Plan *pipeline.Plan `json:"-"`

	byNumber map[int]Rank
}

// Rank is a rank of a training.
type Rank struct {
	Rank int    `json:"rank"`
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Replica is its job and number in a launch; empty outside of one.
	Replica string `json:"replica"`
	// Computing is for how many seconds it computed in the last step.
	Computing float64 `json:"computing"`
}

// Event is a change of the ranks.
type Event struct {
	At      float64 `json:"at"` // Unix time
	Step    int     `json:"step"`
	Seconds float64 `json:"seconds"`
	// Bytes of layers were copied, and Microbatches of the step were to compute.
	Bytes        int64   `json:"bytes"`
	Microbatches int     `json:"microbatches"`
	Joined       []int   `json:"joined"`
	Left         []int   `json:"left"`
	Lost         []Lost  `json:"lost"`
	IterationMS  float64 `json:"iteration_ms"`
	// Ways to go on were compared; the first was chosen.
	Ways []Way `json:"ways"`
}

// Way is a way to go on after a change, with the iterations that were predicted until the next one.
type Way struct {
	Way        string  `json:"way"`
	Iterations float64 `json:"iterations"`
}

// Time returns when the event was. What is no time becomes the beginning of 1970, or of 2100.
func (e *Event) Time() time.Time {
	const latest = 4102444800 // 2100
	return time.UnixMilli(int64(1000 * min(max(e.At, 0), latest)))
}

// Text says which ranks came and went, and why the others go on as they do. It may have any
// characters.
func (e *Event) Text() string {
	var parts []string
	for _, each := range e.Lost {
		parts = append(parts, fmt.Sprintf("rank %d was lost (%s)", each.Rank, words.Clip(each.Why)))
	}
	if len(e.Left) > 0 {
		parts = append(parts, "left: "+words.Numbers(e.Left))
	}
	if len(e.Joined) > 0 {
		parts = append(parts, "joined: "+words.Numbers(e.Joined))
	}
	if why := e.why(); why != "" {
		parts = append(parts, why)
	}
	return strings.Join(parts, "; ")
}

// why says what another way would have given, if that is not the same.
func (e *Event) why() string {
	if len(e.Ways) < 2 || e.Ways[0].Iterations == e.Ways[1].Iterations {
		return ""
	}
	chosen, other := e.Ways[0], e.Ways[1]
	return fmt.Sprintf("%s was chosen: %.1f iterations are predicted until the next change, %.1f with %s",
		words.Clip(chosen.Way), chosen.Iterations, other.Iterations, words.Clip(other.Way))
}

// Lost is a rank that was lost, and why.
type Lost struct {
	Rank int
	Why  string
}

// UnmarshalJSON implements json.Unmarshaler: [rank, why].
func (l *Lost) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&l.Rank, &l.Why})
}

// MarshalJSON implements json.Marshaler.
func (l Lost) MarshalJSON() ([]byte, error) { return json.Marshal([]any{l.Rank, l.Why}) }

// Read reads what a training says.
func Read(text []byte) (*Status, error) {
	s := &Status{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("what the training says of itself is not understood: %w", err)
	}
	if len(s.Ranks) > maxRanks || len(s.Nodes) > pipeline.MaxNodes || len(s.Events) > maxEvents {
		return nil, fmt.Errorf("the training says that it has %d ranks, %d nodes and %d events, which is too much to show",
			len(s.Ranks), len(s.Nodes), len(s.Events))
	}
	s.byNumber = make(map[int]Rank, len(s.Ranks))
	for _, each := range s.Ranks {
		s.byNumber[each.Rank] = each
	}
	if s.Raw == nil {
		return s, nil // it has no plan yet
	}
	var err error
	if s.Plan, err = pipeline.DecodePlan(s.Raw); err != nil {
		return nil, fmt.Errorf("the plan of the training: %w", err)
	}
	if len(s.Plan.Pipelines) == 0 {
		return nil, errors.New("the plan of the training has no pipeline")
	}
	nodes := s.Plan.Nodes()
	if len(nodes) > maxRanks {
		return nil, fmt.Errorf("the plan of the training has %d nodes, of which at most %d are shown", len(nodes), maxRanks)
	}
	for _, node := range nodes {
		if int(node) >= len(s.Nodes) {
			return nil, fmt.Errorf("the training does not say which rank is node %d of its plan", node)
		}
	}
	return s, nil
}

// Of returns the rank of a node of the plan.
func (s *Status) Of(node cluster.NodeID) Rank {
	number := s.Nodes[node]
	if found, ok := s.byNumber[number]; ok {
		return found
	}
	return Rank{Rank: number}
}

// Share returns in which part of the last step a rank computed, from 0 to 1; 0: it is not known.
func (s *Status) Share(r Rank) float64 {
	if s.Seconds <= 0 {
		return 0
	}
	return max(0, min(1, r.Computing/s.Seconds))
}

// Find returns a rank.
func (s *Status) Find(rank int) (Rank, error) {
	if found, ok := s.byNumber[rank]; ok {
		return found, nil
	}
	return Rank{}, fmt.Errorf("the training has no rank %d", rank)
}

// Slowest returns the number of the pipeline that takes longest.
func (s *Status) Slowest() (slowest int) {
	var longest int64
	for i, each := range s.Plan.Pipelines {
		if time := s.Plan.Template(each.Template).Line().At(each.Microbatches); time > longest {
			slowest, longest = i, time
		}
	}
	return slowest
}
