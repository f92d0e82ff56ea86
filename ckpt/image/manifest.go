package image

import (
	"fmt"
	"time"
)

// Version is the format version that is written. All older versions can be read.
const Version = 1

// Manifest describes one generation: a process tree at one instant.
type Manifest struct {
	Version    int       `json:"version"`
	Generation uint64    `json:"generation"`
	Created    time.Time `json:"created"`
	// Phos is the version of phos that wrote the image.
	Phos string `json:"phos"`
	// Group names a checkpoint over several hosts.
	Group string `json:"group,omitempty"`
	Host  Host   `json:"host"`
	Owner Owner  `json:"owner"`
	// Kinds are the saved kinds of a partial image, which cannot be restored.
	Kinds     []string  `json:"kinds,omitempty"`
	Processes []Process `json:"processes"`
	// Contained is set if the tree ran in a container, with a root directory other than phosd's.
	Contained bool `json:"contained,omitempty"`
	// Renumbered are GPUs of the machine by the numbers that the processes know them by, where these
	// differ because the tree was restored onto others.
	Renumbered map[int]int `json:"renumbered,omitempty"`
	// Endpoints are the ends that led out of the tree.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	CPU       CPUHalf    `json:"cpu"`
	// Files are regular files that the tree had open for writing, and libraries that the tree needs
	// unchanged.
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
	// Inner is the pid in the process's own pid namespace, if it differs: in a container or a
	// clone.
	Inner   int    `json:"inner_pid,omitempty"`
	Command string `json:"command"`
	Threads int    `json:"threads"`
	// GPU is nil for a process without GPU state.
	GPU *GPUHalf `json:"gpu,omitempty"`
}

// GPUHalf is what a worker saved of a process.
type GPUHalf struct {
	// Tree is the hash of the tree that holds the GPU half.
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
	// MemoryBytes is the size of device memory, PinnedBytes that of the arena's used part.
	MemoryBytes uint64            `json:"memory_bytes"`
	PinnedBytes uint64            `json:"pinned_bytes"`
	Objects     map[string]uint64 `json:"objects"`
	// Code is the device code that the process has loaded; nil in images of versions that did not
	// record it.
	Code []Code `json:"code"`
	// WrittenBytes are bytes that this generation wrote; SharedBytes were already in the image.
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
	// CUDA is the newest version that the driver supported: 12040 for 12.4.
	CUDA int `json:"cuda,omitempty"`
}

// Code describes device code: all modules of a process that can run on the same GPUs.
type Code struct {
	// Name is the name of the first module: "module 3".
	Name string `json:"name"`
	// Targets are the targets of the code, of which one suffices: "sm_90" for machine code,
	// "compute_80" for PTX.
	Targets []string `json:"targets"`
	// Kernels are names of some kernels that the process uses.
	Kernels []string `json:"kernels,omitempty"`
	Modules int      `json:"modules"`
}

// CPUHalf is what CRIU saved.
type CPUHalf struct {
	// Tree is the hash of the tree that holds CRIU's files; empty if there are none.
	Tree  string `json:"tree"`
	CRIU  string `json:"criu"`
	Bytes uint64 `json:"bytes"`
}

// Endpoint is the inner end of something whose other end was outside of the tree.
type Endpoint struct {
	ID uint32 `json:"id"`
	// Kind is "terminal", "pipe-read", "pipe-write", "stream-socket".
	Kind string `json:"kind"`
	// Key is CRIU's name of it: "tty[8803:5]", "pipe:[1234]".
	Key string `json:"key"`
	// Descriptors say where it is open: "pid 12 fd 1".
	Descriptors []string `json:"descriptors"`
	// Standard is 0, 1 or 2 if the root has it as that descriptor, or -1.
	Standard int `json:"standard"`
	// Rows and Columns are a terminal's size.
	Rows    uint16 `json:"rows,omitempty"`
	Columns uint16 `json:"columns,omitempty"`
}

// NumberIn returns the lowest descriptor under which a process has the endpoint, or -1.
func (e *Endpoint) NumberIn(p *Process) int {
	lowest := -1
	for _, each := range e.Descriptors {
		var pid, number int
		if count, _ := fmt.Sscanf(each, "pid %d fd %d", &pid, &number); count == 2 && pid == p.PID {
			if lowest < 0 || number < lowest {
				lowest = number
			}
		}
	}
	return lowest
}

// SavedFile is a regular file whose content was saved.
type SavedFile struct {
	Path  string `json:"path"`
	Bytes uint64 `json:"bytes"`
	Mode  uint32 `json:"mode"`
	// Hash is the hash of the content. For a file longer than ChunkBytes it is the hash of a
	// tree with the file as its only entry. It is empty if the content was not saved; a restore
	// only truncates the file then.
	Hash string `json:"hash"`
	// Library is set for a library, which a restore provides unchanged.
	Library bool `json:"library,omitempty"`
	// Cut is what the checkpoint left of the file; nil for a library, and in images of versions
	// that did not record it.
	Cut *FileCut `json:"cut,omitempty"`
}

// FileCut tells a file that is as a checkpoint left it from one that has changed since, and says
// how the program used it.
type FileCut struct {
	Inode uint64 `json:"inode"`
	// Modified and Changed are the file's mtime and ctime in nanoseconds. They are 0 if the file
	// changed shortly before or during the checkpoint: only its content tells then.
	Modified int64 `json:"mtime,omitempty"`
	Changed  int64 `json:"ctime,omitempty"`
	// Append is set if the program could only append to the file (O_APPEND).
	Append bool `json:"append,omitempty"`
	// Mapped is set if the program had the file mapped for writing: it must stay as long as it was.
	Mapped bool `json:"mapped,omitempty"`
	// Lock is the strongest lock that the program held on a part of the file: "read", "write" or
	// empty.
	Lock string `json:"lock,omitempty"`
}

// Stats are sizes and times of the checkpoint.
type Stats struct {
	PauseMicroseconds uint64 `json:"pause_microseconds"`
	// PausedMicroseconds is what the pause was spent on, by step; "cut.x" is a parallel part of the
	// step "cut". It is empty if the programs were stopped, and in older images.
	PausedMicroseconds map[string]uint64 `json:"paused_microseconds,omitempty"`
	WrittenBytes       uint64            `json:"written_bytes"`
	SharedBytes        uint64            `json:"shared_bytes"`
}
