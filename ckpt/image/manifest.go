package image

import "time"

// Version is the version of the format that is written. All older ones are read.
const Version = 1

// Manifest describes one generation: a process tree at one instant.
type Manifest struct {
	Version    int       `json:"version"`
	Generation uint64    `json:"generation"`
	Created    time.Time `json:"created"`
	// Phos is the version of phos that wrote it.
	Phos string `json:"phos"`
	// Group names a cut over several daemons.
	Group string `json:"group,omitempty"`
	Host  Host   `json:"host"`
	Owner Owner  `json:"owner"`
	// Kinds are what was saved when not everything was: such an image cannot be restored.
	Kinds     []string  `json:"kinds,omitempty"`
	Processes []Process `json:"processes"`
	// Contained: they ran in a container, with another root directory than phosd's.
	Contained bool `json:"contained,omitempty"`
	// Endpoints are the ends of things that led out of the tree.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	CPU       CPUHalf    `json:"cpu"`
	// Files are regular files that the tree had open for writing, and the libraries that it must find
	// again.
	Files []SavedFile `json:"files,omitempty"`
	Stats Stats       `json:"stats"`
}

// Partial reports whether only some kinds of state were saved.
func (m *Manifest) Partial() bool { return len(m.Kinds) > 0 }

// Host is where an image was made.
type Host struct {
	Name   string `json:"name"`
	Kernel string `json:"kernel"`
	Arch   string `json:"arch"`
	// Boot is the kernel's boot id.
	Boot string `json:"boot"`
}

// Owner is the user whose processes were saved.
type Owner struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
	Name   string   `json:"name,omitempty"`
}

// Process is one process of the tree, the root first.
type Process struct {
	PID    int `json:"pid"`
	Parent int `json:"parent"`
	// Inner is the pid that the process had for itself, where that is another one: in a container, or
	// as a clone.
	Inner   int    `json:"inner_pid,omitempty"`
	Command string `json:"command"`
	Threads int    `json:"threads"`
	// GPU is nil for a process that used none.
	GPU *GPUHalf `json:"gpu,omitempty"`
}

// GPUHalf is what a worker saved of a process.
type GPUHalf struct {
	// Tree names the content that holds it.
	Tree    string `json:"tree"`
	Session uint64 `json:"session"`
	// SessionPath and ArenaPath are the files that the process had mapped.
	SessionPath string `json:"session_path"`
	ArenaPath   string `json:"arena_path"`
	ArenaBytes  uint64 `json:"arena_bytes"`
	// Library is the SavedFile with the process's libphos.so.
	Library string   `json:"library"`
	Gpus    string   `json:"gpus"`
	Devices []Device `json:"devices"`
	Job     string   `json:"job"`
	// MemoryBytes is device memory, PinnedBytes the arena's part in use.
	MemoryBytes uint64            `json:"memory_bytes"`
	PinnedBytes uint64            `json:"pinned_bytes"`
	Objects     map[string]uint64 `json:"objects"`
	// Code is what the process has loaded; nil in images of before it was written down.
	Code []Code `json:"code"`
	// Bytes that this generation had to write, and that were there already.
	WrittenBytes uint64 `json:"written_bytes"`
	SharedBytes  uint64 `json:"shared_bytes"`
	// Wire is the version of the session file's layout.
	Wire uint32 `json:"wire"`
}

// Device is a GPU as the process saw it.
type Device struct {
	Ordinal     int    `json:"ordinal"`
	Name        string `json:"name"`
	UUID        string `json:"uuid"`
	MemoryBytes uint64 `json:"memory_bytes"`
	Capability  string `json:"capability"`
	// UsedBytes is the process's memory there.
	UsedBytes uint64 `json:"used_bytes,omitempty"`
	// CUDA is the newest version that the driver served: 12040 for 12.4.
	CUDA int `json:"cuda,omitempty"`
}

// Code is code for GPUs: all modules of a process that can run on the same ones.
type Code struct {
	// Name is the first module's: "module 3".
	Name string `json:"name"`
	// Targets are what it is for, of which one is enough: "sm_90" for machine code, "compute_80" for
	// PTX.
	Targets []string `json:"targets"`
	// Kernels are the names of some that the process uses.
	Kernels []string `json:"kernels,omitempty"`
	Modules int      `json:"modules"`
}

// CPUHalf is what CRIU saved.
type CPUHalf struct {
	// Tree names the content that holds CRIU's files; empty in an image that has none.
	Tree  string `json:"tree"`
	CRIU  string `json:"criu"`
	Bytes uint64 `json:"bytes"`
}

// Endpoint is the inner end of something whose other end was outside of the tree.
type Endpoint struct {
	ID uint32 `json:"id"`
	// Kind is "terminal", "pipe-read", "pipe-write", "stream-socket".
	Kind string `json:"kind"`
	// Key is how CRIU calls it: "tty[8803:5]", "pipe:[1234]".
	Key string `json:"key"`
	// Descriptors say where it is open: "pid 12 fd 1".
	Descriptors []string `json:"descriptors"`
	// Standard is 0, 1 or 2 where the root has it as that descriptor, else -1.
	Standard int `json:"standard"`
	// Rows and Columns are a terminal's size.
	Rows    uint16 `json:"rows,omitempty"`
	Columns uint16 `json:"columns,omitempty"`
}

// SavedFile is a regular file whose content came along.
type SavedFile struct {
	Path  string `json:"path"`
	Bytes uint64 `json:"bytes"`
	Mode  uint32 `json:"mode"`
	// Hash names the whole content, or, for a file over ChunkBytes, the tree with it as its only
	// entry. It is empty for a file whose content was not saved: a restore only cuts it to its length.
	Hash string `json:"hash"`
	// Library: it must be there as it was; else it is restored to what it was.
	Library bool `json:"library,omitempty"`
}

// Stats say what it took.
type Stats struct {
	PauseMicroseconds uint64 `json:"pause_microseconds"`
	WrittenBytes      uint64 `json:"written_bytes"`
	SharedBytes       uint64 `json:"shared_bytes"`
}
