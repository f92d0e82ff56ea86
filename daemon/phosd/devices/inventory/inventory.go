package inventory

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Inventory is all GPUs that the driver knows, at one moment.
type Inventory struct {
	DriverVersion string `json:"driver_version,omitempty"`
	// CUDAVersion is the newest CUDA that the driver serves: 12040 for 12.4.
	CUDAVersion int   `json:"cuda_version,omitempty"`
	GPUs        []GPU `json:"gpus"`
}

// GPU is one of them. What the driver or the GPU does not tell is nil or empty, never zero.
type GPU struct {
	Index int    `json:"index"`
	Name  string `json:"name,omitempty"`
	UUID  string `json:"uuid,omitempty"`
	// BusID is its place on the PCI bus, as "00000000:1b:00.0".
	BusID       string       `json:"bus_id,omitempty"`
	Memory      *Memory      `json:"memory,omitempty"`
	Utilisation *Utilisation `json:"utilisation,omitempty"`
	// TemperatureCelsius is that of the chip.
	TemperatureCelsius   *uint32 `json:"temperature_celsius,omitempty"`
	PowerMilliwatts      *uint32 `json:"power_milliwatts,omitempty"`
	PowerLimitMilliwatts *uint32 `json:"power_limit_milliwatts,omitempty"`
	// ComputeCapability is 90 for 9.0.
	ComputeCapability int         `json:"compute_capability,omitempty"`
	ComputeMode       ComputeMode `json:"compute_mode,omitempty"`
	// MIG is true for a GPU that is, or will be after its next reset, divided into instances.
	MIG *bool `json:"mig,omitempty"`
	ECC *bool `json:"ecc,omitempty"`
	// UncorrectedErrors are those of the memory since the driver was loaded.
	UncorrectedErrors *uint64   `json:"uncorrected_errors,omitempty"`
	NVLinks           []NVLink  `json:"nvlinks,omitempty"`
	Processes         []Process `json:"processes,omitempty"`
	// Lost says why the driver cannot reach the GPU any more.
	Lost string `json:"lost,omitempty"`
}

// Memory is a GPU's own.
type Memory struct {
	TotalBytes uint64 `json:"total_bytes"`
	UsedBytes  uint64 `json:"used_bytes"`
	FreeBytes  uint64 `json:"free_bytes"`
}

// Utilisation is how much of the last moments something ran, and memory was read or written.
type Utilisation struct {
	GPUPercent    uint32 `json:"gpu_percent"`
	MemoryPercent uint32 `json:"memory_percent"`
}

// NVLink is one link to another GPU or a switch.
type NVLink struct {
	Link   int  `json:"link"`
	Active bool `json:"active"`
	// Remote is the PCI bus id of the other end.
	Remote string `json:"remote,omitempty"`
}

// Process is one that the driver sees using a GPU.
type Process struct {
	PID uint32 `json:"pid"`
	// UsedBytes is nil where the driver does not say, as in a container.
	UsedBytes *uint64 `json:"used_bytes,omitempty"`
	// Graphics is true for one that draws and does not compute.
	Graphics bool `json:"graphics,omitempty"`
}

// ComputeMode is who may make contexts on a GPU.
type ComputeMode string

// The modes, by the names that nvidia-smi has for them.
const (
	ModeDefault          ComputeMode = "Default"
	ModeExclusiveThread  ComputeMode = "Exclusive_Thread"
	ModeProhibited       ComputeMode = "Prohibited"
	ModeExclusiveProcess ComputeMode = "Exclusive_Process"
)

// Event is something that went wrong with a GPU.
type Event struct {
	// UUID and Index name the GPU; UUID may be empty for one that is lost.
	UUID  string `json:"uuid,omitempty"`
	Index int    `json:"index"`
	BusID string `json:"bus_id,omitempty"`
	// Xid is the driver's number for it.
	Xid uint64 `json:"xid"`
}

// ErrNoDriver means that no driver of NVIDIA's is there to be asked.
var ErrNoDriver = errors.New("no NVIDIA driver")

// ErrUnsupported means that this phosd was built without cgo, by which NVML is reached.
var ErrUnsupported = errors.New("this phosd was built without cgo and cannot ask NVML")

// Source is where an inventory comes from.
type Source interface {
	// Inventory asks for everything anew.
	Inventory() (*Inventory, error)
	// Events tells of what goes wrong until the context is done. It returns ErrNoEvents where the
	// driver reports none.
	Events(ctx context.Context, tell func(Event)) error
	Close() error
}

// ErrNoEvents means that the driver reports no events here.
var ErrNoEvents = errors.New("the driver reports no Xid events")

// Among is the inventory of those GPUs alone that have one of the UUIDs, and of all where none has:
// parts of a GPU have others.
func (v *Inventory) Among(uuids [][16]byte) *Inventory {
	among := *v
	among.GPUs = slices.DeleteFunc(slices.Clone(v.GPUs), func(g GPU) bool {
		return !slices.ContainsFunc(uuids, func(id [16]byte) bool { return UUIDText(id) == g.UUID })
	})
	if len(among.GPUs) == 0 {
		return v
	}
	return &among
}

// UUIDText writes a GPU's identity as the driver's tools do.
func UUIDText(id [16]byte) string {
	text := hex.EncodeToString(id[:])
	return "GPU-" + text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// CUDAText writes 12040 as 12.4.
func CUDAText(version int) string { return fmt.Sprintf("%d.%d", version/1000, version%1000/10) }

// String names the GPU in a message.
func (g *GPU) String() string { return label(g.Index, g.Name, g.BusID) }

func label(index int, name, busID string) string {
	text := fmt.Sprintf("GPU %d", index)
	switch {
	case name != "" && busID != "":
		text += fmt.Sprintf(" (%s, %s)", name, busID)
	case name+busID != "":
		text += fmt.Sprintf(" (%s)", name+busID)
	}
	return text
}
