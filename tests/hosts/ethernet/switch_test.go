package ethernet

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// port is a port in memory: what the test puts into in is read, and what is written is in got.
type port struct {
	in     chan []byte
	closed chan struct{}

	mu  sync.Mutex
	got []arrival
}

// arrival is a frame's number, and when it came.
type arrival struct {
	payload string
	after   time.Duration
}

var began time.Time

func (p *port) Read(buffer []byte) (int, error) {
	select {
	case frame := <-p.in:
		return copy(buffer, frame), nil
	case <-p.closed:
		return 0, io.EOF
	}
}

func (p *port) Write(frame []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, arrival{string(frame[smallestFrame:]), time.Since(began)})
	return len(frame), nil
}

func (p *port) Close() error { close(p.closed); return nil }

// take waits until nothing more arrives by itself, and returns what has arrived.
func (p *port) take() []arrival {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.got
	p.got = nil
	return got
}

var (
	macA, macB, macC = address{2, 0, 0, 0, 0, 1}, address{2, 0, 0, 0, 0, 2}, address{2, 0, 0, 0, 0, 3}
	everyone         = address{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
)

func frame(to, from address, payload string) []byte {
	return slices.Concat(make([]byte, virtioBytes), to[:], from[:], []byte{8, 0}, []byte(payload))
}

// fixture is a switch with three ports, in a bubble of virtual time.
type fixture struct {
	*Switch
	a, b, c *port
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began = time.Now()
		f := &fixture{Switch: NewSwitch(1)}
		for name, where := range map[string]**port{"a": &f.a, "b": &f.b, "c": &f.c} {
			*where = &port{in: make(chan []byte), closed: make(chan struct{})}
			f.Plug(name, *where)
		}
		defer f.Close()
		test(t, f)
	})
}

// meet lets the switch learn all addresses.
func (f *fixture) meet() {
	for from, by := range map[address]*port{macA: f.a, macB: f.b, macC: f.c} {
		by.in <- frame(everyone, from, "hello")
	}
	for _, each := range []*port{f.a, f.b, f.c} {
		each.take()
	}
}

func payloads(arrivals []arrival) (found []string) {
	for _, each := range arrivals {
		found = append(found, each.payload)
	}
	return found
}

func expect(t *testing.T, at *port, want ...string) {
	t.Helper()
	if got := payloads(at.take()); !slices.Equal(got, want) {
		t.Errorf("arrived: %q, want %q", got, want)
	}
}

// TestLearning: a frame to an unknown address, or to a group, goes to all other ports; one to a
// known address goes there only, and one to a neighbour behind the same port nowhere.
func TestLearning(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		f.a.in <- frame(macB, macA, "1")
		expect(t, f.b, "1")
		expect(t, f.c, "1")
		f.b.in <- frame(macA, macB, "2")
		expect(t, f.a, "2")
		expect(t, f.c)
		f.a.in <- frame(macB, macA, "3")
		expect(t, f.b, "3")
		expect(t, f.c)
		f.a.in <- frame(address{1, 0, 0x5e, 0, 0, 1}, macA, "4")
		expect(t, f.b, "4")
		expect(t, f.c, "4")
		f.a.in <- frame(macA, macC, "5") // now c is behind a, too
		synctest.Wait()
		f.b.in <- frame(macC, macB, "6")
		expect(t, f.c)
		expect(t, f.a, "6")
		f.a.in <- []byte("short")
		f.a.in <- nil
		expect(t, f.b)
	})
}

// TestUnplug: what is on its way to a port that is unplugged does not reach the next one of that
// name, and its address is unknown.
func TestUnplug(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		f.meet()
		f.Change("a", "b", func(c *Conditions) { c.Delay = time.Second })
		f.a.in <- frame(macB, macA, "lost")
		synctest.Wait()
		f.Unplug("b")
		f.Unplug("b")
		next := &port{in: make(chan []byte), closed: make(chan struct{})}
		f.Plug("b", next)
		f.a.in <- frame(macB, macA, "next")
		time.Sleep(2 * time.Second)
		expect(t, next, "next")
		expect(t, f.b)
		expect(t, f.c, "next")
	})
}

// TestCut: a cut line drops what is on its way and what follows, in its direction only.
func TestCut(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		f.meet()
		f.Change("a", "b", func(c *Conditions) { c.Delay = time.Second })
		f.a.in <- frame(macB, macA, "on its way")
		synctest.Wait()
		f.Change("a", "b", func(c *Conditions) { c.Cut = true })
		f.a.in <- frame(macB, macA, "cut")
		f.a.in <- frame(everyone, macA, "to all")
		f.b.in <- frame(macA, macB, "back")
		expect(t, f.a, "back")
		time.Sleep(2 * time.Second)
		expect(t, f.b)
		expect(t, f.c, "to all")
		f.Change("a", "b", func(c *Conditions) { *c = Conditions{} })
		f.a.in <- frame(macB, macA, "healed")
		expect(t, f.b, "healed")
		if got := f.Conditions("a", "b"); got != (Conditions{}) {
			t.Errorf("conditions: %+v", got)
		}
	})
}

