package trace

import "time"

// Version is that of the lines' meaning.
const Version = 1

// Head begins a trace.
type Head struct {
	Trace   int       `json:"trace"`
	PID     int       `json:"pid"`
	Session uint64    `json:"session"`
	Job     string    `json:"job,omitempty"`
	Begun   time.Time `json:"begun"`
}

// Have is an object that there was already, and the call that had made it.
type Have struct {
	Have Object `json:"have"`
	Call string `json:"call,omitempty"`
}

// Call is one call, or, without a name, something that happened by itself.
type Call struct {
	// N counts the calls of the trace from 1; 0 for what is no call.
	N uint64 `json:"n,omitempty"`
	// Microseconds since the trace began.
	Microseconds int64  `json:"us"`
	Call         string `json:"call,omitempty"`
	// Context is the number of the calling thread's current context, 0 for none.
	Context uint32 `json:"context"`
	// Thread is the reply slot of the thread that called.
	Thread uint32   `json:"thread"`
	Uses   []Object `json:"uses,omitempty"`
	Makes  []Object `json:"makes,omitempty"`
	Ends   []Object `json:"ends,omitempty"`
	// Error is the driver's name of what went wrong, empty for nothing.
	Error string `json:"error,omitempty"`
}

// Object is something that a program has a handle or an address of.
type Object struct {
	// As is the argument that names it.
	As   string `json:"as,omitempty"`
	Kind string `json:"kind"`
	// ID is the number among those of its kind; memory has an Address in its place.
	ID      uint32 `json:"id,omitempty"`
	Address string `json:"address,omitempty"`
	Bytes   uint64 `json:"bytes,omitempty"`
	// Owner is what it ends with: "context 1".
	Owner string `json:"owner,omitempty"`
}

// Tail ends a trace.
type Tail struct {
	Calls uint64 `json:"calls"`
	// Error is why it ended before it was stopped.
	Error string `json:"error,omitempty"`
}
