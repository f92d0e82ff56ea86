package record

import (
	"fmt"
	"time"
)

// Image is a generation of an image of a replica.
type Image struct {
	// Replica and Attempt are those that were saved.
	Replica int `json:"replica"`
	Attempt int `json:"attempt"`
	// Node is where the attempt ran. Shared means that all nodes can read the image.
	Node   string `json:"node"`
	Shared bool   `json:"shared,omitempty"`
	// Dir is the image directory, and Work the directory of the attempt's working directories, which
	// a restore needs.
	Dir        string `json:"dir"`
	Generation uint64 `json:"generation"`
	Work       string `json:"work,omitempty"`
	// Key is that of the node's phosd, by which another node knows a shared image for genuine. People
	// are not shown it.
	Key []byte `json:"key,omitempty"`
	// Copies are other nodes that have it on their disks. Removed means that nodes were told to remove
	// it: a later attempt was saved.
	Copies  []string `json:"copies,omitempty"`
	Removed bool     `json:"removed,omitempty"`
	// Cut is the number of the cut, if several replicas were saved in it: images with the same one
	// agree with each other.
	Cut int `json:"cut,omitempty"`
	// GPUs are those that the attempt had.
	GPUs []int `json:"gpus,omitempty"`

	At           time.Time     `json:"at"`
	Bytes        uint64        `json:"bytes,omitempty"`
	WrittenBytes uint64        `json:"written_bytes,omitempty"`
	Pause        time.Duration `json:"pause_ns,omitempty"`
}

// Name returns what a launch's state calls the image.
func (i *Image) Name() string { return fmt.Sprintf("%s:%s#%d", i.Node, i.Dir, i.Generation) }

// Holders returns the nodes that have it on their disks, the one that has taken it first.
func (i *Image) Holders() []string { return append([]string{i.Node}, i.Copies...) }

// maxImages is how many images a launch remembers of each replica.
const maxImages = 20

// AddImage appends an image, and forgets the oldest ones that the state does not name.
func (l *Launch) AddImage(image Image) {
	l.Images = append(l.Images, image)
	most := maxImages * max(1, len(l.State.Cut))
	for i := 0; i < len(l.Images)-1 && len(l.Images) > most; {
		if l.names(&l.Images[i]) {
			i++
			continue
		}
		l.Images = append(l.Images[:i:i], l.Images[i+1:]...)
	}
}

// names reports whether the state may start a replica from an image.
func (l *Launch) names(image *Image) bool {
	for _, name := range l.State.Cut {
		if name == image.Name() {
			return true
		}
	}
	for i := range l.State.Replicas {
		if l.State.Replicas[i].Image == image.Name() {
			return true
		}
	}
	return false
}

// NewestOf returns the newest image of a replica for which holds returns true; nil: there is none.
func (l *Launch) NewestOf(replica int, holds func(*Image) bool) *Image {
	for i := len(l.Images) - 1; i >= 0; i-- {
		if image := &l.Images[i]; image.Replica == replica && holds(image) {
			return image
		}
	}
	return nil
}

// NewestCut returns the images of the newest cut that has one of each replica of State.Cut for
// which holds returns true, by replica; nil: there is none. The images of launches of one replica
// are cuts by themselves.
func (l *Launch) NewestCut(holds func(*Image) bool) map[int]*Image {
	for k := len(l.Images) - 1; k >= 0; k-- {
		found := map[int]*Image{}
		for replica := range l.State.Cut {
			image := l.NewestOf(replica, func(i *Image) bool { return i.Cut == l.Images[k].Cut && holds(i) })
			if image != nil {
				found[replica] = image
			}
		}
		if len(found) > 0 && len(found) == len(l.State.Cut) {
			return found
		}
	}
	return nil
}

// Generation returns an image by the attempt that was saved; nil: it is not known.
func (l *Launch) Generation(replica, attempt int, generation uint64) *Image {
	return l.NewestOf(replica, func(i *Image) bool { return i.Attempt == attempt && i.Generation == generation })
}

// Superseded reports whether nothing goes on from an image any more: a later attempt of its replica
// was saved. Its node removes it then.
func (l *Launch) Superseded(image *Image) bool {
	last := l.Image(l.State.Cut[image.Replica])
	return last != nil && image.Attempt < last.Attempt
}

// Image returns the image that a launch's state calls so; nil: it is not known.
func (l *Launch) Image(name string) *Image {
	for i := range l.Images {
		if l.Images[i].Name() == name {
			return &l.Images[i]
		}
	}
	return nil
}
