package control

import (
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/copies"
	"github.com/phos-gpu/phos/cluster/control/fit"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// boundTo returns the image from which a replica that waits for a place will start; nil: from its
// beginning.
func (e *entry) boundTo(replica int) *record.Image {
	return e.Image(e.State.Cut[replica])
}

// isBoundTo reports whether a node has an image from which a replica will start.
func (e *entry) isBoundTo(node string) bool {
	for i := range e.State.Cut {
		if image := e.boundTo(i); image != nil && slices.Contains(image.Holders(), node) {
			return true
		}
	}
	return false
}

// isLiveOn reports whether a replica has processes on a node, or is being started there.
func (e *entry) isLiveOn(node string) bool {
	return slices.ContainsFunc(e.State.Replicas, func(r launch.Replica) bool { return r.Live && r.Node == node })
}

// bind notes where replicas have to be placed because of their images.
func (e *entry) bind(n *fit.Need) {
	if e.MoveTo != "" && e.State.Phase == launch.Queued {
		n.Place.Hostnames = []string{e.MoveTo}
	}
	for i := range n.Replicas {
		r := &n.Replicas[i]
		image := e.boundTo(r.Number)
		if image == nil {
			continue
		}
		r.HadGPUs = image.GPUs
		if !image.Shared {
			r.Nodes, r.Stays = image.Holders(), len(image.Key) == 0
		}
	}
}

// binding names the images from which some replicas will start, and the nodes that have them and
// send them.
func (e *entry) binding(replicas []int, nodes map[string]*node) (text string) {
	if e.MoveTo != "" && e.State.Phase == launch.Queued {
		text = "moves to " + e.MoveTo + "\n"
	}
	for _, i := range replicas {
		image := e.boundTo(i)
		if image == nil {
			continue
		}
		text += image.Name()
		for _, holder := range image.Holders() {
			n := nodes[holder]
			text += fmt.Sprintf(" %s %v", holder, n != nil && n.sharesImages())
		}
		text += "\n"
	}
	return text
}

// library is where the leader finds images: those that nodes have, and the copies that they shall
// have.
type library struct{ *Leader }

// lose drops the images of a launch that no node has any longer. It goes on from older ones, if
// some node has these.
func (l library) lose(e *entry) {
	var lost *record.Image
	for _, name := range e.State.Cut {
		if image := e.Image(name); image != nil && !l.isHeld(image) {
			lost = image
		}
	}
	if lost == nil {
		return
	}
	var instead map[int]string
	text := "it starts from its beginning"
	e.Saved = time.Time{}
	for replica, older := range e.NewestCut(l.isHeld) {
		if instead == nil {
			instead = map[int]string{}
		}
		instead[replica] = older.Name()
		text = fmt.Sprintf("it goes back to generation %d of attempt %d, saved at %s",
			older.Generation, older.Attempt, older.At.Format(time.TimeOnly))
		e.Saved = older.At
	}
	l.event(e, "image lost", fmt.Sprintf("generation %d in %s is on the disk of node %s alone, which is gone: %s",
		lost.Generation, lost.Dir, lost.Node, text))
	l.mustApply(e, launch.ImagesLost{Instead: instead})
}

// isHeld reports whether some node that is not gone has an image, or all nodes can read it.
func (l library) isHeld(i *record.Image) bool {
	return !i.Removed && (i.Shared || l.anyThere(i.Holders()))
}

// anyThere reports whether one of some nodes is not gone.
func (l library) anyThere(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		n := l.nodes[name]
		return n != nil && !n.Gone
	})
}

// endedOn tells the nodes on which a launch has run that it has completed: its images may go.
func (l *Leader) endedOn(e *entry) {
	ended := &api.EndedLaunch{Launch: e.ID, Owner: e.Owner, SharedDir: e.State.Spec.Checkpoint.Directory}
	for _, n := range e.connected(l.nodes) {
		n.session.Orders(&api.Orders{Epoch: uint64(l.Epoch()), Ended: []*api.EndedLaunch{ended}})
	}
}

// connected returns the nodes on which a launch has run, or that have copies of its images, and
// whose agents are connected.
func (e *entry) connected(nodes map[string]*node) (found []*node) {
	var names []string
	for _, span := range e.Spans {
		names = append(names, span.Node)
	}
	for i := range e.Images {
		names = append(names, e.Images[i].Copies...)
	}
	for _, name := range names {
		n := nodes[name]
		if n != nil && n.session != nil && !slices.Contains(found, n) {
			found = append(found, n)
		}
	}
	return found
}

// tellCut tells nodes which images of a launch the store has, so that they remove those of earlier
// attempts. A node that does not hear of one image hears of the next.
func (l *Leader) tellCut(e *entry) {
	if !(library{l}).allKept(e) {
		return
	}
	for i := range e.State.Replicas {
		image := e.boundTo(i)
		if image == nil || image.Attempt <= max(1, e.cutOf[i]) {
			continue
		}
		if e.cutOf == nil {
			e.cutOf = map[int]int{}
		}
		e.cutOf[i] = image.Attempt
		for k := range e.Images {
			if older := &e.Images[k]; older.Replica == i && older.Attempt < image.Attempt && !older.Removed {
				older.Removed = true
				l.changed(e)
			}
		}
		for _, n := range e.connected(l.nodes) { // some may have fetched earlier ones
			n.session.Orders(&api.Orders{Epoch: uint64(l.Epoch()), Saved: []*api.NewImage{{
				Attempt: &api.Attempt{Launch: e.ID, Replica: uint32(i), Attempt: uint32(image.Attempt)},
				Owner:   e.Owner, SharedDir: e.State.Spec.Checkpoint.Directory,
			}}})
		}
	}
}

