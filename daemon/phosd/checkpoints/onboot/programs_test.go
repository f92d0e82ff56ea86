package onboot

import (
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

const alice, bob = 1001, 1002

// records keeps records in memory.
type records struct {
	mu   sync.Mutex // guards kept
	kept map[string][]byte
}

func newRecords() *records { return &records{kept: map[string][]byte{}} }

func (r *records) Save(name string, text []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept[name] = text
	return nil
}

func (r *records) All() (map[string][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.kept), nil
}

func (r *records) Remove(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.kept, name)
	return nil
}

// count returns how many records there are.
func (r *records) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.kept)
}

// reboot makes all records look as if they were of an earlier boot.
func (r *records) reboot(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, text := range r.kept {
		var saved Program
		if err := json.Unmarshal(text, &saved); err != nil {
			t.Fatal(err)
		}
		for _, boot := range []*string{&saved.Boot, &saved.RestoredIn, &saved.FailedIn} {
			if *boot != "" {
				*boot = "earlier"
			}
		}
		var err error
		if r.kept[name], err = json.Marshal(saved); err != nil {
			t.Fatal(err)
		}
	}
}

// open starts a phosd.
func open(t *testing.T, kept *records, socket string, stopping bool) *Programs {
	t.Helper()
	p, err := Open(Options{
		Records: kept, Socket: socket, Life: t.Context(), Log: slog.New(slog.DiscardHandler),
		MachineStopping: func() bool { return stopping },
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// program starts a process; end ends it.
func program(t *testing.T) (root proc.Identity, end func()) {
	t.Helper()
	command := exec.Command("sleep", "1000")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() { _ = command.Process.Kill(); _ = command.Wait() }
	t.Cleanup(end)
	root, err := proc.Of(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return root, end
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout: %s", what)
		}
	}
}

// dirs returns the directories of programs.
func dirs(all []Program) (names []string) {
	for _, each := range all {
		names = append(names, each.Dir)
	}
	return names
}

// TestEnds: a record is removed when its program ends, unless a drain or a shutdown ends it.
func TestEnds(t *testing.T) {
	for name, test := range map[string]struct {
		stopping bool
		before   func(p *Programs, root proc.Identity)
		stays    bool
	}{
		"by itself":         {false, func(*Programs, proc.Identity) {}, false},
		"the machine stops": {true, func(*Programs, proc.Identity) {}, true},
		"phosd stops":       {false, func(p *Programs, _ proc.Identity) { p.Freeze() }, true},
		"a drain":           {false, func(p *Programs, root proc.Identity) { p.Draining(root) }, true},
		"after a failed drain": {false, func(p *Programs, root proc.Identity) {
			p.Draining(root)
			p.DrainFailed(root)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			kept := newRecords()
			p := open(t, kept, "s", test.stopping)
			root, end := program(t)
			p.Saved(root, fsuid.Rights{UID: alice}, "/a", true)
			if !p.Wanted("/a") || kept.count() != 1 || len(p.Pending()) != 0 {
				t.Fatalf("saved: got %v, pending %v", kept, p.Pending())
			}
			test.before(p, root)
			end()
			p.programEnded(root) // as the watch does, which may come later
			if got := p.Wanted("/a"); got != test.stays {
				t.Errorf("after the end: got %v, want %v", got, test.stays)
			}
		})
	}
}

// TestWatch: the end of a program is noticed, that of one that the phosd before has saved, too.
func TestWatch(t *testing.T) {
	kept := newRecords()
	root, end := program(t)
	open(t, kept, "s", false).Saved(root, fsuid.Rights{UID: alice}, "/a", true)
	p := open(t, kept, "s", false)
	if !p.Wanted("/a") {
		t.Fatal("the next phosd does not know the program")
	}
	end()
	eventually(t, "the record is removed", func() bool { return !p.Wanted("/a") })
}

// TestAttempts: an image is tried MaxAttempts times, whatever becomes of phosd and of the machine
// in between, and a checkpoint resets the count. What was given up is forgotten after the next
// restart.
func TestAttempts(t *testing.T) {
	kept := newRecords()
	root, _ := program(t)
	as := fsuid.Rights{UID: alice, GID: 5, Groups: []uint32{6}}
	open(t, kept, "s", false).Saved(root, as, "/a", true)
	for attempt := range MaxAttempts {
		if attempt%2 == 0 {
			kept.reboot(t)
		}
		p := open(t, kept, "s", false)
		if pending := p.Pending(); len(pending) != 1 || pending[0].Rights().GID != 5 || pending[0].Groups[0] != 6 {
			t.Fatalf("attempt %d: got pending %+v", attempt, pending)
		}
		if !p.Attempt("/a") {
			t.Fatalf("attempt %d is refused", attempt)
		}
		if attempt%2 == 0 { // it is restored, and the machine crashes
			p.Restored("/a", alice, root)
			if p.Attempt("/a") || len(p.Pending()) != 0 || p.Since()[0].State() != Restored {
				t.Fatalf("attempt %d: restored, and got %+v", attempt, p.Since())
			}
			kept.reboot(t)
		}
	}
	p := open(t, kept, "s", false)
	if p.Attempt("/a") || p.Since()[0].State() != Failed || p.Wanted("/a") || len(p.Pending()) != 0 {
		t.Errorf("after all attempts: got %+v", p.Since())
	}
	p.Restored("/a", alice, root) // on request
	p.Saved(root, as, "/a", true)
	if kept.reboot(t); !open(t, kept, "s", false).Attempt("/a") {
		t.Error("after a checkpoint: no attempt")
	}
	p = open(t, kept, "s", false)
	p.Failed("/a", errors.New("no"), true)
	kept.reboot(t)
	if open(t, kept, "s", false); kept.count() != 0 {
		t.Errorf("after the next restart: got %v", kept)
	}
}

// TestOthers: no user changes another user's record, and no phosd another one's.
func TestOthers(t *testing.T) {
	kept := newRecords()
	p := open(t, kept, "s", false)
	root, _ := program(t)
	p.Saved(root, fsuid.Rights{UID: alice}, "/a", true)
	before, _ := kept.All()
	self, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	p.Restored("/a", bob, self)
	p.Saved(self, fsuid.Rights{UID: bob}, "/a", true)
	p.Saved(self, fsuid.Rights{UID: bob}, "/a", false)
	if after, _ := kept.All(); !maps.EqualFunc(after, before, slices.Equal) {
		t.Errorf("got %s, want %s", after, before)
	}
	kept.reboot(t)
	_ = kept.Save("damaged", []byte("{"))
	if got := open(t, kept, "other", false).Pending(); len(got) != 0 {
		t.Errorf("another phosd: got %v", dirs(got))
	}
	if got := dirs(open(t, kept, "s", false).Pending()); !slices.Equal(got, []string{"/a"}) {
		t.Errorf("got %q, want /a", got)
	}
}

// TestMoves: a program has one record, of its newest image directory, and none once its policy does
// not ask for it.
func TestMoves(t *testing.T) {
	kept := newRecords()
	p := open(t, kept, "s", false)
	root, _ := program(t)
	as := fsuid.Rights{UID: alice}
	p.Saved(root, as, "/a", true)
	p.Saved(root, as, "/b", true)
	if p.Wanted("/a") || !p.Wanted("/b") || kept.count() != 1 {
		t.Errorf("got %v, want a record of /b", kept)
	}
	p.Saved(root, as, "/b", false)
	if kept.count() != 0 {
		t.Errorf("got %v, want no record", kept)
	}
}
