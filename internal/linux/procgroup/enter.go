package procgroup

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
)

// Enter moves the calling thread into the group's cgroups of version 1. What the thread starts
// until it leaves begins there; with FD, processes begin in all cgroups of the group. The caller is
// locked to its thread, and has moved it back before the group is removed.
func (g *Group) Enter() (leave func() error, err error) {
	before := map[string]string{}
	leave = func() error { return g.leave(before) }
	for controller, directory := range g.legacy {
		from, err := cgroup.LegacyOfThread(controller)
		if err == nil && controller == "pids" {
			err = g.allowPids(1) // the thread counts while it is inside
		}
		if err == nil {
			err = moveThread(directory)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("enter cgroup %s: %w", directory, err), leave())
		}
		before[controller] = from
	}
	return leave, nil
}

// leave moves the calling thread back.
func (g *Group) leave(before map[string]string) error {
	var all error
	for controller, directory := range before {
		err := moveThread(directory)
		if err == nil && controller == "pids" {
			err = g.allowPids(0)
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("return to cgroup %s: %w", directory, err))
		}
	}
	return all
}

// moveThread moves the calling thread into a cgroup of version 1.
func moveThread(directory string) error {
	return cgroup.Write(directory, "tasks", strconv.Itoa(unix.Gettid()))
}

// allowPids sets the limit of the other version's cgroup, with room for more.
func (g *Group) allowPids(more uint64) error {
	for i := range g.limits {
		if l := &g.limits[i]; l.controller == "pids" {
			most, err := strconv.ParseUint(l.value, 10, 64)
			if err != nil {
				return l.fail(err)
			}
			return cgroup.Write(g.legacy["pids"], pidsMax, decimal(most+more))
		}
	}
	return nil
}
