package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func TestOf(t *testing.T) {
	otherwise := config.Policy{Dir: "/ckpt", Every: config.Interval(time.Hour), Keep: 2, On: config.Occasions{"drain"}}
	for _, test := range []struct {
		name      string
		said      *api.Policy
		otherwise config.Policy
		holds     bool
		dir       string
	}{
		{"no policy", nil, config.Policy{}, false, ""},
		{"phosd.toml alone", nil, otherwise, true, "/ckpt"},
		{"pos.yaml wins", &api.Policy{Dir: "mine", EveryMilliseconds: 5000}, otherwise, true, "mine"},
		{"pos.yaml wants none", &api.Policy{}, otherwise, false, ""},
		{"a directory alone asks for nothing", &api.Policy{Dir: "mine"}, config.Policy{}, false, "mine"},
		{"an occasion alone", &api.Policy{Dir: "mine", On: []string{"drain"}}, config.Policy{}, true, "mine"},
	} {
		got, holds := Of(test.said, test.otherwise)
		if holds != test.holds || got.Dir != test.dir {
			t.Errorf("%s: %+v, %v; want %v, %q", test.name, got, holds, test.holds, test.dir)
		}
	}
}

func TestDue(t *testing.T) {
	const every = 10 * time.Minute
	p := Policy{Dir: "d", Every: every}
	for _, test := range []struct {
		name           string
		history        History
		earliest, last time.Duration // from start
	}{
		{"never saved", History{Known: start}, every / 2, every},
		{"saved", History{Known: start, Last: start.Add(time.Minute)}, time.Minute + every*9/10, time.Minute + every},
		{
			"failed",
			History{Known: start, Last: start, Tried: start.Add(time.Hour), Failed: true},
			time.Hour + every/8,
			time.Hour + every/8,
		},
		{"overdue when phosd came", History{Known: start, Last: start.Add(-time.Hour)}, 0, time.Minute},
		{"nearly due when phosd came", History{Known: start, Last: start.Add(-every / 2)}, every * 4 / 10, every / 2},
	} {
		seen := map[time.Time]bool{}
		for seed := range uint64(64) {
			test.history.Seed = seed
			due := Due(p, test.history)
			if from := due.Sub(start); from < test.earliest || from > test.last {
				t.Errorf("%s, program %d: due after %s, want %s to %s", test.name, seed, from, test.earliest, test.last)
			}
			seen[due] = true
		}
		if test.earliest != test.last && len(seen) < 60 {
			t.Errorf("%s: 64 programs are due at %d times", test.name, len(seen))
		}
	}
	if due := Due(Policy{Dir: "d"}, History{Known: start}); !due.IsZero() {
		t.Errorf("without an interval: due at %s", due)
	}
	quick := Policy{Dir: "d", Every: time.Second}
	if due := Due(quick, History{Known: start, Tried: start, Failed: true}); due.Sub(start) != time.Second {
		t.Errorf("a short interval is retried after %s", due.Sub(start))
	}
}

func TestNames(t *testing.T) {
	p := Program{PID: 17, Job: "../a b\x1b/" + strings.Repeat("x", 100), Rank: 3, Started: start}
	if got, want := p.Fill("/c/{job}/{pid}.{rank}"), "/c/_a_b__"+strings.Repeat("x", 58)+"/17.3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (Program{PID: 17, Started: start}).Name(); got != "program-17-20300102T030405" {
		t.Errorf("%q", got)
	}
	if strings.ContainsAny(p.Name(), "/ \x1b") {
		t.Errorf("%q", p.Name())
	}
}

const user = 4242

