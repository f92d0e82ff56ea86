package criu

import (
	"fmt"
	"os"
	"strings"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// What CRIU's code inside of a process needs, at most: descriptors and addresses.
const (
	insideFiles = 8
	insideBytes = 64 << 20
)

// pipeRefusal is what CRIU says if the user has more memory in pipes than the kernel gives to one
// user.
const pipeRefusal = "Unable to set a pipe size"

// explainDump adds to an error of CRIU what the frozen tree lacks for CRIU, and the remedy. CRIU
// works inside of the processes, under their limits, and its own errors name neither.
func explainDump(err error, tree *ckpt.Tree) error {
	if err == nil {
		return nil
	}
	var found []ckpt.Obstacle
	for _, p := range tree.Processes {
		found = append(found, shortages(p)...)
	}
	if strings.Contains(err.Error(), pipeRefusal) {
		root := tree.Processes[0]
		found = append(found, ckpt.Obstacle{
			Subject: fmt.Sprintf("pid %d (%s)", root.PID, root.Command),
			Reason:  "its user has more pipes than the kernel gives to one user",
			Remedy:  "close some, or raise fs.pipe-user-pages-soft with sysctl",
		})
	}
	if len(found) == 0 {
		return err
	}
	return fmt.Errorf("%w: %w", &ckpt.ObstacleError{Obstacles: found}, err)
}

// shortages finds limits of a process that leave nothing for CRIU.
func shortages(p ckpt.Process) (found []ckpt.Obstacle) {
	subject := fmt.Sprintf("pid %d (%s)", p.PID, p.Command)
	refuse := func(what, flag string) {
		found = append(found, ckpt.Obstacle{
			Subject: subject, Reason: "its limit of " + what + " leaves nothing for CRIU, which works in it",
			Remedy: fmt.Sprintf("raise it: prlimit --pid %d --%s=unlimited", p.PID, flag),
		})
	}
	open, unread := os.ReadDir(proc.Path(p.PID, "fd"))
	limit, err := proc.Limit(p.PID, proc.OpenFiles)
	if unread == nil && err == nil && limit < uint64(len(open))+insideFiles {
		refuse("open files (RLIMIT_NOFILE)", "nofile")
	}
	areas, unread := proc.Mappings(p.PID)
	limit, err = proc.Limit(p.PID, proc.AddressSpace)
	if unread == nil && err == nil && limit < mappedBytes(areas)+insideBytes {
		refuse("addresses (RLIMIT_AS)", "as")
	}
	return found
}

// mappedBytes returns how many addresses are mapped.
func mappedBytes(areas []proc.Mapping) (bytes uint64) {
	for i := range areas {
		bytes += areas[i].End - areas[i].Start
	}
	return bytes
}
