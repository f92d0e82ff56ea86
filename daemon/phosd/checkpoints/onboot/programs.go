package onboot

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// MaxAttempts is how often a restore of one image is attempted.
const MaxAttempts = 5

// Program is a program that is restored after a restart of the machine.
type Program struct {
	// Socket is that of the phosd that saved the program: several may share a state directory.
	Socket string `json:"socket"`
	// Boot is the boot in which Root runs or ran.
	Boot string        `json:"boot"`
	Root proc.Identity `json:"root"`
	// UID, GID and Groups are the program's rights.
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
	// Dir is the image directory.
	Dir string `json:"dir"`
	// Drained means that the program was saved and stopped at a drain.
	Drained bool `json:"drained,omitempty"`
	// Attempts counts restores since the last checkpoint, and Error says why the last one failed.
	Attempts int    `json:"attempts,omitempty"`
	Error    string `json:"error,omitempty"`
	// RestoredIn is the boot in which the program was restored, FailedIn the one in which it was given
	// up; empty: it was not.
	RestoredIn string `json:"restored_in,omitempty"`
	FailedIn   string `json:"failed_in,omitempty"`
}

// Rights returns the program's rights to files.
func (p Program) Rights() fsuid.Rights {
	return fsuid.Rights{UID: p.UID, GID: p.GID, Groups: p.Groups}
}

// Records keep the programs; *statedir.Records does.
type Records interface {
	Save(name string, text []byte) error
	All() (map[string][]byte, error)
	Remove(name string) error
}

// Options are what Programs need.
type Options struct {
	Records Records
	// Socket is phosd's.
	Socket string
	// Life ends when phosd ends.
	Life context.Context //nolint:containedctx // phosd's own life, not a request's
	// MachineStopping reports whether the machine is being stopped.
	MachineStopping func() bool
	Log             *slog.Logger
}

// Programs are the programs that are restored after a restart of the machine.
type Programs struct {
	options Options
	boot    string

	mu    sync.Mutex // guards all below
	byDir map[string]*Program
	// draining are programs that a drain stops.
	draining map[proc.Identity]bool
	frozen   bool
}

// Open reads the records, and removes those of programs that ended in this boot.
func Open(options Options) (*Programs, error) {
	boot, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	p := &Programs{
		options: options, boot: boot,
		byDir: make(map[string]*Program), draining: make(map[proc.Identity]bool),
	}
	texts, err := options.Records.All()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, text := range texts {
		saved := &Program{}
		if err := json.Unmarshal(text, saved); err != nil || p.name(saved.Dir) != name {
			if err != nil || saved.Socket == options.Socket {
				options.Log.Warn("record of a program ignored", "record", name, "error", err)
			}
			continue
		}
		p.byDir[saved.Dir] = saved
		if saved.RestoredIn != p.boot {
			saved.RestoredIn = "" // before the last restart
		}
		switch {
		case saved.FailedIn != "" && saved.FailedIn != p.boot, p.ended(saved):
			p.remove(saved)
		case saved.Boot == p.boot && !saved.Drained:
			p.watch(saved)
		}
	}
	return p, nil
}

// ended reports whether a program of this boot has ended.
func (p *Programs) ended(saved *Program) bool {
	return saved.Boot == p.boot && !saved.Drained && saved.Root.Gone()
}

// name returns the name of a record.
func (p *Programs) name(dir string) string {
	sum := sha256.Sum256([]byte(p.options.Socket + "\x00" + dir))
	return hex.EncodeToString(sum[:16])
}

// Saved records that a policy has saved a program. wanted means that the program is to be restored
// after a restart of the machine.
func (p *Programs) Saved(root proc.Identity, as fsuid.Rights, dir string, wanted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	drained := p.draining[root]
	delete(p.draining, root)
	next := &Program{
		Socket: p.options.Socket, Boot: p.boot, Root: root, UID: as.UID, GID: as.GID, Groups: as.Groups, Dir: dir,
		Drained: drained,
	}
	known := false
	for _, old := range p.byDir {
		if old.Boot == p.boot && old.Root == root {
			next.RestoredIn, known = old.RestoredIn, true
			if old.Dir != dir || !wanted {
				p.remove(old)
			}
		}
	}
	if old := p.byDir[dir]; old != nil && old.UID != as.UID {
		p.options.Log.Warn("program is not restored on boot: another user's record has its directory",
			"dir", dir, "pid", root.PID, "uid", as.UID)
		return
	}
	if !wanted {
		if old := p.byDir[dir]; old != nil { // the image is another program's now
			p.remove(old)
		}
		return
	}
	if !p.save(next) {
		return
	}
	p.byDir[dir] = next
	if !known && !drained {
		p.watch(next)
	}
}

// Draining keeps the record of a program that a drain stops, until Saved or DrainFailed is called.
func (p *Programs) Draining(root proc.Identity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining[root] = true
}

// DrainFailed undoes Draining.
func (p *Programs) DrainFailed(root proc.Identity) {
	p.mu.Lock()
	delete(p.draining, root)
	p.mu.Unlock()
	if root.Gone() {
		p.programEnded(root) // by itself, during the drain
	}
}

