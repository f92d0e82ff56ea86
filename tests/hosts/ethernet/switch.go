package ethernet

import (
	"hash/fnv"
	"io"
	"maps"
	"sync"
)

// Switch connects ports by lines. Like a real one it learns from the frames which address is behind
// which port, and sends frames to unknown addresses everywhere.
type Switch struct {
	seed uint64

	mu      sync.RWMutex
	ports   map[string]io.ReadWriteCloser
	learned map[address]string
	lines   map[route]*line
	readers sync.WaitGroup
}

// route is a direction between two ports.
type route struct{ from, to string }

// number is different for different routes, so that they make different random choices.
func (r route) number() uint64 {
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, r.from+"\x00"+r.to)
	return sum.Sum64()
}

// NewSwitch returns a switch without ports. The random choices of its lines depend on the seed.
func NewSwitch(seed uint64) *Switch {
	return &Switch{
		seed: seed, ports: map[string]io.ReadWriteCloser{}, learned: map[address]string{}, lines: map[route]*line{},
	}
}

// Plug connects a port of that name, which has been free. Each Read of it returns a whole frame,
// and each Write takes one.
func (s *Switch) Plug(name string, port io.ReadWriteCloser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ports[name] = port
	s.readers.Go(func() { s.receive(name, port) })
}

// Unplug closes a port. The conditions of its lines stay for the next port of that name; frames on
// their way to it are lost.
func (s *Switch) Unplug(name string) {
	for _, each := range s.remove(name) {
		each.drop()
	}
}

// remove closes a port and forgets the addresses behind it. It returns the lines that lead to it.
func (s *Switch) remove(name string) (leading []*line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if port := s.ports[name]; port != nil {
		_ = port.Close()
		delete(s.ports, name)
	}
	maps.DeleteFunc(s.learned, func(_ address, behind string) bool { return behind == name })
	for at, each := range s.lines {
		if at.to == name {
			leading = append(leading, each)
		}
	}
	return leading
}

// Close unplugs all ports, and waits until all frames are received.
func (s *Switch) Close() {
	for _, name := range s.names() {
		s.Unplug(name)
	}
	s.readers.Wait()
}

// names returns the names of all ports.
func (s *Switch) names() (names []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for name := range s.ports {
		names = append(names, name)
	}
	return names
}

// Conditions returns those of the line from one port to another.
func (s *Switch) Conditions(from, to string) Conditions { return s.line(from, to).get() }

// Change changes the conditions of the line from one port to another. Neither port needs to be
// there.
func (s *Switch) Change(from, to string, change func(*Conditions)) { s.line(from, to).set(change) }

// line returns the line from one port to another.
func (s *Switch) line(from, to string) *line {
	at := route{from, to}
	s.mu.RLock()
	found := s.lines[at]
	s.mu.RUnlock()
	if found != nil {
		return found
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines[at] == nil {
		s.lines[at] = newLine(s.seed^at.number(), func(frame []byte) { s.write(to, frame) })
	}
	return s.lines[at]
}

// write gives a frame to a port. A port that is gone, or whose host is, loses it.
func (s *Switch) write(name string, frame []byte) {
	s.mu.RLock()
	port := s.ports[name]
	s.mu.RUnlock()
	if port != nil {
		_, _ = port.Write(frame)
	}
}

// receive forwards the frames of a port until it is closed.
func (s *Switch) receive(name string, port io.Reader) {
	buffer := make([]byte, largestFrame)
	for {
		bytes, err := port.Read(buffer)
		if err != nil {
			return
		}
		s.forward(name, buffer[:bytes])
	}
}

// forward sends a frame along the lines that lead to its receiver.
func (s *Switch) forward(from string, frame []byte) {
	receiver, sender, ok := addresses(frame)
	if !ok {
		return
	}
	s.learn(sender, from)
	s.mu.RLock()
	to, known := s.learned[receiver]
	s.mu.RUnlock()
	if known && !receiver.group() {
		if to != from {
			s.line(from, to).send(frame)
		}
		return
	}
	for _, to := range s.names() {
		if to != from {
			s.line(from, to).send(frame)
		}
	}
}

// learn remembers the port behind which an address is.
func (s *Switch) learn(sender address, port string) {
	s.mu.RLock()
	known := s.learned[sender]
	s.mu.RUnlock()
	if known == port || sender.group() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ports[port] != nil { // it may have been unplugged
		s.learned[sender] = port
	}
}
