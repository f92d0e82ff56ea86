package hosts

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts/ethernet"
)

// ears are what arrives at hosts: the text of datagrams.
type ears struct {
	t    *testing.T
	from *net.UDPConn
	come chan string
}

const port = ":7777"

// listenUDP opens a socket on each host.
func listenUDP(t *testing.T, hosts ...*Host) (heard []*ears) {
	t.Helper()
	for _, host := range hosts {
		e := &ears{t: t, come: make(chan string, 100)}
		err := host.Do(func() error {
			conn, err := net.ListenPacket("udp4", host.Address.String()+port)
			if err == nil {
				e.from = conn.(*net.UDPConn)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.from.Close() })
		go e.listen()
		heard = append(heard, e)
	}
	return heard
}

func (e *ears) listen() {
	buffer := make([]byte, 1500)
	for {
		n, _, err := e.from.ReadFrom(buffer)
		if err != nil {
			return
		}
		e.come <- string(buffer[:n])
	}
}

// send sends a text to a host.
func (e *ears) send(to *Host, text string) {
	e.t.Helper()
	if _, err := e.from.WriteTo([]byte(text), net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.Address, 7777))); err != nil {
		e.t.Fatal(err)
	}
}

// expect waits for the next texts, which must be these.
func (e *ears) expect(want ...string) {
	e.t.Helper()
	for _, each := range want {
		select {
		case got := <-e.come:
			if got != each {
				e.t.Fatalf("heard %q, want %q", got, each)
			}
		case <-time.After(harness.Patience):
			e.t.Fatalf("heard nothing, want %q", each)
		}
	}
}

// TestCutOneWay: a cut in one direction, between some hosts, is just that.
func TestCutOneWay(t *testing.T) {
	fleet := New(t, 3, Options{})
	a, b, c := fleet[0], fleet[1], fleet[2]
	heard := listenUDP(t, a, b, c)
	atA, atB, atC := heard[0], heard[1], heard[2]
	// What a host sends to c after a lost text arrives after it was lost: its frames are handled in
	// their order.
	for round, cut := range []func(){func() { a.CutOff(Out, b) }, func() { b.CutOff(In, a) }} {
		cut()
		atA.send(b, fmt.Sprint("lost ", round))
		atA.send(c, "passes")
		atC.expect("passes")
		atB.send(a, "other way")
		atA.expect("other way")
		b.Heal()
		atA.send(b, "healed")
		atB.expect("healed")
	}
	b.CutOff(Both)
	atA.send(b, "lost")
	atC.send(b, "lost")
	atB.send(a, "lost")
	atB.send(c, "lost")
	atA.send(c, "from a")
	atC.expect("from a")
	atC.send(a, "from c")
	atA.expect("from c")
	b.Heal(a)
	atA.send(b, "1")
	atB.send(a, "2")
	atB.expect("1")
	atA.expect("2") // and the lost ones of b have been handled
	b.Heal()
	atC.send(b, "3")
	atB.expect("3")
	atB.send(c, "4")
	atC.expect("4")
}

// TestOldNeighbours: a host that cannot be reached does not forget those that it hears, however
// long that lasts.
func TestOldNeighbours(t *testing.T) {
	fleet := New(t, 2, Options{})
	fleet[0].CutOff(In)
	heard := listenUDP(t, fleet...)
	// No address was learnt, and an answer would not arrive.
	fleet[0].Shell("ip neighbour flush nud reachable nud stale nud failed dev eth0")
	heard[0].send(fleet[1], "1")
	heard[1].expect("1")
}

