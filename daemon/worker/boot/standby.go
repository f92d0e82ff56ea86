package boot

import "github.com/phos-gpu/phos/daemon/config"

// StandbyFD is the socket to phosd that a standby worker inherits (internal/linux/fdpass). It
// inherits nothing else.
const StandbyFD = 3

// StandbyArgument follows phosd's argument "worker" in a standby worker.
const StandbyArgument = "standby"

// Standby is the first message to a standby worker. The ledger's file comes with it. The second
// message is the Config of its session.
type Standby struct {
	Gpus string `json:"gpus"`
	// LedgerSlot is its slot in the memory accounting, from now on.
	LedgerSlot int `json:"ledger_slot"`
	// MemoryBytes is what it accounts of each GPU while it is idle; 0: what the backend says that it
	// holds.
	MemoryBytes uint64     `json:"memory_bytes"`
	Log         config.Log `json:"log"`
}

// Ready is the standby worker's answer: it is ready for a session, or it failed and exits.
type Ready struct {
	// MemoryBytes is what it holds of each GPU, in their order.
	MemoryBytes []uint64 `json:"memory_bytes,omitempty"`
	Error       string   `json:"error,omitempty"`
}
