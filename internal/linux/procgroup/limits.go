package procgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
)

// Limits are what the processes of a group may use together. What is 0 is not limited.
type Limits struct {
	// CPUs is in thousandths of a CPU.
	CPUs uint64 `json:"cpus,omitempty"`
	// MemoryBytes counts what the processes use, and the files that they read and write. Swap does not
	// add to it.
	MemoryBytes uint64 `json:"memory_bytes,omitempty"`
	// Pids counts processes and threads.
	Pids uint64 `json:"pids,omitempty"`
}

// setting is a file of a cgroup with its value.
type setting struct {
	file, value string
	// optional settings are not there on every kernel.
	optional bool
}

// limit is one limit, with its settings in both versions.
type limit struct {
	controller, value string
	settings, legacy  []setting
}

// list returns the limits that are set.
func (l Limits) list() (all []limit) {
	if l.CPUs != 0 {
		all = append(all, l.cpu())
	}
	if l.MemoryBytes != 0 {
		all = append(all, l.memory())
	}
	if l.Pids != 0 {
		value := decimal(l.Pids)
		one := []setting{{file: pidsMax, value: value}}
		all = append(all, limit{"pids", value, one, one})
	}
	return all
}

// pidsMax has this name in both versions.
const pidsMax = "pids.max"

// cpu gives processes a part of each period. The kernel wants at least a millisecond of it.
func (l Limits) cpu() limit {
	const least = 1000
	period := uint64(100_000)
	if l.CPUs*period/1000 < least {
		period = 1_000_000
	}
	quota := decimal(l.CPUs * period / 1000)
	return limit{
		"cpu", quota + " " + decimal(period),
		[]setting{{file: "cpu.max", value: quota + " " + decimal(period)}},
		[]setting{{file: "cpu.cfs_period_us", value: decimal(period)}, {file: "cpu.cfs_quota_us", value: quota}},
	}
}

// memory lets the kernel kill all processes of a group at once, where it can.
func (l Limits) memory() limit {
	bytes := decimal(l.MemoryBytes)
	return limit{
		"memory", bytes,
		[]setting{
			{file: "memory.max", value: bytes},
			{file: "memory.oom.group", value: "1"},
			{file: "memory.swap.max", value: "0", optional: true},
		},
		[]setting{
			{file: "memory.limit_in_bytes", value: bytes},
			{file: "memory.memsw.limit_in_bytes", value: bytes, optional: true},
		},
	}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// apply writes settings into a cgroup.
func apply(directory string, settings []setting) error {
	for _, each := range settings {
		err := cgroup.Write(directory, each.file, each.value)
		if err != nil && !(each.optional && errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// fail returns the error for a limit.
func (l *limit) fail(err error) error {
	return &LimitError{Controller: l.controller, Limit: l.value, Err: err}
}

// unified reports whether version 2 has a controller in a cgroup.
func unified(directory, controller string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(directory, "cgroup.controllers"))
	return slices.Contains(strings.Fields(string(text)), controller), err
}

// enable lets the children of a cgroup of version 2 use a controller.
func enable(directory, controller string) error {
	if err := cgroup.Write(directory, "cgroup.subtree_control", "+"+controller); err != nil {
		return fmt.Errorf("enable it below %s: %w", directory, err)
	}
	return nil
}