func self(t *testing.T) proc.Identity {
	t.Helper()
	id, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// writable is a directory of a user's.
func writable(t *testing.T, uid int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: other users' directories")
	}
	dir, err := os.MkdirTemp("/tmp", "phos-policy-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOpen(t *testing.T) {
	id, as := self(t), fsuid.Rights{UID: user, GID: user}
	dir := writable(t, user)
	if file, err := Open(id, as, filepath.Join(dir, "a/b")); err != nil {
		t.Errorf("without its parent, in a directory of the user: %v", err)
	} else {
		_ = file.Close()
	}
	if file, err := Open(id, as, "/tmp/phos-missing/a/b"); !errors.Is(err, os.ErrNotExist) ||
		!strings.HasSuffix(err.Error(), "is missing: create it first: mkdir -p '/tmp/phos-missing/a'") {
		t.Errorf("without its parent, elsewhere: got %v, %v", file, err)
	}
	made, err := Open(id, as, filepath.Join(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	info, err := os.Stat(filepath.Join(dir, "b"))
	if err != nil || info.Mode().Perm() != private {
		t.Errorf("%v %v", info, err)
	}
	mine, err := made.Stat()
	if err != nil || !os.SameFile(info, mine) {
		t.Errorf("another directory is open: %v", err)
	}
	closed := writable(t, 0)
	for _, refused := range []string{filepath.Join(closed, "x"), "/proc/1/root/tmp", "/root"} {
		if file, err := Open(id, as, refused); err == nil {
			t.Errorf("%s was opened as user %d", file.Name(), user)
			_ = file.Close()
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if file, err := Open(id, as, filepath.Join(dir, "file")); err == nil {
		t.Errorf("%s is no directory", file.Name())
	}
	gone := id
	gone.StartTicks++
	if file, err := Open(gone, as, dir); err == nil {
		t.Errorf("%s was opened for a process that has ended", file.Name())
	}
}

func TestOpenBase(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second finds what the first has made
		base, err := OpenBase(filepath.Join(dir, "base"))
		if err != nil {
			t.Fatal(err)
		}
		if info, err := base.Stat(); err != nil || info.Mode().Perm() != shared {
			t.Errorf("%v %v", info, err)
		}
		_ = base.Close()
	}
	if file, err := OpenBase(filepath.Join(dir, "a/b")); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), filepath.Join(dir, "a")+" is missing: create it first") {
		t.Errorf("without its parent: got %v, %v", file, err)
	}
	if file, err := OpenBase("/dev/null"); err == nil {
		t.Errorf("%s is no directory", file.Name())
	}
}

func TestOpenShared(t *testing.T) {
	dir, as := writable(t, 0), fsuid.Rights{UID: user, GID: user}
	base, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	for range 2 { // the second finds what the first has made
		made, err := OpenShared(base, as, "job-1")
		if err != nil {
			t.Fatal(err)
		}
		_ = made.Close()
	}
	own := filepath.Join(dir, strconv.Itoa(user))
	if info, err := os.Stat(own); err != nil || info.Mode().Perm() != private {
		t.Errorf("%v %v", info, err)
	}
	// A link in place of a user's directory leads nowhere.
	if err := os.RemoveAll(own); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(writable(t, user), own); err != nil {
		t.Fatal(err)
	}
	if file, err := OpenShared(base, as, "job-1"); err == nil {
		t.Errorf("%s was opened through a link", file.Name())
	}
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(own, 0o777); err != nil {
		t.Fatal(err)
	}
	if file, err := OpenShared(base, as, "job-1"); err == nil {
		t.Errorf("%s is another user's", file.Name())
	}
}

// TestOpenSharedAtOnce: programs of one user get their directories at the same time, and after a
// phosd that was killed while it made the user's directory.
func TestOpenSharedAtOnce(t *testing.T) {
	as := fsuid.Rights{UID: user, GID: user}
	for round := range 50 {
		base, err := os.Open(writable(t, 0))
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		if round == 0 { // what it would leave
			if err := os.Mkdir(filepath.Join(base.Name(), UserDirectory(user)+newSuffix), private); err != nil {
				t.Fatal(err)
			}
		}
		var opening sync.WaitGroup
		for program := range 4 {
			opening.Go(func() {
				made, err := OpenShared(base, as, fmt.Sprint("job-", program))
				if err != nil {
					t.Error(err)
					return
				}
				_ = made.Close()
			})
		}
		opening.Wait()
		if entries, err := os.ReadDir(base.Name()); err != nil || len(entries) != 1 {
			t.Errorf("got %v, %v, want the user's directory alone", entries, err)
		}
		if entries, err := os.ReadDir(filepath.Join(base.Name(), UserDirectory(user))); err != nil || len(entries) != 4 {
			t.Errorf("got %v, %v, want four directories of programs", entries, err)
		}
	}
}
