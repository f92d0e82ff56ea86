package images

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity/authority"
)

// TestFetch: an image and its working directory come whole. A second fetch gets the directory
// alone, as it is then.
func TestFetch(t *testing.T) {
	p := start(t, 1, 2, 3)
	bytes, err := p.count(p.address)
	if err != nil || bytes < 3*image.ChunkBytes {
		t.Fatalf("%d bytes, %v", bytes, err)
	}
	p.verify(p.target)
	p.hasNote("kept")
	check(t, os.WriteFile(filepath.Join(p.work, "note"), []byte("later"), 0o640))
	var asked *api.MayFetchRequest
	lend := p.lend
	p.lend = func(a *api.MayFetchRequest) (Loan, error) { asked = a; return lend(a) }
	if bytes, err = p.count(p.address); err != nil || bytes > 10<<10 {
		t.Errorf("the second time %d bytes, %v", bytes, err)
	}
	p.verify(p.target)
	p.hasNote("later")
	if at := asked.GetAttempt(); asked.GetNode() != "b" || asked.GetKey() == "" || at.GetLaunch() != saved.Launch ||
		int(at.GetReplica()) != saved.Replica || int(at.GetAttempt()) != saved.Attempt || asked.GetGeneration() != 1 {
		t.Errorf("asked is %v", asked)
	}
}

// hasNote checks the working directory that was fetched.
func (p *peers) hasNote(want string) {
	p.Helper()
	if got, err := os.ReadFile(filepath.Join(p.works, "note")); err != nil || string(got) != want {
		p.Errorf("the working directory has %q, %v; want %q", got, err, want)
	}
}

// TestTwin: contents that another image of the node has do not come again.
func TestTwin(t *testing.T) {
	p := start(t, 1, 2, 3, 4)
	twin, broken := t.TempDir(), t.TempDir()
	writeImage(t, twin, 9, 3, 2, 1)
	check(t, os.WriteFile(filepath.Join(broken, "file"), nil, 0o600))
	bytes, err := p.count(p.address, broken, twin, filepath.Join(twin, "none"))
	if most := uint64(image.ChunkBytes + 100<<10); err != nil || bytes < image.ChunkBytes || bytes > most {
		t.Errorf("%d bytes came, %v; one chunk was missing", bytes, err)
	}
	p.verify(p.target)
	check(t, os.RemoveAll(twin))
	p.verify(p.target)
}

// relay passes connections on to an address, and ends them as cut says: after so many bytes of the
// answer; below 0: never.
func relay(t *testing.T, to string, cut func(connection int) int64) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for number := 0; ; number++ {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			go func() {
				if most := cut(number); most >= 0 {
					_, _ = io.CopyN(near, far, most)
				} else {
					_, _ = io.Copy(near, far)
				}
				_ = near.Close()
				_ = far.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

// TestBrokenConnections: what was cut off is asked for again until it has come, however often.
func TestBrokenConnections(t *testing.T) {
	p := start(t, 1, 2, 3)
	cuts := []int64{0, 100, 3000, 100_000, image.ChunkBytes, 3*image.ChunkBytes + 50<<10, -1}
	var made atomic.Int32
	address := relay(t, p.address, func(connection int) int64 {
		made.Store(int32(connection) + 1)
		return cuts[min(connection, len(cuts)-1)]
	})
	if err := p.fetch(address); err != nil {
		t.Fatal(err)
	}
	if int(made.Load()) < len(cuts)-1 {
		t.Errorf("%d connections were made", made.Load())
	}
	p.verify(p.target)
	p.hasNote("kept")
}

// TestAlwaysCut: a node that never sends all is given up, and no image is left.
func TestAlwaysCut(t *testing.T) {
	p := start(t, 1, 2, 3)
	p.patience = 300 * time.Millisecond
	err := p.fetch(relay(t, p.address, func(int) int64 { return 5000 }))
	if err == nil || !strings.Contains(err.Error(), "image of attempt l-one.1.3 on node a") {
		t.Errorf("got %v", err)
	}
	p.hasNothing()
}

// hasNothing checks that the second node has no image.
func (p *peers) hasNothing() {
	p.Helper()
	dir, err := openImage(p.target)
	if err != nil {
		return
	}
	defer dir.Close()
	if all, err := dir.Generations(); err != nil || len(all) > 0 {
		p.Errorf("it has generations %v, %v", all, err)
	}
}

// TestRefusals: what will not change is not asked for again, and the reason is told.
func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		loan Loan
		err  error
		says string
	}{
		"not permitted": {err: fmt.Errorf("%w: node b starts nothing from it", api.ErrNotPermitted), says: "starts nothing"},
		"no launch":     {err: fmt.Errorf("%w: launch l-one", api.ErrNotFound), says: "not found: launch l-one"},
		"no image":      {loan: Loan{As: self(), Order: SendOrder{Dir: "/none", Generation: 1}}, says: "/none: no such file"},
		"no work":       {loan: Loan{As: self(), Order: SendOrder{Work: []string{"/none/0"}}}, says: "directory /none/0"},
		"more work": {
			loan: Loan{As: self(), Order: SendOrder{Work: []string{"/etc/apt", "/etc/apt"}}}, says: "in no working directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, 1)
			asked := 0
			if test.loan.Order.Dir == "" {
				test.loan.Order = SendOrder{Dir: p.image, Generation: 1, Work: test.loan.Order.Work}
			}
			p.lend = func(*api.MayFetchRequest) (Loan, error) { asked++; return test.loan, test.err }
			if err := p.fetch(p.address); err == nil || !strings.Contains(err.Error(), test.says) || asked != 1 {
				t.Errorf("asked %d times: %v, want %q", asked, err, test.says)
			}
			if test.loan.Order.Work == nil {
				p.hasNothing()
			}
		})
	}
}

