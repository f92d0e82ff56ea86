package procgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Child makes a cgroup below the group's own, for processes that may end before the others. What
// limits, signals and kills the group reaches them, too.
func (g *Group) Child(name string) (*Group, error) {
	if strings.Contains(name, "/") || !filepath.IsLocal(name) || name == "." || strings.HasPrefix(name, "cgroup.") {
		return nil, fmt.Errorf("%q: %w", name, ErrPath)
	}
	child := &Group{Directory: filepath.Join(g.Directory, name)}
	if err := makeNew(child.Directory); err != nil {
		return nil, fmt.Errorf("create cgroup %s: %w", child.Directory, err)
	}
	if err := child.open(); err != nil {
		return nil, errors.Join(err, os.Remove(child.Directory), child.Close())
	}
	return child, nil
}
