package saver

import (
	"context"
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
	// Keep is how many generations stay; 0: all. Needed is another one that stays; 0: none.
	Keep   int    `json:"keep,omitempty"`
	Needed uint64 `json:"needed,omitempty"`
	// Connections are networks to which connections are saved: their other ends are saved, too.
	Connections []string `json:"connections,omitempty"`
	// Together means that the tree is saved in one cut with others.
	Together bool `json:"together,omitempty"`
}

// Arrival says that a save waits for the others of its cut.
type Arrival struct {
	// Point is a ckpt.Point.
	Point string `json:"point"`
	// Busy is why it has to try again; empty: it can go on.
	Busy string `json:"busy,omitempty"`
	// Saved is its image, at the last point, if the tree ends.
	Saved *Saved `json:"saved,omitempty"`
}

// Meet is called when a save waits for the others of its cut. It returns when all are there: again
// says that all try again. With an error, there is no cut, and the save is undone. Its context ends
// when the save does.
type Meet func(context.Context, Arrival) (again bool, err error)

// told is a line of a save.
type told struct {
	Arrival *Arrival `json:"arrival,omitempty"`
	Saved   *Saved   `json:"saved,omitempty"`
}

// verdict is the answer to an arrival.
type verdict struct {
	Again bool `json:"again"`
	// Cancel means that there is no cut. The save ends when it is undone.
	Cancel bool `json:"cancel,omitempty"`
	err    error
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
