package codestore

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"github.com/phos-gpu/phos/cluster/api"
)

// named returns code and its name.
func named(text string) ([]byte, *api.CodeRef) {
	sum := blake3.Sum256([]byte(text))
	return []byte(text), &api.CodeRef{Hash: sum[:], Bytes: uint64(len(text))}
}

// stream returns parts one by one, and then an error.
func stream(end error, parts ...[]byte) func() (*api.CodePart, error) {
	return func() (*api.CodePart, error) {
		if len(parts) == 0 {
			return nil, end
		}
		part := &api.CodePart{Data: parts[0]}
		parts = parts[1:]
		return part, nil
	}
}

func newStore(t *testing.T) *Store {
	t.Helper()
	s, err := NewStore(filepath.Join(t.TempDir(), "state", "code"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// content returns what a store keeps under a name; nil: nothing.
func content(t *testing.T, s *Store, ref *api.CodeRef) []byte {
	t.Helper()
	file, err := s.Open(ref)
	if errors.Is(err, api.ErrNotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	got, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// files returns how many files are in a store's directory.
func files(t *testing.T, s *Store) int {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestStore(t *testing.T) {
	s := newStore(t)
	packed, ref := named("a packed directory")
	if s.Has(ref) || content(t, s, ref) != nil {
		t.Error("an empty store has code")
	}
	for range 2 { // the second time it is there already
		if err := s.Receive(ref, stream(io.EOF, packed[:3], nil, packed[3:])); err != nil {
			t.Fatal(err)
		}
		if !s.Has(ref) || !bytes.Equal(content(t, s, ref), packed) || files(t, s) != 1 {
			t.Errorf("the store keeps %q in %d files", content(t, s, ref), files(t, s))
		}
	}
	empty, emptyRef := named("")
	if err := s.Receive(emptyRef, stream(io.EOF)); err != nil || !s.Has(emptyRef) || len(content(t, s, emptyRef)) != len(empty) {
		t.Errorf("code of no bytes: %v", err)
	}
}

// TestRefusedCode: what is not what its name says leaves nothing behind.
func TestRefusedCode(t *testing.T) {
	packed, ref := named("a packed directory")
	lost := errors.New("the connection is lost")
	for _, test := range []struct {
		name string
		ref  *api.CodeRef
		next func() (*api.CodePart, error)
		want error
	}{
		{"other bytes", ref, stream(io.EOF, []byte("a packed directorz")), api.ErrInvalid},
		{"too few", ref, stream(io.EOF, packed[1:]), api.ErrInvalid},
		{"too many", ref, stream(io.EOF, packed, packed), api.ErrInvalid},
		{"nothing", ref, stream(io.EOF), api.ErrInvalid},
		{"cut off", ref, stream(lost, packed), lost},
		{"no hash", &api.CodeRef{Bytes: ref.GetBytes()}, stream(io.EOF, packed), api.ErrInvalid},
		{"no name", nil, stream(io.EOF, packed), api.ErrInvalid},
		{"a short hash", &api.CodeRef{Hash: ref.GetHash()[:31], Bytes: ref.GetBytes()}, stream(io.EOF, packed), api.ErrInvalid},
		{"a path", &api.CodeRef{Hash: []byte("../../../../etc/phos"), Bytes: ref.GetBytes()}, stream(io.EOF, packed), api.ErrInvalid},
		{"larger than any code", &api.CodeRef{Hash: ref.GetHash(), Bytes: 1 << 62}, stream(io.EOF, packed), api.ErrTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStore(t)
			if err := s.Receive(test.ref, test.next); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if s.Has(test.ref) || files(t, s) != 0 {
				t.Errorf("the store has it: %v; it has %d files", s.Has(test.ref), files(t, s))
			}
		})
	}
}

// TestHasWholeCode: a file that has become another one, as by a power cut, is no code, and is
// replaced. It makes no difference whether this store or one before it has received the file, and
// whether it was asked for it before.
func TestHasWholeCode(t *testing.T) {
	packed, ref := named("a packed directory")
	for name, damage := range map[string]func(path string) error{
		"shortened": func(path string) error { return os.Truncate(path, 3) },
		"a hole": func(path string) error {
			return errors.Join(os.Truncate(path, 3), os.Truncate(path, int64(len(packed))))
		},
		"one byte": func(path string) error { return os.WriteFile(path, []byte("a packed directorz"), 0o600) },
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+"-", []byte("a packed directorz"), 0o600), os.Rename(path+"-", path))
		},
	} {
		for _, restarted := range []bool{false, true} {
			for _, asked := range []bool{false, true} {
				s := newStore(t)
				if err := s.Receive(ref, stream(io.EOF, packed)); err != nil {
					t.Fatal(err)
				}
				if restarted {
					s = reopened(t, s)
				}
				if asked && !s.Has(ref) {
					t.Errorf("%s: it is not there before", name)
				}
				path, err := s.path(ref)
				if err == nil {
					// Times of files are coarse. The damage must not seem to be as old as the upload.
					err = errors.Join(damage(path), os.Chtimes(path, time.Time{}, time.Unix(1, 0)))
				}
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if s.Has(ref) || content(t, s, ref) != nil {
						t.Errorf("%s: it is taken for the code (restarted %v, asked before %v)", name, restarted, asked)
					}
				}
				if err := s.Receive(ref, stream(io.EOF, packed)); err != nil || !bytes.Equal(content(t, s, ref), packed) {
					t.Errorf("%s: sent again: %v, %q", name, err, content(t, s, ref))
				}
			}
		}
	}
}

// reopened returns a store in the same directory, as after a start.
func reopened(t *testing.T, s *Store) *Store {
	t.Helper()
	again, err := NewStore(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// TestReadOnce: a file is read once after a start, and not at all where it was received.
func TestReadOnce(t *testing.T) {
	s := newStore(t)
	packed, ref := named("a packed directory")
	if err := s.Receive(ref, stream(io.EOF, packed)); err != nil {
		t.Fatal(err)
	}
	path, err := s.path(ref)
	if err != nil {
		t.Fatal(err)
	}
	if !s.verifiedOf(path).whole {
		t.Error("what was received is read again")
	}
	again := reopened(t, s)
	if !again.Has(ref) {
		t.Fatal("it is not there")
	}
	// A wrong result that was noted shows that the file is not read for the next one.
	again.verifiedOf(path).whole = false
	if again.Has(ref) {
		t.Error("the file was read a second time")
	}
}

// TestReopenedStore: code outlives a controller; what an upload has left does not.
func TestReopenedStore(t *testing.T) {
	s := newStore(t)
	packed, ref := named("a packed directory")
	if err := s.Receive(ref, stream(io.EOF, packed)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "upload-1234"), packed, 0o600); err != nil {
		t.Fatal(err)
	}
	again := reopened(t, s)
	if !again.Has(ref) || files(t, again) != 1 {
		t.Errorf("the code is there: %v; %d files", again.Has(ref), files(t, again))
	}
	info, err := os.Stat(s.dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
	if _, err := NewStore(filepath.Join(s.dir, again.mustName(t, ref))); err == nil {
		t.Error("a file is taken for the directory")
	}
}

// mustName returns the name of the file of code.
func (s *Store) mustName(t *testing.T, ref *api.CodeRef) string {
	t.Helper()
	path, err := s.path(ref)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(path)
}

// TestReceiveAtOnce: uploads of the same code do not disturb each other, and readers of it always
// see all of it.
func TestReceiveAtOnce(t *testing.T) {
	s := newStore(t)
	packed, ref := named("a packed directory")
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if err := s.Receive(ref, stream(io.EOF, packed[:5], packed[5:])); err != nil {
				t.Error(err)
			}
			file, err := s.Open(ref)
			if err != nil {
				t.Error(err)
				return
			}
			defer file.Close()
			if got, err := io.ReadAll(file); err != nil || !bytes.Equal(got, packed) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	wait.Wait()
	if files(t, s) != 1 {
		t.Errorf("%d files", files(t, s))
	}
}

// receive keeps some code, and sets when that was.
func receive(t *testing.T, s *Store, text string, at time.Time) *api.CodeRef {
	t.Helper()
	packed, ref := named(text)
	if err := s.Receive(ref, stream(io.EOF, packed)); err != nil {
		t.Fatal(err)
	}
	path, err := s.path(ref)
	if err != nil {
		t.Fatal(err)
	}
	s.verified.Delete(path) // as after a restart
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	return ref
}

// TestSweep: code that is not needed goes unless it was used or received since a time. It can be
// received again. An upload that is not complete stays.
func TestSweep(t *testing.T) {
	s := newStore(t)
	now := time.Now()
	long, since := now.Add(-2*time.Hour), now.Add(-time.Hour)
	needed, idle := receive(t, s, "needed", long), receive(t, s, "idle", long)
	asked, young := receive(t, s, "asked for", long), receive(t, s, "young", now)
	if !s.Has(asked) {
		t.Error("code that was received is not there")
	}
	upload := filepath.Join(s.dir, uploadPrefix+"1")
	if err := errors.Join(os.WriteFile(upload, nil, 0o600), os.Chtimes(upload, long, long)); err != nil {
		t.Fatal(err)
	}
	hash := hex.EncodeToString(needed.GetHash())
	removed, err := s.Sweep(func(of string) bool { return of == hash }, since)
	if err != nil || removed != 1 {
		t.Errorf("%d files removed, %v", removed, err)
	}
	if s.Has(idle) || !s.Has(needed) || !s.Has(asked) || !s.Has(young) || files(t, s) != 4 {
		t.Errorf("idle: %v; needed: %v; asked for: %v; young: %v; %d files",
			s.Has(idle), s.Has(needed), s.Has(asked), s.Has(young), files(t, s))
	}
	packed, _ := named("idle")
	if err := s.Receive(idle, stream(io.EOF, packed)); err != nil || !s.Has(idle) {
		t.Errorf("received again: %v", err)
	}
}

// TestShrink: what was not used for longest goes first, and the newest stays though it is too
// large.
func TestShrink(t *testing.T) {
	s := newStore(t)
	now := time.Now()
	old, older := receive(t, s, "0123456789", now.Add(-time.Hour)), receive(t, s, "abcdefghij", now.Add(-2*time.Hour))
	oldest := receive(t, s, "ABCDEFGHIJ", now.Add(-3*time.Hour))
	if !s.Has(oldest) { // and so it is the one that was used last
		t.Error("code that was received is not there")
	}
	for _, test := range []struct {
		bytes uint64
		left  []bool
	}{
		{30, []bool{true, true}}, {29, []bool{true, false}}, {20, []bool{true, false}}, {9, []bool{false, false}},
	} {
		if err := s.Shrink(test.bytes); err != nil {
			t.Fatal(err)
		}
		// A look at the directory, for Has is a use.
		for i, ref := range []*api.CodeRef{old, older} {
			path, _ := s.path(ref)
			if _, err := os.Stat(path); (err == nil) != test.left[i] {
				t.Errorf("with %d bytes, code %d: %v", test.bytes, i, err)
			}
		}
		if !s.Has(oldest) {
			t.Errorf("with %d bytes, what was used last is gone", test.bytes)
		}
	}
}
