package storetest

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy is a unix socket that leads to another one. Its connections can be cut, and held up.
type Proxy struct {
	socket net.Listener
	to     string

	mu      sync.Mutex // guards all below
	changed *sync.Cond
	open    map[net.Conn]bool
	held    bool
	ended   bool
}

// NewProxy listens at a path and connects to another one, until the test ends.
func NewProxy(t testing.TB, path, to string) *Proxy {
	t.Helper()
	socket, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{socket: socket, to: to, open: make(map[net.Conn]bool)}
	p.changed = sync.NewCond(&p.mu)
	var serving sync.WaitGroup
	serving.Go(func() { p.serve(&serving) })
	t.Cleanup(func() {
		socket.Close()
		p.end()
		serving.Wait()
	})
	return p
}

// Cut breaks all connections. What was not passed on is lost.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

// cut closes all connections; its caller holds the lock.
func (p *Proxy) cut() {
	for conn := range p.open {
		conn.Close()
	}
	clear(p.open)
}

// Hold makes both ends of all connections wait, or lets them go on. Nothing is lost.
func (p *Proxy) Hold(held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
	p.changed.Broadcast()
}

// end closes all connections, also those to come.
func (p *Proxy) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.changed.Broadcast()
	p.cut()
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
		serving.Go(func() { p.pass(to, from) })
		serving.Go(func() { p.pass(from, to) })
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
func (p *Proxy) pass(to, from net.Conn) {
	_, _ = io.Copy(gate{to, p}, from)
	to.Close()
	from.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, to)
	delete(p.open, from)
}

// gate is a connection whose writes wait while the proxy holds.
type gate struct {
	net.Conn
	proxy *Proxy
}

// Write waits until nothing is held, and writes.
func (g gate) Write(bytes []byte) (int, error) {
	g.proxy.mu.Lock()
	for g.proxy.held && !g.proxy.ended {
		g.proxy.changed.Wait()
	}
	g.proxy.mu.Unlock()
	return g.Conn.Write(bytes)
}
