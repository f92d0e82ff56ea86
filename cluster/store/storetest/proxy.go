package storetest

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy is a unix socket that leads to another one. Its connections can be cut.
type Proxy struct {
	socket net.Listener
	to     string

	mu    sync.Mutex // guards open
	open  map[net.Conn]bool
	ended bool
}

// NewProxy listens at a path and connects to another one, until the test ends.
func NewProxy(t testing.TB, path, to string) *Proxy {
	t.Helper()
	socket, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{socket: socket, to: to, open: make(map[net.Conn]bool)}
	var serving sync.WaitGroup
	serving.Go(func() { p.serve(&serving) })
	t.Cleanup(func() {
		socket.Close()
		p.cut(true)
		serving.Wait()
	})
	return p
}

// Cut breaks all connections. What was not passed on is lost.
func (p *Proxy) Cut() { p.cut(false) }

func (p *Proxy) cut(end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = p.ended || end
	for conn := range p.open {
		conn.Close()
	}
	clear(p.open)
}

// serve accepts connections until the socket is closed.
func (p *Proxy) serve(serving *sync.WaitGroup) {
	for {
		from, err := p.socket.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		to, err := net.Dial("unix", p.to)
		if err != nil {
			from.Close()
			continue
		}
		if !p.add(from, to) {
			return
		}
		serving.Go(func() { pass(to, from) })
		serving.Go(func() { pass(from, to) })
	}
}

// add takes a pair of connections, unless the proxy has ended.
func (p *Proxy) add(from, to net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		from.Close()
		to.Close()
		return false
	}
	p.open[from], p.open[to] = true, true
	return true
}

// pass copies what one end sends, and closes both when it ends.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	to.Close()
	from.Close()
}
