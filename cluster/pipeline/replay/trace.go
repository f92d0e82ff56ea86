package replay

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Event is a node that goes down or comes up.
type Event struct {
	At   time.Duration
	Node cluster.NodeID
	Up   bool
}

// ReadTrace reads events from CSV with the columns time_s, node and event, which is up or down.
// Times must not decrease, and up and down must alternate for each node.
func ReadTrace(from io.Reader) (events []Event, err error) {
	up := map[cluster.NodeID]bool{}
	err = readColumns(from, []string{"time_s", "node", "event"}, func(at string, fields []string) error {
		e, err := parseEvent(fields)
		if err != nil {
			return &pipeline.InputError{Where: at, Problem: err.Error(), Want: "seconds, a node's number, up or down"}
		}
		if n := len(events); n > 0 && events[n-1].At > e.At {
			return &pipeline.InputError{
				Where:   at,
				Problem: fmt.Sprintf("%v comes after %v", e.At, events[n-1].At),
				Want:    "times in ascending order",
			}
		}
		if last, ok := up[e.Node]; ok && last == e.Up {
			return &pipeline.InputError{
				Where:   at,
				Problem: fmt.Sprintf("node %d is %s for the second time", e.Node, fields[2]),
				Want:    "up and down in turns",
			}
		}
		up[e.Node] = e.Up
		events = append(events, e)
		return nil
	})
	if err == nil && len(events) == 0 {
		err = &pipeline.InputError{Problem: "the trace has no events", Want: "at least one: the run ends at the last"}
	}
	return events, err
}

func parseEvent(fields []string) (e Event, err error) {
	if e.At, err = pipeline.ParseSeconds(fields[0]); err != nil {
		return e, err
	}
	node, err := strconv.ParseInt(fields[1], 10, 32)
	if err != nil || node < 0 {
		return e, fmt.Errorf("%q is not a node's number", fields[1])
	}
	e.Node = cluster.NodeID(node)
	switch fields[2] {
	case "up":
		e.Up = true
	case "down":
	default:
		return e, fmt.Errorf("%q is not an event", fields[2])
	}
	if e.At < 0 {
		return e, fmt.Errorf("time %s is before the start", fields[0])
	}
	if e.At > maxTime {
		return e, fmt.Errorf("time %s is later than 36 years", fields[0])
	}
	return e, nil
}

// readColumns reads CSV whose header names columns in any order, and passes their fields in the
// order of columns.
func readColumns(from io.Reader, columns []string, each func(at string, fields []string) error) error {
	places, fields := make([]int, len(columns)), make([]string, len(columns))
	want := strings.Join(columns, ",")
	return pipeline.ReadTable(from, want, func(header []string) error {
		for i, column := range columns {
			if places[i] = slices.Index(header, column); places[i] < 0 {
				return &pipeline.InputError{Where: "line 1", Problem: fmt.Sprintf("no column %s", column), Want: want}
			}
			if slices.Index(header[places[i]+1:], column) >= 0 {
				return &pipeline.InputError{Where: "line 1", Problem: fmt.Sprintf("column %q is listed twice", column)}
			}
		}
		return nil
	}, func(at string, row []string) error {
		for i, place := range places {
			fields[i] = row[place]
		}
		return each(at, fields)
	})
}

// WriteTrace writes events in the form that ReadTrace reads.
func WriteTrace(to io.Writer, events []Event) error {
	if _, err := fmt.Fprintln(to, "time_s,node,event"); err != nil {
		return err
	}
	for _, e := range events {
		what := "down"
		if e.Up {
			what = "up"
		}
		if _, err := fmt.Fprintf(to, "%s,%d,%s\n", pipeline.Seconds(e.At), e.Node, what); err != nil {
			return err
		}
	}
	return nil
}

// Failures are the parameters of a generated trace: nodes fail independently and are back after a
// while; never if BackAfter is 0.
type Failures struct {
	Nodes     int
	Between   time.Duration // mean time between failures of one node
	BackAfter time.Duration // mean time that a node is down
	Together  int           // nodes that fail at once, as spot instances do; 1 for single failures
	Length    time.Duration
	Seed      uint64
}

// maxEvents bounds the size of a generated trace.
const maxEvents = 1 << 20

// Check returns an error for parameters of an excessive trace.
func (f Failures) Check() error {
	if f.Between > maxTime || f.BackAfter > maxTime || f.Length > maxTime {
		return &pipeline.InputError{
			Where:   "trace",
			Problem: fmt.Sprintf("times of %v, %v and %v", f.Between, f.BackAfter, f.Length),
			Want:    "none over 36 years",
		}
	}
	each := 1.0
	if f.BackAfter > 0 {
		each += 2 * float64(f.Length) / (float64(f.Between) + float64(f.BackAfter))
	}
	if all := float64(f.Nodes) * each; all > maxEvents {
		return &pipeline.InputError{
			Where:   "trace",
			Problem: fmt.Sprintf("about %.0f events", all),
			Want:    fmt.Sprintf("at most %d", maxEvents),
		}
	}
	return nil
}

// Generate generates a trace. The same seed gives the same trace.
func (f Failures) Generate() []Event {
	random := rand.New(rand.NewPCG(f.Seed, 0))
	after := func(mean time.Duration) time.Duration {
		took := min(-math.Log(1-random.Float64())*float64(mean), float64(maxTime))
		return (time.Duration(took) / time.Millisecond) * time.Millisecond
	}
	var events []Event
	for first := 0; first < f.Nodes; first += f.Together {
		for at := after(f.Between); at < f.Length; at += after(f.Between) {
			back := at + max(time.Millisecond, after(f.BackAfter))
			for node := first; node < min(first+f.Together, f.Nodes); node++ {
				events = append(events, Event{At: at, Node: cluster.NodeID(node)})
				if f.BackAfter > 0 && back < f.Length {
					events = append(events, Event{At: back, Node: cluster.NodeID(node), Up: true})
				}
			}
			if f.BackAfter == 0 {
				break
			}
			at = back
		}
	}
	slices.SortStableFunc(events, func(a, b Event) int {
		if a.At != b.At {
			return int((a.At - b.At) / time.Millisecond)
		}
		return int(a.Node - b.Node)
	})
	return events
}
