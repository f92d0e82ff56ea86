package sim

import "github.com/phos-gpu/phos/scheduler/sim"

// draw makes the pictures of a result.
func (o *output) draw(*sim.Result, *settings, string) error { return nil }

// draw makes the pictures of a comparison.
func (g *grid) draw(string) error { return nil }
