package inventory

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Inventory is a snapshot of all GPUs that the driver lists.
type Inventory struct {
	DriverVersion string `json:"driver_version,omitempty"`
	// CUDAVersion is the newest CUDA that the driver serves: 12040 for 12.4.
	CUDAVersion int   `json:"cuda_version,omitempty"`
	GPUs        []GPU `json:"gpus"`
}

// GPU is one GPU. What the driver does not report is nil or empty, never zero.
type GPU struct {
	Index int    `json:"index"`
	Name  string `json:"name,omitempty"`
	UUID  string `json:"uuid,omitempty"`
	// BusID is its PCI bus id, as "00000000:1b:00.0".
	BusID       string       `json:"bus_id,omitempty"`
	Memory      *Memory      `json:"memory,omitempty"`
	Utilisation *Utilisation `json:"utilisation,omitempty"`
	// TemperatureCelsius is the chip's.
	TemperatureCelsius   *uint32 `json:"temperature_celsius,omitempty"`
	PowerMilliwatts      *uint32 `json:"power_milliwatts,omitempty"`
	PowerLimitMilliwatts *uint32 `json:"power_limit_milliwatts,omitempty"`
	// ComputeCapability is 90 for 9.0.
	ComputeCapability int         `json:"compute_capability,omitempty"`
	ComputeMode       ComputeMode `json:"compute_mode,omitempty"`
	// MIG is true for a GPU that is divided into instances, or will be after its next reset.
	MIG *bool `json:"mig,omitempty"`
	ECC *bool `json:"ecc,omitempty"`
	// UncorrectedErrors counts memory errors since the driver was loaded.
	UncorrectedErrors *uint64   `json:"uncorrected_errors,omitempty"`
	NVLinks           []NVLink  `json:"nvlinks,omitempty"`
	Processes         []Process `json:"processes,omitempty"`
	// Lost says why the driver cannot reach the GPU; empty: it can.
	Lost string `json:"lost,omitempty"`
}

// Memory is a GPU's memory.
type Memory struct {
	TotalBytes uint64 `json:"total_bytes"`
	UsedBytes  uint64 `json:"used_bytes"`
	FreeBytes  uint64 `json:"free_bytes"`
}

// Utilisation is the part of the recent time in which kernels ran, and memory was accessed.
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

// Process is a process that uses a GPU, as the driver reports it.
type Process struct {
	PID uint32 `json:"pid"`
	// UsedBytes is nil if the driver does not report it, as in a container.
	UsedBytes *uint64 `json:"used_bytes,omitempty"`
	// Graphics is true for a process that draws and does not compute.
	Graphics bool `json:"graphics,omitempty"`
}

// ComputeMode says which processes may make contexts on a GPU.
type ComputeMode string

// The compute modes, as nvidia-smi names them.
const (
	ModeDefault          ComputeMode = "Default"
	ModeExclusiveThread  ComputeMode = "Exclusive_Thread"
	ModeProhibited       ComputeMode = "Prohibited"
	ModeExclusiveProcess ComputeMode = "Exclusive_Process"
)

// Event is an error of a GPU.
type Event struct {
	// UUID and Index name the GPU; UUID may be empty for one that is lost.
	UUID  string `json:"uuid,omitempty"`
	Index int    `json:"index"`
	BusID string `json:"bus_id,omitempty"`
	// Xid is the driver's number of the error.
	Xid uint64 `json:"xid"`
}

// ErrNoDriver is returned when NVIDIA's driver is not installed.
var ErrNoDriver = errors.New("no NVIDIA driver")

// ErrUnsupported is returned by a phosd that was built without cgo, which NVML needs.
var ErrUnsupported = errors.New("this phosd was built without cgo and cannot ask NVML")

// Source is where inventories come from.
type Source interface {
	// Inventory queries all GPUs.
	Inventory() (*Inventory, error)
	// Events reports errors until the context ends. ErrNoEvents is returned when the driver reports
	// none.
	Events(ctx context.Context, report func(Event)) error
	Close() error
}

// ErrNoEvents is returned when the driver reports no events.
var ErrNoEvents = errors.New("the driver reports no Xid events")

// Among returns the inventory of the GPUs with the given UUIDs. If none matches, it returns all:
// MIG instances have UUIDs of their own.
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

// UUIDText formats a GPU's UUID as the driver's tools do.
func UUIDText(id [16]byte) string {
	text := hex.EncodeToString(id[:])
	return "GPU-" + text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// CUDAText formats 12040 as 12.4.
func CUDAText(version int) string { return fmt.Sprintf("%d.%d", version/1000, version%1000/10) }

// String names the GPU in a message.
func (g *GPU) String() string { return label(g.Index, g.Name, g.BusID) }

// label returns "GPU 0 (name, bus ID)" without the parts that are unknown.
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
