package wire

import "time"

// Version is that of the messages. Both sides must have the same.
const Version = 2

// Kind says what a message is.
type Kind string

// The kinds, as in the package's comment.
const (
	Hello Kind = "hello"
	Head  Kind = "head"
	Round Kind = "round"
	Last  Kind = "last"
	Go    Kind = "go"
	Bye   Kind = "bye"

	Welcome Kind = "welcome"
	Checked Kind = "checked"
	Taken   Kind = "taken"
	Ready   Kind = "ready"
	Running Kind = "running"
	Loaded  Kind = "loaded"
	// Absent is the answer to an Ask: the program does not run at the target, and never will.
	Absent Kind = "absent"
	// Unknown is the answer to an Ask of a machine that knows nothing of the move.
	Unknown Kind = "unknown"
	Failed  Kind = "failed"
	Notice  Kind = "notice"
	Step    Kind = "step"
	Alive   Kind = "alive"
)

// Silence is how long the target may say nothing: it says Alive every AliveEvery. Idle is how long
// it may say nothing else.
const (
	Silence    = 30 * time.Second
	AliveEvery = 2 * time.Second
	Idle       = 2 * time.Minute
)

// Message is one line. Which fields count depends on its kind.
type Message struct {
	Kind Kind `json:"kind"`
	// Hello.
	Version int    `json:"version,omitempty"`
	GPUs    string `json:"gpus,omitempty"`
	NewPids bool   `json:"new_pids,omitempty"`
	// Ask is the name of a move whose end is not known; Welcome has it.
	Ask string `json:"ask,omitempty"`
	// Welcome.
	Move string `json:"move,omitempty"`
	// Welcome and Taken: what the target has for the image.
	RoomBytes uint64 `json:"room_bytes,omitempty"`
	// Running.
	PID uint32 `json:"pid,omitempty"`
	// Failed and Notice.
	Text string `json:"text,omitempty"`
	// Step.
	Phase      string `json:"phase,omitempty"`
	DoneBytes  uint64 `json:"done_bytes,omitempty"`
	TotalBytes uint64 `json:"total_bytes,omitempty"`
}
