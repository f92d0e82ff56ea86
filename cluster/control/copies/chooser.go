package copies

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
)

// Image is an image that a launch needs.
type Image struct {
	// Name is that of the generation. Place is the same for all generations of an attempt, so that
	// their copies are on the same nodes, and only what has changed is sent.
	Name, Place string
	// Source is where it is fetched from.
	Source string
	// Holders are the nodes that have it, or are fetching it to start from it.
	Holders []string
	// Avoid are nodes that get no copy: they run the launch. Also is one that gets a copy in any case;
	// empty: none.
	Avoid []string
	Also  string
}

// Node is a node that may hold images.
type Node struct {
	Name string
	// Keeps means that what it has can be counted on: it is not gone, and not drained. Takes means
	// that it can get more now.
	Keeps, Takes bool
}

// Chooser decides, and knows what it has decided.
type Chooser struct {
	// Peers is on how many nodes an image shall be besides the one that has taken it.
	Peers int

	ordered map[string]map[string]string // by node, the sources of the images that it is to fetch, by name
}

// Look decides for all images that are needed now. It returns, by node, the images that it is to
// fetch, for the nodes for which that has changed, or a source has.
func (c *Chooser) Look(images []Image, nodes []Node) (changed map[string][]string) {
	next, named := map[string]map[string]string{}, byName(nodes)
	for i := range images {
		for _, node := range c.missing(&images[i], nodes, named) {
			if next[node] == nil {
				next[node] = map[string]string{}
			}
			next[node][images[i].Name] = images[i].Source
		}
	}
	changed = map[string][]string{}
	for _, n := range nodes {
		if !maps.Equal(next[n.Name], c.ordered[n.Name]) {
			changed[n.Name] = slices.Sorted(maps.Keys(next[n.Name]))
		}
	}
	c.ordered = next
	return changed
}

// Forget has a node told again what it is to fetch: its agent is another one, or has failed.
func (c *Chooser) Forget(node string) { delete(c.ordered, node) }

// Ordered reports whether a node is to fetch an image.
func (c *Chooser) Ordered(node, image string) bool {
	_, ordered := c.ordered[node][image]
	return ordered
}

// Waits reports whether some node is to fetch an image.
func (c *Chooser) Waits() bool { return len(c.ordered) > 0 }

// Enough reports whether an image has all copies that it can have.
func (c *Chooser) Enough(i *Image, nodes []Node) bool {
	return len(c.missing(i, nodes, byName(nodes))) == 0
}

// byName returns nodes by their names.
func byName(nodes []Node) map[string]Node {
	found := make(map[string]Node, len(nodes))
	for _, n := range nodes {
		found[n.Name] = n
	}
	return found
}

// missing returns the nodes that are to fetch an image. The same nodes are chosen as long as they
// can take it, and different ones for different launches. Most images have enough copies: for them
// it looks at their holders alone.
func (c *Chooser) missing(i *Image, nodes []Node, named map[string]Node) (chosen []string) {
	want := c.Peers + 1
	for _, holder := range i.Holders {
		if named[holder].Keeps {
			want--
		}
	}
	if named[i.Also].Takes && !slices.Contains(i.Holders, i.Also) {
		chosen = []string{i.Also}
		want--
	}
	if want <= 0 {
		return chosen
	}
	var candidates []string
	for _, n := range nodes {
		if n.Takes && n.Keeps && n.Name != i.Also && !slices.Contains(i.Holders, n.Name) && !slices.Contains(i.Avoid, n.Name) {
			candidates = append(candidates, n.Name)
		}
	}
	slices.SortFunc(candidates, func(a, b string) int {
		return cmp.Or(cmp.Compare(weight(i.Place, b), weight(i.Place, a)), cmp.Compare(a, b))
	})
	return append(chosen, candidates[:min(want, len(candidates))]...)
}

// weight is how much a node suits an image, the same each time.
func weight(image, node string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(image + "\x00" + node)) // it never fails
	sum := h.Sum64()
	sum ^= sum >> 33 // the last letters count as much as the first ones
	sum *= 0xff51afd7ed558ccd
	return sum ^ sum>>33
}
