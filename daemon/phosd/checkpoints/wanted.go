package checkpoints

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/onboot"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/policy"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/retention"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
)

// openRecords opens what outlives phosd: which images have ended programs, and which programs are
// restored after a restart of the machine.
func (c *Checkpoints) openRecords() error {
	programs, err := c.options.State.Records("programs")
	if err != nil {
		return err
	}
	if c.boot, err = onboot.Open(onboot.Options{
		Records: programs, Socket: c.options.Socket, Life: c.options.Life, MachineStopping: machineStopping, Log: c.log,
	}); err != nil {
		return err
	}
	images, err := c.options.State.Records("images")
	if err != nil {
		return err
	}
	shares := c.options.Quota
	c.images, err = retention.Open(retention.Options{
		Base: c.config.Dir, Host: thisHost().Name, Keep: time.Duration(c.config.KeepEnded), Wanted: c.wanted,
		Measure: func(uid uint32, bytes uint64) error { return shares.Measure(uid, quota.ImageBytes, bytes) },
		Share:   func(uid uint32) (uint64, bool, bool) { return shares.Limit(uid, quota.ImageBytes) },
		Removed: c.metrics.ImageRemoved, Records: images, Life: c.options.Life, Log: c.log,
	})
	return err
}

// RunRetention removes images of ended programs until Options.Life ends.
func (c *Checkpoints) RunRetention() { c.images.Run() }

// wanted reports whether an image of a user must stay, whatever its age and size. What other users
// do does not count: a directory that they have handed off may have any path, because they choose
// the names in a mount namespace of their own.
func (c *Checkpoints) wanted(uid uint32, path string) bool {
	if c.boot.Wanted(path) || c.prepared.holds(uid, path) || c.restoring.has(uid, path) {
		return true
	}
	for _, s := range c.sessions.All() {
		record := s.Record()
		if record.Owner.UID != uid {
			continue
		}
		own := policy.Program{PID: s.PID(), Started: record.Started}
		if last := s.Checkpoint(); last != nil && last.Dir == path || strings.HasSuffix(path, own.NameEnd()) {
			return true
		}
	}
	return false
}

// removeEmpty removes what is left of the image of a program that ended during its first
// checkpoint.
func (c *Checkpoints) removeEmpty(f family, dir imageDirectory) {
	if dir.user == nil || !f.root.Gone() {
		return
	}
	as, err := f.members[0].Rights()
	if err != nil { // the groups of an ended process are unknown, and not needed in its own directory
		owner := f.members[0].Record().Owner
		as.UID, as.GID = owner.UID, owner.GID
	}
	if err := retention.RemoveEmpty(dir.user, as, filepath.Base(dir.Name())); err != nil {
		c.log.Debug("remove empty image", "dir", dir.Name(), "error", err)
	}
}

// pathSet counts uses of paths.
type pathSet struct {
	mu   sync.Mutex // guards uses
	uses map[pathUse]int
}

// pathUse is a path that a user has in use.
type pathUse struct {
	uid  uint32
	path string
}

// add counts a use until remove is called.
func (p *pathSet) add(uid uint32, path string) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.uses == nil {
		p.uses = make(map[pathUse]int)
	}
	use := pathUse{uid, path}
	p.uses[use]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.uses[use]--; p.uses[use] == 0 {
			delete(p.uses, use)
		}
	}
}

// has reports whether a user, or root, has a path in use.
func (p *pathSet) has(uid uint32, path string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.uses[pathUse{uid, path}] > 0 || p.uses[pathUse{0, path}] > 0
}

// stoppingTimeout is how long systemd may take to say whether the machine is being stopped.
const stoppingTimeout = 5 * time.Second

// machineStopping asks systemd whether the machine is being stopped. Without systemd it is not.
func machineStopping() bool {
	ctx, cancel := context.WithTimeout(context.Background(), stoppingTimeout)
	defer cancel()
	// The exit status says only whether the machine runs without failures.
	state, _ := exec.CommandContext(ctx, "systemctl", "is-system-running").Output()
	return strings.TrimSpace(string(state)) == "stopping"
}