// Restored records that the image in a directory was restored, on request or after a restart of the
// machine.
func (p *Programs) Restored(dir string, uid uint32, root proc.Identity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	saved := p.byDir[dir]
	if saved == nil || saved.UID != uid {
		return
	}
	saved.Boot, saved.Root, saved.RestoredIn = p.boot, root, p.boot
	saved.Drained, saved.Error, saved.FailedIn = false, "", ""
	p.save(saved)
	p.watch(saved)
}

// Attempt counts an attempt to restore a program. It returns false if there were too many, or if
// the attempt cannot be recorded.
func (p *Programs) Attempt(dir string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	saved := p.byDir[dir]
	if saved == nil || !p.pending(saved) {
		return false
	}
	if saved.Attempts >= MaxAttempts {
		p.giveUp(saved, cmp.Or(saved.Error, "phosd or the machine crashed after it was restored"))
		return false
	}
	saved.Attempts++
	return p.save(saved)
}

// Failed records why an attempt failed. final means that there is no point in another one.
func (p *Programs) Failed(dir string, err error, final bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	saved := p.byDir[dir]
	if saved == nil || !p.pending(saved) {
		return
	}
	if saved.Error = err.Error(); final || saved.Attempts >= MaxAttempts {
		p.giveUp(saved, saved.Error)
		return
	}
	p.save(saved)
}

// giveUp ends the attempts. The caller holds mu.
func (p *Programs) giveUp(saved *Program, reason string) {
	saved.Error, saved.FailedIn = reason, p.boot
	p.save(saved)
	p.options.Log.Error("program not restored after the machine's restart",
		"dir", saved.Dir, "uid", saved.UID, "attempts", saved.Attempts, "error", reason)
}

// pending reports whether a program is to be restored. The caller holds mu.
func (p *Programs) pending(saved *Program) bool {
	return saved.Boot != p.boot && saved.FailedIn == "" && p.boot != ""
}

// Pending lists the programs to restore, in the order of their directories.
func (p *Programs) Pending() []Program { return p.list(p.pending) }

// Since lists the programs that were restored since the machine's restart, or are to be.
func (p *Programs) Since() []Program {
	return p.list(func(saved *Program) bool {
		return saved.Boot != p.boot || saved.RestoredIn == p.boot && saved.Boot == saved.RestoredIn
	})
}

// list lists the programs that match.
func (p *Programs) list(matches func(*Program) bool) (all []Program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, saved := range p.byDir {
		if matches(saved) {
			all = append(all, *saved)
		}
	}
	slices.SortFunc(all, func(a, b Program) int { return cmp.Compare(a.Dir, b.Dir) })
	return all
}

// Wanted reports whether the image in a directory is that of a program that runs or is to be
// restored.
func (p *Programs) Wanted(dir string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	saved := p.byDir[dir]
	return saved != nil && saved.FailedIn == ""
}

// Freeze keeps all records from now on: phosd is being stopped, perhaps with the machine.
func (p *Programs) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = true
}

// watch waits for the end of a program in the background. The caller holds mu.
func (p *Programs) watch(saved *Program) {
	root := saved.Root
	handle, err := proc.Open(root)
	if err != nil && !proc.Unknown(err) {
		go p.programEnded(root)
		return
	}
	if err != nil { // the record stays until the next phosd looks
		p.options.Log.Error("watch a program", "pid", root.PID, "error", err)
		return
	}
	stop := context.AfterFunc(p.options.Life, func() { _ = handle.Close() })
	go func() {
		err := handle.Wait()
		if !stop() || err != nil {
			return // phosd ends
		}
		_ = handle.Close()
		p.programEnded(root)
	}()
}

// programEnded removes the record of a program that has ended by itself.
func (p *Programs) programEnded(root proc.Identity) {
	stopping := p.options.MachineStopping()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, saved := range p.byDir {
		if saved.Boot != p.boot || saved.Root != root || saved.Drained || p.draining[root] || p.frozen {
			continue
		}
		if stopping {
			p.options.Log.Info("program ended by the machine's shutdown", "pid", root.PID, "dir", saved.Dir)
			continue
		}
		p.remove(saved)
	}
}

// save writes a record, and reports whether that succeeded. The caller holds mu.
func (p *Programs) save(saved *Program) bool {
	text, err := json.Marshal(saved)
	if err == nil {
		err = p.options.Records.Save(p.name(saved.Dir), text)
	}
	if err != nil {
		p.options.Log.Error("record a program for the machine's restart", "dir", saved.Dir, "error", err)
	}
	return err == nil
}

// remove removes a record. The caller holds mu.
func (p *Programs) remove(saved *Program) {
	delete(p.byDir, saved.Dir)
	if err := p.options.Records.Remove(p.name(saved.Dir)); err != nil {
		p.options.Log.Error("remove the record of a program", "dir", saved.Dir, "error", err)
	}
}

// The states of a program after a restart of the machine.
const (
	Waiting  = "waiting"
	Restored = "restored"
	Failed   = "failed"
)

// State returns the program's state, for --status.
func (p Program) State() string {
	switch {
	case p.FailedIn != "":
		return Failed
	case p.RestoredIn != "" && p.RestoredIn == p.Boot:
		return Restored
	}
	return Waiting
}
