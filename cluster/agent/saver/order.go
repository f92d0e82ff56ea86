package saver

import (
	"time"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Arguments with which the agent's program calls SaveMain and RestoreMain.
const (
	SaveRole    = "save"
	RestoreRole = "restore"
)

// SaveOrder says what to save, and where to.
type SaveOrder struct {
	// Socket is phosd's.
	Socket string `json:"socket"`
	// Root is the root of the process tree.
	Root proc.Identity `json:"root"`
	// Dir is the image directory. It is made if it is missing; its parent must be there.
	Dir string `json:"dir"`
	// Stop ends the tree once the image is complete.
	Stop bool `json:"stop,omitempty"`
	// Keep is how many generations stay; 0: all.
	Keep int `json:"keep,omitempty"`
}

// Saved is the result of a save.
type Saved struct {
	Generation uint64        `json:"generation"`
	At         time.Time     `json:"at"`
	Pause      time.Duration `json:"pause_ns"`
	Bytes      uint64        `json:"bytes"`
	Written    uint64        `json:"written"`
	// Error says why there is no image; empty: there is.
	Error string `json:"error,omitempty"`
}

// RestoreOrder says what to restore.
type RestoreOrder struct {
	Socket     string `json:"socket"`
	Dir        string `json:"dir"`
	Generation uint64 `json:"generation"`
	// GPUs are the numbers of those that the tree gets, in the place of those that it Had; empty: the
	// same as before.
	GPUs []uint32 `json:"gpus,omitempty"`
	Had  []uint32 `json:"had,omitempty"`
	// Tell is a file of the owner, which gets a Restored.
	Tell string `json:"tell"`
	// Inherited are pipes that the restore has, besides its standard streams. They take the place of
	// those that the root of the saved tree has under the same numbers.
	Inherited []int `json:"inherited,omitempty"`
}

// Restored is how far a restore has come.
type Restored struct {
	// Root is the restored tree, once it runs.
	Root proc.Identity `json:"root"`
	// Took is the time from the request until it ran.
	Took time.Duration `json:"took_ns,omitempty"`
	// Error says why nothing was restored; empty: it was.
	Error string `json:"error,omitempty"`
}
