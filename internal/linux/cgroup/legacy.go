package cgroup

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrNoController is returned when no hierarchy of version 1 has a controller.
var ErrNoController = errors.New("no such controller: the kernel, or the container of this process, lacks it")

// findLegacy returns the mount of the version 1 hierarchy with a controller.
func findLegacy(mountinfo, controller string) (mount, error) {
	mounts, err := proc.ParseMounts(mountinfo)
	if err != nil {
		return mount{}, err
	}
	for _, each := range mounts {
		if each.Kind == "cgroup" && slices.Contains(strings.Split(each.Options, ","), controller) {
			return mount{point: each.Point, top: each.Root}, nil
		}
	}
	return mount{}, ErrNoController
}

// Legacy returns the directory of the topmost visible cgroup of version 1 that has a controller, or
// ErrNoController. A controller that version 2 uses is in no such hierarchy.
func Legacy(controller string) (string, error) {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return "", err
	}
	found, err := findLegacy(string(text), controller)
	return found.point, err
}

// LegacyOfThread returns the directory of the calling thread's cgroup of version 1 that has a
// controller. Threads of one process may be in different ones.
func LegacyOfThread(controller string) (string, error) {
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return "", err
	}
	found, err := findLegacy(string(mounts), controller)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		// 4:cpu,cpuacct:/path
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), controller) {
			return found.directory(os.Getpid(), fields[2])
		}
	}
	return "", ErrNoController
}
