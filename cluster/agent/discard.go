package agent

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// forgetOthers removes what is left of launches of which the leader knows nothing more, or wants
// nothing more.
func (s *attempts) forgetOthers(orders *api.Orders) {
	wanted := map[string]bool{}
	for key := range s.all {
		wanted[key.Launch] = true
	}
	for _, id := range orders.GetKept() {
		wanted[id] = true
	}
	for _, pattern := range []string{s.agent.path("work", "*"), s.agent.path("images", "*")} {
		paths, _ := filepath.Glob(pattern) // the pattern is valid
		for _, path := range paths {
			if key, err := supervisor.ParseKey(filepath.Base(path)); err == nil && !wanted[key.Launch] {
				s.agent.remove(path)
			}
		}
	}
}

// discardIfOver removes what a launch has left here once it has ended, and its attempts are gone.
func (s *attempts) discardIfOver(id string) {
	ended := s.over[id]
	if ended == nil {
		return
	}
	for key := range s.all {
		if key.Launch == id {
			return
		}
	}
	delete(s.over, id)
	go s.agent.discard(ended)
}

// discard removes images and working directories of a launch.
func (a *Agent) discard(ended *api.EndedLaunch) {
	id := ended.GetLaunch()
	if err := (supervisor.Key{Launch: id}).Check(); err != nil {
		return
	}
	for _, dir := range []string{a.path("work"), a.path("images")} {
		for _, path := range ofLaunch(dir, id) {
			a.remove(path)
		}
	}
	if ended.GetSharedDir() == "" {
		return
	}
	o, err := a.lookUp(ended.GetOwner())
	if err != nil {
		return
	}
	_ = fsuid.Rights{UID: o.uid, GID: o.gid, Groups: o.groups}.Do(func() error {
		for _, path := range ofLaunch(ended.GetSharedDir(), id) {
			a.remove(path)
		}
		return nil
	})
}

// ofLaunch returns the directories of a launch's attempts below a directory.
func ofLaunch(dir, id string) (paths []string) {
	entries, _ := os.ReadDir(dir) // what cannot be read has none
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), id+".") {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	return paths
}

// remove removes a directory. What stays is looked at again at the next connection.
func (a *Agent) remove(path string) {
	if err := os.RemoveAll(path); err != nil {
		a.config.Log.Warn("directory of an ended launch stays", "path", path, "error", err)
	}
}
