package api

// Limits of Exec.
const (
	// ExecWindow is the most bytes of input that are on their way to a command and not taken yet, so
	// that signals are never held up by input.
	ExecWindow = 256 << 10
	// ExecPart is the most bytes of one message.
	ExecPart = 32 << 10
	// MaxExecCommand is the most bytes of a command.
	MaxExecCommand = 64 << 10
)
