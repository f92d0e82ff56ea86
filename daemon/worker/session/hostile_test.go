package session

import (
	"errors"
	"flag"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu/soft"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

var golden = flag.Bool("golden", false, "write a saved session of this version, where there is none yet")

// someSession is what a program of many calls has saved.
func someSession(t testing.TB, seed uint64, steps int) []byte {
	t.Helper()
	p := softProgram(t, "soft:2,deterministic,memory=64MiB", 1<<19)
	c := newCaller(seed)
	c.handles[abi.KindContext] = []uint64{uint64(p.context)}
	c.steps(t, steps, map[abi.Call]int{}, p)
	c.endCaptures(t, p)
	p.quiet()
	data, err := p.session.Save()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// restoreSaved restores a session that may be anything, and uses it a little if it can be.
func restoreSaved(t testing.TB, data []byte) error {
	t.Helper()
	backend, err := soft.Open("soft:2,deterministic,memory=64MiB", soft.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	}()
	p := &program{
		t:       t,
		memory:  make([]byte, 1<<16),
		arena:   make([]byte, 1<<20),
		replies: map[uint64]chan answer{},
		words:   map[uint32]uint64{},
	}
	s, err := Restore(
		Options{Backend: backend, Program: p, Arena: p, Answers: p, Share: p.share, Patience: time.Nanosecond},
		data,
	)
	if err != nil {
		return err
	}
	defer s.Close()
	p.session, p.context = s, abi.PrimaryContext(0)
	p.make(sent{number: abi.CallMemAlloc, payload: (&wire.MemAlloc{Bytesize: 100}).Append(nil), context: p.context})
	for o := range s.core.Objects.Records() {
		switch o.Kind {
		case abi.KindGraph:
			p.make(
				sent{
					number:  abi.CallGraphInstantiateWithFlags,
					payload: (&wire.GraphInstantiateWithFlags{HGraph: o.Handle()}).Append(nil),
					context: p.context,
				},
			)
		case abi.KindGraphExec:
			p.make(
				sent{
					number:  abi.CallGraphLaunch,
					payload: (&wire.GraphLaunch{HGraphExec: o.Handle()}).Append(nil),
					context: p.context,
				},
			)
		default:
		}
	}
	return nil
}

// leaves are the values in a tree that can be changed.
func leaves(v reflect.Value, found []reflect.Value) []reflect.Value {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			found = leaves(v.Elem(), found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			found = leaves(v.Field(i), found)
		}
	case reflect.Slice:
		if v.CanSet() {
			found = append(found, v)
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			found = leaves(v.Index(i), found)
		}
	default:
		if v.CanSet() {
			found = append(found, v)
		}
	}
	return found
}

// spoil changes one value of a saved session.
func spoil(r *rand.Rand, all []reflect.Value) {
	v := all[r.IntN(len(all))]
	odd := []uint64{
		0,
		1,
		2,
		1 << 20,
		1<<31 - 1,
		1<<32 - 1,
		1 << 40,
		1 << 62,
		^uint64(0),
		0x3000_0000_0000,
		0x4100_0000_0000,
		0x6000_0000_0000,
		r.Uint64N(40),
		uint64(abi.NewHandle(abi.Kind(1+r.IntN(13)), uint32(r.IntN(9)))),
	}
	switch {
	case v.CanUint():
		if v.SetUint(odd[r.IntN(len(odd))]); r.IntN(3) == 0 {
			v.SetUint(v.Uint() + 1)
		}
	case v.CanInt():
		v.SetInt(int64(odd[r.IntN(len(odd))]))
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.Kind() == reflect.String:
		v.SetString([]string{"", "double", "calls", "x"}[r.IntN(4)])
	case v.Kind() == reflect.Slice && v.Len() > 0:
		at, from := v.Index(r.IntN(v.Len())), v.Index(r.IntN(v.Len()))
		switch r.IntN(4) {
		case 0:
			v.SetLen(v.Len() - 1)
		case 1:
			v.Set(reflect.Append(v, from))
		case 2:
			at.Set(from)
		case 3:
			keep := reflect.ValueOf(at.Interface())
			at.Set(from)
			from.Set(keep)
		}
	}
}

// full reports whether the tests make all their rounds; see CONTRIBUTING.md.
func full() bool { return os.Getenv("CRASH") == "full" }

// TestRestoreOfNonsense changes a few values of saved sessions, which then decode and mean
// something else, or nothing. It must end with an error or with a session that works; and nothing
// of one that failed may be left.
func TestRestoreOfNonsense(t *testing.T) {
	count := rounds.Of(400, 4000) // FuzzRestore goes on from there
	switch {
	case full():
		count = 40000
	case testing.Short():
		count = 200
	}
	r := rand.New(rand.NewPCG(3, 5))
	refused, restored := 0, 0
	for i := 0; i < count; {
		var data []byte
		// and closed at once: its windows are large
		t.Run("made", func(t *testing.T) { data = someSession(t, uint64(i), 300) })
		if err := restoreSaved(t, data); err != nil {
			t.Fatalf("unchanged: %v", err)
		}
		for range 50 {
			i++
			s, err := saved.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			all := leaves(reflect.ValueOf(s), nil)
			for range 1 + r.IntN(3) {
				spoil(r, all)
			}
			changed, err := saved.Encode(s)
			if err != nil {
				continue // an op of no known type
			}
			if restoreSaved(t, changed) == nil {
				restored++
			} else {
				refused++
			}
		}
	}
	if refused == 0 || restored == 0 {
		t.Errorf("%d refused, %d restored", refused, restored)
	}
}

// FuzzRestore restores arbitrary bytes.
func FuzzRestore(f *testing.F) {
	for seed := range uint64(3) {
		f.Add(someSession(f, seed, 60))
	}
	f.Fuzz(func(t *testing.T, data []byte) { _ = restoreSaved(t, data) })
}

// TestRestoreOldVersions restores a session of each version of the encoding that there ever was.
func TestRestoreOldVersions(t *testing.T) {
	path := filepath.Join("testdata", "version1.session")
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && *golden {
		data = someSession(t, 12, 700)
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := saved.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[abi.Kind]int{}
	for _, o := range s.Objects {
		kinds[o.Kind]++
	}
	if len(kinds) != 13 {
		t.Errorf("it has objects of only %d kinds: %v", len(kinds), kinds)
	}
	if err := restoreSaved(t, data); err != nil {
		t.Error(err)
	}
}
