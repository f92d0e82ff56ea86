package trace

import "time"

// Version is the version of the format.
const Version = 1

// Head is the first line of a trace.
type Head struct {
	Trace   int       `json:"trace"`
	PID     int       `json:"pid"`
	Session uint64    `json:"session"`
	Job     string    `json:"job,omitempty"`
	Begun   time.Time `json:"begun"`
}

// Have is an object that existed when the trace began, and the call that created it.
type Have struct {
	Have Object `json:"have"`
	Call string `json:"call,omitempty"`
}

// Call is one call or, without a name, an event outside of a call.
type Call struct {
	// N numbers the calls of the trace from 1; it is 0 for events outside of calls.
	N uint64 `json:"n,omitempty"`
	// Microseconds since the trace began.
	Microseconds int64  `json:"us"`
	Call         string `json:"call,omitempty"`
	// Context is the number of the calling thread's current context, 0 for none.
	Context uint32 `json:"context"`
	// Thread is the reply slot of the calling thread.
	Thread uint32   `json:"thread"`
	Uses   []Object `json:"uses,omitempty"`
	Makes  []Object `json:"makes,omitempty"`
	Ends   []Object `json:"ends,omitempty"`
	// Error is the driver's name of the error; empty if there was none.
	Error string `json:"error,omitempty"`
}

// Object is an object for which the program has a handle or an address.
type Object struct {
	// As is the argument that names it.
	As   string `json:"as,omitempty"`
	Kind string `json:"kind"`
	// ID numbers the objects of a kind; memory has an Address instead.
	ID      uint32 `json:"id,omitempty"`
	Address string `json:"address,omitempty"`
	Bytes   uint64 `json:"bytes,omitempty"`
	// Owner is the object that destroys this one with itself: "context 1".
	Owner string `json:"owner,omitempty"`
}

// Tail is the last line of a trace.
type Tail struct {
	Calls uint64 `json:"calls"`
	// Error is why the trace ended before it was stopped.
	Error string `json:"error,omitempty"`
}
