package inventory

import "fmt"

// XidLost is the event of a GPU that has fallen off the bus.
const XidLost = 79

// gravity is what an event means for the programs of its GPU.
type gravity int

const (
	// programFault is a fault of one program; the GPU is well.
	programFault gravity = iota
	// degraded is a fault of the GPU; programs may go on, an operator should look.
	degraded
	// fatal is a GPU that serves nobody before it is reset.
	fatal
)

// xids are the events that phos has words for, from NVIDIA's list of them.
var xids = map[uint64]struct {
	gravity gravity
	text    string
}{
	13:      {programFault, "a kernel did what it must not"},
	31:      {programFault, "a kernel touched memory that is not mapped"},
	43:      {programFault, "a program's channel was stopped after a fault of its own"},
	45:      {programFault, "a program's channels were removed"},
	48:      {degraded, "an error of two bits in memory"},
	61:      {degraded, "an internal breakpoint of the GPU's firmware"},
	62:      {degraded, "an internal halt of the GPU's firmware"},
	63:      {degraded, "a row of memory is to be remapped"},
	64:      {degraded, "remapping a row of memory did not work"},
	74:      {degraded, "an error of NVLink"},
	XidLost: {fatal, "it has fallen off the bus"},
	92:      {degraded, "many single-bit errors in memory"},
	94:      {degraded, "a contained memory error"},
	95:      {fatal, "an uncontained memory error"},
	119:     {fatal, "its firmware (GSP) does not answer"},
	120:     {fatal, "its firmware (GSP) has failed"},
}

// Fatal reports whether the GPU serves nobody after the event until it is reset: its programs have
// failed.
func (e Event) Fatal() bool { return xids[e.Xid].gravity == fatal }

// Degrades reports whether the event says something of the GPU and not of one program. Unknown ones
// do.
func (e Event) Degrades() bool {
	known, found := xids[e.Xid]
	return !found || known.gravity >= degraded
}

// String names the GPU and what happened to it.
func (e Event) String() string { return label(e.Index, "", e.BusID) + ": " + e.Text() }

// Text is what happened.
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
