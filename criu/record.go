package criu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/criu/hardlink"
	"github.com/phos-gpu/phos/criu/inspect"
)

// recordName is the record's file name among the images.
const recordName = "phos.json"

// maxRecordBytes is an upper bound for the size of a record.
const maxRecordBytes = 16 << 20

// record says how a tree was dumped.
type record struct {
	// Root is the root's pid in the tree's own pid namespace.
	Root int `json:"root"`
	// Outside maps pids of the tree's own namespace to those in phosd's, where they differ.
	Outside   map[int]int      `json:"outside,omitempty"`
	ShellJob  bool             `json:"shell_job,omitempty"`
	Connected bool             `json:"connected,omitempty"`
	Listening []netip.AddrPort `json:"listening,omitempty"`
	Datagrams bool             `json:"datagrams,omitempty"`
	// Links are removed names that files had during the dump.
	Links []hardlink.Link `json:"aliases,omitempty"`
	// SocketDirs are the directories of unix sockets.
	SocketDirs []string `json:"rooms,omitempty"`
	// JobTerminal is the key of the terminal of the shell's job.
	JobTerminal string `json:"job_terminal,omitempty"`
	// Ends are the keys of all ends that led out of the tree.
	Ends []string `json:"ends,omitempty"`
	// Foreign are files that the tree had through mounts of other namespaces.
	Foreign []inspect.Foreign `json:"foreign,omitempty"`
}

func newRecord(found *inspect.Findings) *record {
	r := &record{
		Root: found.Root, ShellJob: found.ShellJob, Connected: found.Connected, Listening: found.Listening, Datagrams: found.Datagrams,
		Outside: found.Outside,
		Links:   found.Links, Foreign: found.Foreign, SocketDirs: found.SocketDirs,
	}
	for _, end := range found.Endpoints {
		r.Ends = append(r.Ends, end.Key)
		if end.ID == found.JobTerminal {
			r.JobTerminal = end.Key
		}
	}
	return r
}

func writeRecord(images *os.File, r *record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record of a dump: %w", err)
	}
	fd, err := unix.Openat(
		int(images.Fd()),
		recordName,
		unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC,
		0o600,
	)
	if err != nil {
		return fmt.Errorf("record of a dump: %w", err)
	}
	file := os.NewFile(uintptr(fd), recordName)
	_, err = file.Write(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("record of a dump: %w", err)
	}
	return nil
}

// ErrRecord is returned when a directory holds no valid record of a dump.
var ErrRecord = errors.New("not images dumped by phos")

func readRecord(images *os.File) (*record, error) {
	fd, err := unix.Openat(
		int(images.Fd()),
		recordName,
		unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC,
		0,
	)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	file := os.NewFile(uintptr(fd), recordName)
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxRecordBytes))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return parseRecord(text)
}

func parseRecord(text []byte) (*record, error) {
	r := new(record)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if r.Root <= 0 {
		return nil, fmt.Errorf("%w: root %d", ErrRecord, r.Root)
	}
	return r, nil
}

// outside returns the pid that a process had in phosd's pid namespace at the dump.
func (r *record) outside(pid int) int {
	if outside, ok := r.Outside[pid]; ok {
		return outside
	}
	return pid
}

// threads returns the ids of all threads in the images; each has a file named after it.
func threads(images *os.File) ([]int, error) {
	if _, err := images.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := images.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var found []int
	for _, name := range names {
		name, ok := strings.CutPrefix(name, "core-")
		if !ok {
			continue
		}
		if pid, err := strconv.Atoi(strings.TrimSuffix(name, ".img")); err == nil && pid > 0 {
			found = append(found, pid)
		}
	}
	return found, nil
}
