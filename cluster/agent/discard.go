package agent

import (
	"os"
	"path/filepath"
	"slices"

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
	unwanted := func(key supervisor.Key) bool { return !wanted[key.Launch] }
	s.agent.removeAttempts(s.agent.path("work"), unwanted)
	s.agent.removeAttempts(s.agent.path("images"), unwanted)
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
	of := func(key supervisor.Key) bool { return key.Launch == id }
	a.removeAttempts(a.path("work"), of)
	a.removeImages(ended.GetOwner(), ended.GetSharedDir(), of)
}

// discardBefore removes the images of the attempts of a replica before the one that was saved. The
// working directories stay where the launch runs or has an image: that of the first attempt goes on
// in the later ones.
func (a *Agent) discardBefore(saved *api.NewImage) {
	last := keyOf(saved.GetAttempt())
	if last.Check() != nil {
		return
	}
	if saved.GetSharedDir() == "" { // images in a shared directory need it wherever they are restored
		defer a.discardWork(last.Launch)
	}
	a.removeImages(saved.GetOwner(), saved.GetSharedDir(), func(key supervisor.Key) bool {
		return key.Launch == last.Launch && key.Replica == last.Replica && key.Attempt < last.Attempt
	})
}

// discardWork removes the working directories of a launch that neither runs here nor has an image.
func (a *Agent) discardWork(id string) {
	of := func(key supervisor.Key) bool { return key.Launch == id }
	if len(a.attempts.owners(id)) > 0 || slices.ContainsFunc(attemptsIn(a.path("images")), of) {
		return
	}
	a.removeAttempts(a.path("work"), of)
}

// removeImages removes images of attempts on the node, and, with the rights of their owner, in the
// directory that all nodes share, if there is one.
func (a *Agent) removeImages(account, shared string, unwanted func(supervisor.Key) bool) {
	a.removeAttempts(a.path("images"), unwanted)
	if shared == "" {
		return
	}
	o, err := a.lookUp(account)
	if err != nil {
		return
	}
	_ = fsuid.Rights{UID: o.uid, GID: o.gid, Groups: o.groups}.Do(func() error {
		a.removeAttempts(shared, unwanted)
		return nil
	})
}

// removeAttempts removes directories of attempts below a directory.
func (a *Agent) removeAttempts(dir string, unwanted func(supervisor.Key) bool) {
	for _, key := range attemptsIn(dir) {
		if unwanted(key) {
			a.remove(filepath.Join(dir, key.String()))
		}
	}
}

// attemptsIn returns the attempts of which there are directories below one. What cannot be read has
// none.
func attemptsIn(dir string) (keys []supervisor.Key) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if key, err := supervisor.ParseKey(entry.Name()); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// remove removes a directory. What stays is looked at again at the next connection.
func (a *Agent) remove(path string) {
	if err := os.RemoveAll(path); err != nil {
		a.config.Log.Warn("directory of an ended launch stays", "path", path, "error", err)
	}
}
