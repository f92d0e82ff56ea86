package inventory

import "fmt"

// XidLost is the Xid of a GPU that has fallen off the bus.
const XidLost = 79

// severity is what an event means for the programs on the GPU.
type severity int

const (
	// programFault is a fault of one program; the GPU works.
	programFault severity = iota
	// degraded is a fault of the GPU; programs may go on, but an operator should look.
	degraded
	// fatal means that the GPU must be reset.
	fatal
)

// xids are the events that phos describes, from NVIDIA's list.
var xids = map[uint64]struct {
	severity severity
	text     string
}{
	13:      {programFault, "a kernel executed an illegal instruction or access"},
	31:      {programFault, "a kernel touched memory that is not mapped"},
	43:      {programFault, "a program's channel was stopped after a fault of the program"},
	45:      {programFault, "a program's channels were removed"},
	48:      {degraded, "a double-bit memory error"},
	61:      {degraded, "an internal breakpoint of the GPU's firmware"},
	62:      {degraded, "an internal halt of the GPU's firmware"},
	63:      {degraded, "a row of memory is to be remapped"},
	64:      {degraded, "remapping a row of memory failed"},
	74:      {degraded, "an NVLink error"},
	XidLost: {fatal, "it has fallen off the bus"},
	92:      {degraded, "many single-bit memory errors"},
	94:      {degraded, "a contained memory error"},
	95:      {fatal, "an uncontained memory error"},
	119:     {fatal, "its firmware (GSP) does not answer"},
	120:     {fatal, "its firmware (GSP) has failed"},
}

// Fatal reports whether the GPU is lost until it is reset: its programs have failed.
func (e Event) Fatal() bool { return xids[e.Xid].severity == fatal }

// Degrades reports whether the event is about the GPU and not about one program. Unknown events
// are.
func (e Event) Degrades() bool {
	known, found := xids[e.Xid]
	return !found || known.severity >= degraded
}

// String names the GPU and what happened to it.
func (e Event) String() string { return label(e.Index, "", e.BusID) + ": " + e.Text() }

// Text describes the error.
func (e Event) Text() string {
	switch known, found := xids[e.Xid]; {
	case !found:
		return fmt.Sprintf("Xid %d", e.Xid)
	case e.Fatal():
		return fmt.Sprintf("the GPU is lost: Xid %d, %s", e.Xid, known.text)
	default:
		return fmt.Sprintf("Xid %d, %s", e.Xid, known.text)
	}
}
