package localapi

import (
	"context"
	"sync"
)

// Generations has the last known generation of each launch of a node.
type Generations struct {
	mu      sync.Mutex
	last    map[string]uint32
	changed chan struct{} // closed when one has changed
}

// NewGenerations returns a table without launches.
func NewGenerations() *Generations {
	return &Generations{last: map[string]uint32{}, changed: make(chan struct{})}
}

// Note notes the generation of a launch.
func (g *Generations) Note(launch string, generation uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last[launch] == generation {
		return
	}
	g.last[launch] = generation
	close(g.changed)
	g.changed = make(chan struct{})
}

// Forget drops a launch that has nothing left on the node.
func (g *Generations) Forget(launch string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.last, launch)
}

// Await waits until the generation of a launch is above a number, or the context ends.
func (g *Generations) Await(ctx context.Context, launch string, above uint32) {
	for {
		g.mu.Lock()
		last, changed := g.last[launch], g.changed
		g.mu.Unlock()
		if last > above {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