// TestNothingElse: neither the machine nor the outside is reached from a host, nor a host from the
// machine.
func TestNothingElse(t *testing.T) {
	h := New(t, 1, Options{})[0]
	machine, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer machine.Close()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	for _, address := range []string{machine.Addr().String(), "192.0.2.1:80"} {
		if _, err := h.Dial(ctx, "tcp4", address); err == nil || ctx.Err() != nil {
			t.Errorf("dial %s: %v", address, err)
		}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range addresses {
		if network, ok := each.(*net.IPNet); ok && network.IP.To4() != nil && network.IP.To4()[0] == 198 {
			t.Errorf("the machine has the address %v", each)
		}
	}
}

// echo answers on a host what is sent to it.
func echo(t *testing.T, h *Host) (address string) {
	t.Helper()
	listener, err := h.Listen("tcp4", h.Address.String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); _, _ = io.Copy(conn, conn) }()
		}
	}()
	return listener.Addr().String()
}

// dial connects from a host.
func dial(t *testing.T, h *Host, address string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	conn, err := h.Dial(ctx, "tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * harness.Patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// roundTrip returns how long it takes until a byte comes back.
func roundTrip(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	start := time.Now()
	if _, err := conn.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

// TestSlow: a round trip takes at least twice the delay, to the named hosts only. Once the host is
// healed, what is still on its way arrives.
func TestSlow(t *testing.T) {
	fleet := New(t, 3, Options{})
	toB := dial(t, fleet[0], echo(t, fleet[1]))
	toC := dial(t, fleet[0], echo(t, fleet[2]))
	before := roundTrip(t, toB)
	const delay = 100 * time.Millisecond
	fleet[1].Slow(delay)
	slow := roundTrip(t, toB)
	t.Logf("%v, and %v with %v each way", before, slow, delay)
	if slow < 2*delay {
		t.Errorf("a round trip takes %v, want more than %v", slow, 2*delay)
	}
	fleet[0].Slow(time.Hour, fleet[1])
	if _, err := toB.Write([]byte{2}); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, toC)
	fleet[0].Heal(fleet[1])
	var answer [1]byte
	if _, err := io.ReadFull(toB, answer[:]); err != nil || answer[0] != 2 {
		t.Errorf("after it is healed: %v, %v", answer, err)
	}
	roundTrip(t, toB)
}

// TestTransfer: what one host sends arrives at another, whole and in order, over lines of all
// kinds, while the other direction is busy, too.
func TestTransfer(t *testing.T) {
	fleet := New(t, 2, Options{Seed: 7})
	address := echo(t, fleet[1])
	for _, test := range []struct {
		name       string
		bytes      int64
		conditions ethernet.Conditions
	}{
		{"immediate", 32 << 20, ethernet.Conditions{}},
		{"slow", 16 << 20, ethernet.Conditions{Delay: 5 * time.Millisecond}},
		{"jitter", 4 << 20, ethernet.Conditions{Delay: time.Millisecond, Jitter: time.Millisecond}},
		{"loss", 4 << 20, ethernet.Conditions{Loss: 0.05}},
		{"narrow", 1 << 20, ethernet.Conditions{BytesPerSecond: 10 << 20}},
	} {
		t.Run(test.name, func(t *testing.T) {
			fleet[0].Shape(Both, test.conditions)
			conn := dial(t, fleet[0], address)
			sent := sha256.New()
			start := time.Now()
			wrote := make(chan error, 1)
			go func() {
				random := rand.NewChaCha8([32]byte{1})
				_, err := io.CopyN(io.MultiWriter(conn, sent), random, test.bytes)
				wrote <- errors.Join(err, conn.(*net.TCPConn).CloseWrite())
			}()
			received := sha256.New()
			got, err := io.Copy(received, conn)
			if err := errors.Join(err, <-wrote); err != nil {
				t.Fatal(err)
			}
			if got != test.bytes || string(sent.Sum(nil)) != string(received.Sum(nil)) {
				t.Errorf("%d bytes came back, want %d", got, test.bytes)
			}
			took := time.Since(start)
			t.Logf("%.1f MB/s there and back", float64(test.bytes)/took.Seconds()/1e6)
			if rate := test.conditions.BytesPerSecond; rate > 0 && took < time.Duration(test.bytes)*time.Second/time.Duration(rate)/2 {
				t.Errorf("%d bytes took %v at %d bytes/s", test.bytes, took, rate)
			}
		})
	}
}