// TestStalls: a node that sends nothing more, and does not end the connection either, is given up,
// and so is one that answers nothing.
func TestStalls(t *testing.T) {
	for name, after := range map[string]int64{"at once": 0, "in the handshake": 1000, "in the image": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			p := start(t, 1, 2)
			p.patience = 300 * time.Millisecond
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			check(t, err)
			defer listener.Close()
			go func() {
				for {
					near, err := listener.Accept()
					if err != nil {
						return
					}
					far, err := net.Dial("tcp", p.address)
					if err != nil {
						return
					}
					t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
					go func() { _, _ = io.Copy(far, near) }()
					go func() { _, _ = io.CopyN(near, far, after) }()
				}
			}()
			if err := p.fetch(listener.Addr().String()); !errors.Is(err, ErrUnreachable) {
				t.Errorf("got %v", err)
			}
			p.hasNothing()
		})
	}
}

// TestManyAtOnce: a node that sends as many images as it may lets others wait for their turn.
func TestManyAtOnce(t *testing.T) {
	p := start(t, 1)
	const many = 3 * maxSent
	ended := make(chan error, many)
	for range many {
		q := *p
		q.target, q.works = t.TempDir(), filepath.Join(t.TempDir(), "work")
		go func() {
			_, err := q.count(q.address)
			ended <- err
		}()
	}
	for range many {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestOtherIsRemoved: an image that was offered and is gone when its contents are needed does not
// end the fetch: they are sent then.
func TestOtherIsRemoved(t *testing.T) {
	p := start(t, 1, 2)
	twin := t.TempDir()
	writeImage(t, twin, 2, 3)
	lend, asked := p.lend, 0
	p.lend = func(a *api.MayFetchRequest) (Loan, error) {
		asked++
		check(t, os.RemoveAll(twin)) // it has been offered
		return lend(a)
	}
	check(t, p.fetch(p.address, twin))
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
	p.verify(p.target)
	p.hasNote("kept")
}

// TestAsksAgain: a node that cannot ask the leader now is asked again.
func TestAsksAgain(t *testing.T) {
	p := start(t, 1)
	lend, asked := p.lend, 0
	p.lend = func(a *api.MayFetchRequest) (Loan, error) {
		if asked++; asked < 3 {
			return Loan{}, errors.New("no controller leads this node now")
		}
		return lend(a)
	}
	check(t, p.fetch(p.address))
	p.verify(p.target)
}

// TestImpostors: an address that is not that of the node gets nothing, and its answer is not taken.
func TestImpostors(t *testing.T) {
	p := start(t, 1)
	p.patience = 300 * time.Millisecond
	asked := false
	lend := p.lend
	p.lend = func(a *api.MayFetchRequest) (Loan, error) { asked = true; return lend(a) }
	other, err := authority.Create("abcdefghijklmnop", time.Now())
	check(t, err)
	for name, test := range map[string]struct{ address, says string }{
		"another node": {p.serve(member(t, p.ca, "c")), "not the node that is wanted"},
		"another CA":   {p.serve(member(t, other, "a")), "unknown authority"},
	} {
		if err := p.fetch(test.address); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
	p.wants = member(t, other, "b")
	if err := p.fetch(p.address); err == nil || asked {
		t.Errorf("a node of another CA: %v, asked %v", err, asked)
	}
	p.hasNothing()
}
