package process

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
)

// Process is one process.
type Process struct {
	// Command is executed without a shell. A name without a slash is looked for in PATH of
	// Environment.
	Command []string `json:"argv"`
	// Environment is all that the process gets, as NAME=VALUE.
	Environment []string `json:"env,omitempty"`
	// Directory is absolute. The process enters it as its user.
	Directory string   `json:"dir"`
	UID       uint32   `json:"uid"`
	GID       uint32   `json:"gid"`
	Groups    []uint32 `json:"groups,omitempty"`
}

// noID is what the kernel takes for no user or group.
const noID = math.MaxUint32

// Check refuses what no process can have.
func (p *Process) Check() error {
	switch {
	case len(p.Command) == 0 || p.Command[0] == "":
		return fmt.Errorf("no command")
	case !filepath.IsAbs(p.Directory):
		return fmt.Errorf("directory %.100q: want an absolute path", p.Directory)
	case p.UID == noID || p.GID == noID:
		return fmt.Errorf("user %d, group %d: there are no such ids", p.UID, p.GID)
	}
	for _, texts := range [][]string{p.Command, p.Environment, {p.Directory}} {
		for _, each := range texts {
			if strings.ContainsRune(each, 0) {
				return fmt.Errorf("%.100q has a NUL byte", each)
			}
		}
	}
	return nil
}