// keptImages are the launches whose images nodes keep: those that may still go on from them, and
// failed and stopped ones as long as the cluster remembers them.
func (l *Leader) keptImages() (ids []string) {
	for e := range l.imaged {
		if e.State.Phase != launch.Ended || e.State.Result != launch.Completed {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// copy tells nodes which images they are to fetch, to keep copies of them.
func (l library) copy() {
	var all []copies.Image
	of, m := map[string]*entry{}, l.orders() // of has launches by the names of their images
	for e := range l.imaged {
		if e.State.Phase == launch.Ended {
			continue
		}
		for i := range e.State.Replicas {
			image := e.boundTo(i)
			if image == nil || image.Shared || len(image.Key) == 0 {
				continue
			}
			c := e.copiesOf(image)
			if c.Source = m.Source(image).GetAddress(); c.Source != "" {
				all = append(all, c)
				of[image.Name()] = e
			}
		}
	}
	if len(all) == 0 && !l.copies.Waits() {
		return
	}
	for name, images := range l.copies.Look(all, l.holders()) {
		n, message := l.nodes[name], &api.Copies{}
		for _, image := range images {
			message.Orders = append(message.Orders, m.Copy(&of[image].Launch, of[image].Image(image)))
		}
		if n.session != nil {
			n.session.Orders(&api.Orders{Epoch: uint64(l.Epoch()), Copies: message})
		}
	}
}

// started notes that a node has started a replica from an image, which it has then.
func (l library) started(e *entry, replica int, n *node) {
	image := e.Image(e.State.Replicas[replica].Image)
	if image != nil && !image.Shared && !slices.Contains(image.Holders(), n.Name) {
		l.holds(e, image, n)
	}
}

// holds notes that a node has an image, too.
func (l library) holds(e *entry, image *record.Image, n *node) {
	image.Copies = append(slices.Clone(image.Copies), n.Name) // others may read the list
	l.changed(e)
}

// copiesOf says of an image where it is, and where copies are of no use.
func (e *entry) copiesOf(image *record.Image) copies.Image {
	c := copies.Image{
		Name: image.Name(), Place: fmt.Sprintf("%s.%d.%d", e.ID, image.Replica, image.Attempt), Holders: image.Holders(),
		Also: e.MoveTo,
	}
	for i := range e.State.Replicas {
		r := &e.State.Replicas[i]
		if !r.Live {
			continue
		}
		c.Avoid = append(c.Avoid, r.Node)
		if r.Image == image.Name() && !slices.Contains(c.Holders, r.Node) {
			c.Holders = append(c.Holders, r.Node) // it fetches it
		}
	}
	return c
}

// holders are the nodes that may have copies.
func (l library) holders() (all []copies.Node) {
	for _, n := range l.nodes {
		all = append(all, copies.Node{
			Name: n.Name, Keeps: !n.Gone && !n.Draining, Takes: n.sharesImages(),
		})
	}
	return all
}

// hasCopies reports whether an image has the copies that it can have. Until then, older images are
// kept, too.
func (l library) hasCopies(e *entry, image *record.Image) bool {
	if image.Shared || l.copies.Peers == 0 {
		return true
	}
	where := e.copiesOf(image)
	return l.copies.Enough(&where, l.holders())
}

// allKept reports whether all images of a launch's cut have the copies that they can have, and the
// nodes that have taken them are connected. Older ones go only then, because images of different
// cuts do not agree with each other.
func (l library) allKept(e *entry) bool {
	for i := range e.State.Replicas {
		image := e.boundTo(i)
		if image == nil {
			continue
		}
		if n := l.nodes[image.Node]; n == nil || n.session == nil || !l.hasCopies(e, image) {
			return false
		}
	}
	return true
}

// copied notes what has become of a copy.
func (l library) copied(n *node, r *api.Report) {
	e, said := l.launches[r.GetLaunch()], r.GetCopied()
	if e == nil {
		return
	}
	image := e.Generation(int(r.GetReplica()), int(r.GetAttempt()), said.GetGeneration())
	switch {
	case image == nil || slices.Contains(image.Holders(), n.Name):
	case said.GetError() != "":
		l.log.Warn("image not copied", "launch", e.ID, "image", image.Name(), "node", n.Name, "error", said.GetError())
		if e.MoveTo == n.Name {
			mover(l).abandon(e, said.GetError())
		}
	default:
		l.holds(e, image, n)
		l.syncParts(e)
		mover(l).copied(e, n, image)
	}
}

// onlyOn returns the launches that can go on from images on a node's disk alone.
func (l library) onlyOn(n *node) (ids []string) {
	for e := range l.imaged {
		if e.State.Phase == launch.Ended {
			continue
		}
		for i := range e.State.Replicas {
			image := e.boundTo(i)
			if image == nil || image.Shared || !slices.Contains(image.Holders(), n.Name) {
				continue
			}
			others := slices.DeleteFunc(image.Holders(), func(h string) bool { return h == n.Name })
			if !l.anyThere(others) {
				ids = append(ids, e.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}
