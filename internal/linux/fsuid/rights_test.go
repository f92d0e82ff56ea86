package fsuid_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

const ordinary = 54321

func openAs(r fsuid.Rights, path string) error {
	return r.Do(func() error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		return file.Close()
	})
}

func TestRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: acts as other users")
	}
	dir, err := os.MkdirTemp("/var/tmp", "rights-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	create := func(name string, uid, gid int, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, uid, gid), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	user := fsuid.Rights{UID: ordinary, GID: ordinary, Groups: []uint32{777}}
	for _, c := range []struct {
		name     string
		uid, gid int
		mode     os.FileMode
		allowed  bool
	}{
		{"root's", 0, 0, 0o600, false},
		{"of root's group", 0, 0, 0o640, false},
		{"readable by all", 0, 0, 0o644, true},
		{"own", ordinary, 0, 0o600, true},
		{"of own group", 0, ordinary, 0o040, true},
		{"of supplementary group", 0, 777, 0o040, true},
		{"of foreign group", 0, 778, 0o040, false},
	} {
		path := create(c.name, c.uid, c.gid, c.mode)
		err := openAs(user, path)
		if allowed := err == nil; allowed != c.allowed || err != nil && !errors.Is(err, unix.EACCES) {
			t.Errorf("%s: %v, want allowed %v", c.name, err, c.allowed)
		}
		if err := openAs(fsuid.Rights{}, path); err != nil {
			t.Errorf("%s, as root: %v", c.name, err)
		}
	}
	made := filepath.Join(dir, "new")
	if err := user.Do(func() error { return os.Mkdir(made, 0o755) }); !errors.Is(err, unix.EACCES) {
		t.Errorf("created a directory without permission: %v", err)
	}
}

func TestOtherThreadsKeepRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: acts as other users")
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	user := fsuid.Rights{UID: ordinary, GID: ordinary}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if openAs(user, secret) == nil {
					t.Error("the user opened root's file")
				}
			}
		})
		all.Go(func() {
			for range 50 {
				if err := openAs(fsuid.Rights{}, secret); err != nil {
					t.Errorf("root could not open its file: %v", err)
				}
			}
		})
	}
	all.Wait()
}
