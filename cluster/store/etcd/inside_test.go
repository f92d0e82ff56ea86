package etcd

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/internal/linux/boottime"
)

// TestLateRenewal: a renewal that is answered after the end of the lease changes nothing.
func TestLateRenewal(t *testing.T) {
	alarm, err := boottime.NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	until := boottime.Now()
	l := &leadership{until: until, alarm: alarm, lost: make(chan struct{}), stop: func() {}}
	l.extend(until + time.Hour)
	if l.Until() != until {
		t.Errorf("a lease that has ended lasts until %v", l.Until())
	}
	l.until = boottime.Now() + time.Hour
	until = l.until
	l.extend(until - time.Minute) // answers in another order than the requests
	if l.Until() != until {
		t.Errorf("a renewal made the lease shorter: %v", l.Until())
	}
	l.extend(until + time.Hour)
	if l.Until() != until+time.Hour {
		t.Errorf("a renewal in time was not taken: %v", l.Until())
	}
	l.end()
	l.end()
	<-l.Lost()
	l.extend(until + 2*time.Hour)
	if l.Until() != until+time.Hour {
		t.Errorf("a leadership was renewed after its end: %v", l.Until())
	}
}

// TestLasts: the lease counts from the time at which the renewal was sent, and etcd may give less
// than was asked for.
func TestLasts(t *testing.T) {
	s := &Store{config: Config{Lease: 5 * time.Second}}
	for seconds, most := range map[int64]time.Duration{1: time.Second, 5: 5 * time.Second, 60: 5 * time.Second} {
		if got := s.lasts(time.Hour, seconds) - time.Hour; got > most || got < most*9/10 {
			t.Errorf("%d seconds of etcd last %v", seconds, got)
		}
	}
}

// failing is a writer with an error after some bytes.
type failing struct{ left int }

var errWriter = errors.New("no space")

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errWriter
	}
	return len(p), nil
}

// FuzzSealed passes a stream on in pieces. It is accepted if and only if the hash at its end is
// right and it has whole pages.
func FuzzSealed(f *testing.F) {
	page := bytes.Repeat([]byte("p"), pageSize)
	sum := sha256.Sum256(page)
	f.Add(append(bytes.Clone(page), sum[:]...), uint16(7))
	f.Add(append(bytes.Clone(page), page[:32]...), uint16(512))
	f.Add(sum[:], uint16(1))
	f.Add([]byte{}, uint16(1))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint16) {
		var got bytes.Buffer
		checked := &sealed{to: &got, sum: sha256.New()}
		for rest := stream; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			if _, err := checked.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		err := checked.finish()
		content := max(len(stream)-sha256.Size, 0)
		sum := sha256.Sum256(stream[:content])
		intact := content > 0 && content%pageSize == 0 && bytes.Equal(stream[content:], sum[:])
		if intact != (err == nil) || intact && !bytes.Equal(got.Bytes(), stream) {
			t.Errorf("%d bytes, intact %v: %v", len(stream), intact, err)
		}
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Error(err)
		}
	})
}

func TestSealedWriterFails(t *testing.T) {
	content := make([]byte, 4*pageSize)
	for _, left := range []int{0, pageSize, 4*pageSize - 1} {
		checked := &sealed{to: &failing{left: left}, sum: sha256.New()}
		_, err := io.Copy(checked, bytes.NewReader(append(bytes.Clone(content), make([]byte, 32)...)))
		if !errors.Is(err, errWriter) || checked.failed == nil {
			t.Errorf("after %d bytes: %v", left, err)
		}
	}
	sum := sha256.Sum256(content)
	checked := &sealed{to: &failing{left: len(content)}, sum: sha256.New()}
	if _, err := checked.Write(append(content, sum[:]...)); err != nil {
		t.Fatal(err)
	}
	if err := checked.finish(); !errors.Is(err, errWriter) {
		t.Errorf("the hash was not written: %v", err)
	}
}