// TestDelay: frames arrive after exactly the delay, in order, also those that were sent when the
// delay was longer.
func TestDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		f.meet()
		f.Change("a", "b", func(c *Conditions) { c.Delay = 10 * time.Second })
		f.a.in <- frame(macB, macA, "1")
		synctest.Wait()
		time.Sleep(time.Second)
		f.a.in <- frame(macB, macA, "2")
		synctest.Wait()
		time.Sleep(time.Second)
		f.Change("a", "b", func(c *Conditions) { c.Delay = 3 * time.Second }) // both are due in 3 s now
		f.a.in <- frame(macB, macA, "3")
		synctest.Wait()
		f.Change("a", "b", func(c *Conditions) { c.Delay = time.Second })
		f.a.in <- frame(macB, macA, "4")
		synctest.Wait()
		time.Sleep(time.Second)
		f.a.in <- frame(macB, macA, "5")
		time.Sleep(time.Minute)
		want := []arrival{
			{"1", 3 * time.Second}, {"2", 3 * time.Second}, {"3", 3 * time.Second}, {"4", 3 * time.Second}, {"5", 4 * time.Second},
		}
		if got := f.b.take(); !slices.Equal(got, want) {
			t.Errorf("arrived: %v, want %v", got, want)
		}
	})
}

// TestRate: a line of limited rate delivers no faster, and drops what would wait too long.
func TestRate(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		f.meet()
		large := string(bytes.Repeat([]byte("x"), 10000-smallestFrame))
		f.Change("a", "b", func(c *Conditions) { c.BytesPerSecond = 100_000; c.Delay = time.Second })
		for range 10 {
			f.a.in <- frame(macB, macA, large)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		got := f.b.take()
		// The first three begin after 0, 100 and 200 ms.
		if len(got) != 3 {
			t.Fatalf("%d frames arrived, want 3", len(got))
		}
		for i, each := range got {
			if want := time.Second + time.Duration(i+1)*100*time.Millisecond; each.after != want {
				t.Errorf("frame %d: after %v, want %v", i, each.after, want)
			}
		}
	})
}

// TestLossAndJitter: about the given share is lost, jitter makes frames overtake each other within
// its limits, and the same seed makes the same choices.
func TestLossAndJitter(t *testing.T) {
	const frames = 1000
	var first []arrival
	for round := range 2 {
		inBubble(t, func(t *testing.T, f *fixture) {
			f.meet()
			f.Change("a", "b", func(c *Conditions) {
				*c = Conditions{Loss: 0.3, Delay: time.Second, Jitter: time.Second}
			})
			for i := range frames {
				f.a.in <- frame(macB, macA, fmt.Sprintf("%04d", i))
			}
			synctest.Wait()
			time.Sleep(time.Minute)
			got := f.b.take()
			if lost := frames - len(got); lost < frames/5 || lost > frames*2/5 {
				t.Errorf("%d frames were lost, want about %d", lost, frames*3/10)
			}
			if slices.IsSorted(payloads(got)) {
				t.Error("no frame overtook another")
			}
			for _, each := range got {
				if each.after < time.Second || each.after > 2*time.Second {
					t.Errorf("frame %s: after %v", each.payload, each.after)
				}
			}
			if round == 0 {
				first = got
			} else if !slices.Equal(got, first) {
				t.Error("the same seed made other choices")
			}
		})
	}
}

// TestFullQueue: a line holds a limited number of bytes.
func TestFullQueue(t *testing.T) {
	delivered := 0
	l := newLine(1, func([]byte) { delivered++ })
	l.set(func(c *Conditions) { c.Delay = time.Hour })
	one := make([]byte, 1<<20)
	for range 100 {
		l.send(one)
	}
	if len(l.queue) != mostQueuedBytes>>20 {
		t.Errorf("%d frames wait, want %d", len(l.queue), mostQueuedBytes>>20)
	}
	l.drop()
	l.set(func(c *Conditions) { *c = Conditions{} })
	if l.send(one); delivered != 1 || l.bytes != 0 {
		t.Errorf("%d frames delivered, %d bytes left", delivered, l.bytes)
	}
}

// TestFlood: ports that come and go while frames are sent; the race detector looks on.
func TestFlood(t *testing.T) {
	s := NewSwitch(1)
	var senders sync.WaitGroup
	for i := range 3 {
		senders.Go(func() {
			name := fmt.Sprint(i)
			for range 50 {
				here, there := net.Pipe() // each Write of it is a Read
				s.Plug(name, here)
				received := make(chan struct{})
				go func() { defer close(received); _, _ = io.Copy(io.Discard, there) }()
				for j := range 20 {
					if _, err := there.Write(frame(address{2, 0, 0, 0, 0, byte(j % 4)}, address{2, 0, 0, 0, 0, byte(i)}, "x")); err != nil {
						t.Error(err)
					}
					s.Change(name, fmt.Sprint(j%3), func(c *Conditions) { c.Delay = time.Duration(j%2) * time.Microsecond })
				}
				s.Unplug(name)
				<-received
			}
		})
	}
	senders.Wait()
	s.Close()
}
