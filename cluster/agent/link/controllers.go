package link

import (
	"slices"

	"google.golang.org/grpc/metadata"

	"github.com/phos-gpu/phos/cluster/api"
)

// controllers are the addresses of the controllers, the one to try next first.
type controllers struct {
	all  []string
	next int
	lead string // what a controller has named as the leader
}

// pick returns the address to try next.
func (c *controllers) pick() string {
	if c.lead != "" {
		address := c.lead
		c.lead = ""
		return address
	}
	c.next++
	return c.all[(c.next-1)%len(c.all)]
}

// named notes which controller leads, if the one that refused has said so. Only one that is known
// is believed.
func (c *controllers) named(trailer metadata.MD) {
	if named := trailer.Get(api.LeaderKey); len(named) > 0 && slices.Contains(c.all, named[0]) {
		c.lead = named[0]
	}
}

// learn takes the leader's list of all controllers, and reports whether it is another one.
func (c *controllers) learn(all []string) bool {
	if len(all) == 0 || slices.Equal(all, c.all) {
		return false
	}
	c.all, c.next = slices.Clone(all), 0
	return true
}
