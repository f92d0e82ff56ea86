package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// A snapshot is stored as extended attributes of the cgroup in which the tree is frozen. Only root
// can read and write those of this class, any phosd that finds the cgroup finds the snapshot, and
// both end together.
const (
	countAttribute = "trusted.phos.repair"
	partAttribute  = "trusted.phos.repair."
	// partBytes is below the kernel's limit for one attribute.
	partBytes = 60 << 10
)

// Store keeps the snapshot with a cgroup, until Forget or the cgroup's end. It fails in a user
// namespace, where root may not use such attributes.
func (s *Snapshot) Store(cgroup string) error {
	text, err := json.Marshal(s.processes)
	if err != nil {
		return fmt.Errorf("store snapshot: %w", err)
	}
	if err := Forget(cgroup); err != nil {
		return err
	}
	count := 0
	for ; len(text) > 0; count++ {
		part := text[:min(len(text), partBytes)]
		if err := unix.Setxattr(cgroup, partAttribute+strconv.Itoa(count), part, 0); err != nil {
			return fmt.Errorf("store snapshot: %w", err)
		}
		text = text[len(part):]
	}
	// Last: until then there is no snapshot.
	if err := unix.Setxattr(cgroup, countAttribute, []byte(strconv.Itoa(count)), 0); err != nil {
		return fmt.Errorf("store snapshot: %w", err)
	}
	return nil
}

// Forget removes the snapshot of a cgroup. There need not be one.
func Forget(cgroup string) error {
	err := unix.Removexattr(cgroup, countAttribute)
	if err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("forget snapshot: %w", err)
	}
	return nil
}

// Stored returns the snapshot of a cgroup; nil if there is none.
func Stored(cgroup string) (*Snapshot, error) {
	counted, err := attribute(cgroup, countAttribute)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("stored snapshot: %w", err)
	}
	count, err := strconv.Atoi(string(counted))
	if err != nil {
		return nil, fmt.Errorf("stored snapshot: %w", err)
	}
	var text []byte
	for i := range count {
		part, err := attribute(cgroup, partAttribute+strconv.Itoa(i))
		if err != nil {
			return nil, fmt.Errorf("stored snapshot: %w", err)
		}
		text = append(text, part...)
	}
	var s Snapshot
	if err := json.Unmarshal(text, &s.processes); err != nil {
		return nil, fmt.Errorf("stored snapshot: %w", err)
	}
	return &s, nil
}

// attribute reads an extended attribute of a file.
func attribute(path, name string) ([]byte, error) {
	value := make([]byte, partBytes)
	n, err := unix.Getxattr(path, name, value)
	if err != nil {
		return nil, err
	}
	return value[:n], nil
}
